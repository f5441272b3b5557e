"""Windows and queues over time as an animated GIF, for a lecture."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from anabranch.figures.over_time import FLOWS, first_users
from anabranch.figures.panels import caption, first_seed, style_sheet
from anabranch.figures.style import DASHES, INK, LABELS
from anabranch.result import Result
from anabranch.scenario import path_names

WIDTH, HEIGHT = 8.0, 5.0
"""Inches."""
DOTS = 80
"""Per inch."""
PER_SECOND = 12
"""Frames."""


def animate(result: Result, file: Path, frames: int = 100) -> None:
    """Write the first users' windows above the queues, of the first algorithm and seed.

    Raises ValueError for the result of a sweep.
    """
    if len(result.cases) > 1:
        raise ValueError("an animation shows one point of a sweep: run one of them")
    with style_sheet(WIDTH):
        figure = Figure(figsize=(WIDTH, HEIGHT))
        moving = _curves(result, figure)
        end = result.scenario.duration_s
        now = [axes.axvline(0, color=LABELS, linewidth=0.8) for axes in figure.axes]

        def show(frame: int) -> list[Line2D]:
            time = end * (frame + 1) / frames
            for line, x, y in moving:
                shown = x <= time
                line.set_data(x[shown], y[shown])
            for mark in now:
                mark.set_xdata([time, time])
            return [line for line, _, _ in moving]

        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # that of the first frame serves for all
        film = FuncAnimation(figure, show, frames=frames, blit=False)
        film.save(file, writer=PillowWriter(fps=PER_SECOND), dpi=DOTS)


Values = np.ndarray[Any, np.dtype[np.float64]]
Curve = tuple[Line2D, Values, Values]
"""A line that grows, and all of its points."""


def _curves(result: Result, figure: Figure) -> list[Curve]:
    name = result.algorithms[0]
    windows = first_users(result)
    windows = windows[windows["algorithm"] == name]
    queues = result.link_samples
    queues = queues[(queues["seed"] == result.seeds[0]) & (queues["algorithm"] == name)]
    upper, lower = figure.subplots(2, 1, sharex=True)
    names = path_names(result.scenario)
    moving: list[Curve] = []
    flows = list(windows["flow"].unique())
    for (flow, path), rows in windows.groupby(["flow", "path"], sort=False):
        colour = FLOWS[flows.index(flow) % len(FLOWS)]
        several = len(names[str(flow)]) > 1
        label = f"{flow}, via {names[str(flow)][path]}" if several else str(flow)
        (line,) = upper.plot([], [], DASHES[int(path) % len(DASHES)], color=colour, label=label)
        moving.append((line, rows["time_s"].to_numpy(), rows["window_packets"].to_numpy()))
    for number, (link, rows) in enumerate(queues.groupby("link", sort=False)):
        dash = DASHES[number % len(DASHES)]
        (line,) = lower.plot([], [], dash, color=INK, linewidth=1.0, label=str(link))
        moving.append((line, rows["time_s"].to_numpy(), rows["queue_packets"].to_numpy()))
    upper.set_xlim(0, result.scenario.duration_s)
    upper.set_ylim(0, 1.05 * np.nanmax([1.0, *windows["window_packets"]]))
    lower.set_ylim(0, 1.05 * max(1.0, queues["queue_packets"].max()))
    upper.set_ylabel("window (packets)")
    lower.set_ylabel("queue (packets)")
    lower.set_xlabel("time (s)")
    for axes in (upper, lower):
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small")
    text = caption(result, f"{name}, first user of each flow, {first_seed(result)}")
    figure.suptitle(text, x=0.01, ha="left", fontsize="small", color=LABELS)
    return moving
