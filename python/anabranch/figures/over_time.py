"""Figures over time, of the first seed: windows, queues, rates, and the plane of two windows."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from anabranch.figures.panels import (
    LONGEST,
    Drawing,
    Panel,
    caption,
    first_seed,
    shown,
    style_sheet,
    titled,
)
from anabranch.figures.per_rule import rules_that_ran
from anabranch.figures.style import DASHES, INK, LABELS, PAPER, colours, style
from anabranch.formats import short
from anabranch.result import Result
from anabranch.scenario import path_names

FLOWS = colours("olia", "rsf-lb", "ewtcp", "coupled", "balia", "cubic", "wvegas", "semicoupled")
"""Colours of flows, beside which no rule is shown."""

MOST_POINTS = 75
"""Points over time of stacked rates: shorter means would be noise."""

THIN: dict[Any, Any] = {"lines.linewidth": 0.7}

Draw = Callable[[str, pd.DataFrame, str, Axes], None]
"""Draws a flow or link: its name, its samples, and the colour."""


def windows(result: Result) -> Drawing:
    """Congestion windows of the first user of each flow over time, first seed: a line per path.

    A line begins and ends with its user.
    """
    samples = first_users(result)
    names = path_names(result.scenario)

    def draw(flow: str, rows: pd.DataFrame, colour: str, axes: Axes) -> None:
        for path, line in rows.groupby("path"):
            dash = DASHES[int(path) % len(DASHES)]
            label = f"via {short(names[flow][path], LONGEST)}"
            axes.plot(line["time_s"], line["window_packets"], dash, color=colour, label=label)

    return _grid(result, samples, "flow", "window (packets)", "first user of each flow", draw)


def queues(result: Result) -> Drawing:
    """Queues of all links over time, first seed."""
    samples = result.link_samples
    samples = samples[samples["seed"] == result.seeds[0]]
    samples = samples.assign(rule=samples["algorithm"])

    def draw(_link: str, rows: pd.DataFrame, colour: str, axes: Axes) -> None:
        axes.plot(rows["time_s"], rows["queue_packets"], color=colour)

    return _grid(result, samples, "link", "queue (packets)", "every link", draw)


def rates(result: Result) -> Drawing:
    """Goodput of every flow over time, stacked, first seed: a panel per algorithm.

    Dashed: what each flow would have if all users had the same, of the mean total.
    """
    samples = result.flow_samples[result.flow_samples["seed"] == result.seeds[0]]
    samples, more = shown(samples, "flow")
    flows = list(samples["flow"].unique())
    rows = samples.groupby(["algorithm", "time_s", "flow"], sort=False)["goodput_mbps"].sum()
    by_time = rows.unstack("flow")[flows].fillna(0.0)
    users = result.flows.groupby("flow")["user"].nunique()[flows]
    panels = [
        Panel(
            partial(_stack, by_time.loc[name], users, result.scenario.warmup_s),
            str(name),
            "time (s)",
            "goodput (Mbps)",
            row="all",
        )
        for name in result.algorithms
    ]
    entries = [
        (Patch(color=_colour(i)), f"{users[flow]}× {flow}" if users[flow] > 1 else flow)
        for i, flow in enumerate(flows)
    ]
    equal = (Line2D([], [], color=INK, linestyle="--", linewidth=1.0), "equal shares per user")
    text = caption(result, f"goodputs, stacked{more}, {first_seed(result)}")
    width = min(9.0, max(5.0, 3.0 * len(panels)))
    return Drawing(panels, text, width, 2.2, legend=[*entries, equal])


def plane(result: Result) -> Drawing:
    """The windows of two paths against each other, first user of each flow that has two.

    After the warm-up, first seed, a panel per flow and algorithm; a ring is the start, a disc the
    end. Raises ValueError where no flow has two paths.
    """
    samples = first_users(result)
    samples = samples[samples["time_s"] > result.scenario.warmup_s]
    names = path_names(result.scenario)
    samples = samples[samples["flow"].map(lambda flow: len(names[flow]) > 1)]
    if samples.empty:
        raise ValueError("plane: no flow has two paths")
    samples, more = shown(samples, "flow")

    def draw(rows: pd.DataFrame, right: float, colour: str, axes: Axes) -> None:
        x, y = (rows[rows["path"] == path]["window_packets"].to_numpy() for path in (0, 1))
        axes.plot(x, y, color=colour, linewidth=0.6, alpha=0.8)
        known = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
        for place, face in (known[0], PAPER), (known[-1], colour):
            axes.plot(x[place], y[place], "o", color=INK, markerfacecolor=face, markersize=5)
        axes.set_xlim(0, right)

    panels = []
    for flow, of_flow in samples.groupby("flow", sort=False):
        one, other = (f"window via {short(name, LONGEST)}" for name in names[str(flow)][:2])
        rules = rules_that_ran(result, of_flow)
        right = 1.05 * float(of_flow[of_flow["path"] == 0]["window_packets"].max())
        for algorithm in result.algorithms:
            rows = of_flow[of_flow["algorithm"] == algorithm]
            rule = rows["rule"].iloc[0]
            line = partial(draw, rows, right, style(rule, rules)[0])
            beside = algorithm if len(result.algorithms) > 1 else rule
            panels.append(Panel(line, titled(str(flow), rule, beside), one, other, row=str(flow)))
    text = caption(
        result, f"first user of each flow{more}, {first_seed(result)}, after the warm-up, packets"
    )
    columns = min(3, len(result.algorithms))
    return Drawing(panels, text, max(4.0, 3.0 * columns), 2.4, least=1.7, share_x=False)


def first_users(result: Result) -> pd.DataFrame:
    """Samples of the paths of each flow's first user, first seed, with the flow's rule.

    Windows before and after the user are NaN.
    """
    samples = result.path_samples
    samples = samples[(samples["user"] == 0) & (samples["seed"] == result.seeds[0])]
    users = result.flows[["algorithm", "seed", "flow", "rule", "user", "start_s", "stop_s"]]
    samples = samples.merge(users, on=["algorithm", "seed", "flow", "user"])
    present = samples["time_s"].between(samples["start_s"], samples["stop_s"])
    return samples.assign(window_packets=samples["window_packets"].where(present))


def _grid(
    result: Result, samples: pd.DataFrame, row: str, label: str, what: str, draw: Draw
) -> Drawing:
    """Small multiples: per flow or link a panel per algorithm, in the colour of its rule."""
    samples, more = shown(samples, row)
    rules = rules_that_ran(result, samples)
    several = len(result.algorithms) > 1
    panels = []
    for name in samples[row].unique():
        for number, algorithm in enumerate(result.algorithms, 1):
            rows = samples[(samples[row] == name) & (samples["algorithm"] == algorithm)]
            rule = rows["rule"].iloc[0]
            last = number == len(result.algorithms)
            paths = rows["path"].nunique() if "path" in rows else 1
            line = partial(_thin, draw, name, rows, style(rule, rules)[0])
            title = titled(name, rule, algorithm if several else rule)
            legend = last and paths > 1
            panels.append(Panel(line, title, "time (s)", label, row=str(name), legend=legend))
    width = min(9.0, max(5.0, 3.0 * len(result.algorithms)))
    return Drawing(panels, caption(result, f"{what}{more}, {first_seed(result)}"), width)


def _thin(draw: Draw, name: str, rows: pd.DataFrame, colour: str, axes: Axes) -> None:
    with matplotlib.rc_context(THIN):
        draw(name, rows, colour, axes)


def _stack(rows: pd.DataFrame, users: pd.Series, warmup_s: float, axes: Axes) -> None:
    """The areas of flows above each other, and where equal shares would put their edges."""
    every = -(-len(rows) // MOST_POINTS)
    means = rows.groupby(np.arange(len(rows)) // every).mean()
    time = rows.index.to_numpy()[every - 1 :: every]
    means = means.iloc[: len(time)]
    axes.stackplot(
        time, means.to_numpy().T, colors=[_colour(i) for i in range(len(users))], linewidth=0
    )
    total = rows[rows.index > warmup_s].sum(axis=1).mean()
    for edge in users.cumsum() * total / users.sum():
        axes.axhline(edge, color=INK, linestyle="--", linewidth=1.0)
    axes.set_xlim(0, float(time[-1]))


def _colour(flow: int) -> str:
    return FLOWS[flow % len(FLOWS)]


# Windows and queues over time as an animated GIF, for a lecture.


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
    windows, more = shown(windows[windows["algorithm"] == name], "flow")
    queues = result.link_samples
    queues = queues[(queues["seed"] == result.seeds[0]) & (queues["algorithm"] == name)]
    queues, more_links = shown(queues, "link")
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
    text = caption(
        result, f"{name}, first user of each flow{more}{more_links}, {first_seed(result)}"
    )
    figure.suptitle(text, x=0.01, ha="left", fontsize="small", color=LABELS)
    return moving
