"""Figures of a Result: goodput per flow, windows over time, queues over time."""

from collections.abc import Callable
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from anabranch.figures.style import BARS, DASHES, PAPER, SHEET, save, style
from anabranch.result import Result
from anabranch.scenario import path_names


def goodput(result: Result) -> Figure:
    """Mean goodput per user of each flow, a bar per algorithm, with 95 % intervals over seeds."""
    summary = _of_one_point(result).summary()
    flows = list(summary["flow"].unique())
    algorithms = result.algorithms
    width = 0.8 / len(algorithms)
    with matplotlib.rc_context(SHEET):
        figure = Figure(figsize=(max(4.5, 0.5 + 0.45 * len(flows) * (len(algorithms) + 1)), 3.2))
        axes = figure.add_subplot()
        for i, algorithm in enumerate(algorithms):
            rows = summary[summary["algorithm"] == algorithm].set_index("flow").reindex(flows)
            colour, marker = style(algorithm, algorithms)
            x = np.arange(len(flows)) + (i - (len(algorithms) - 1) / 2) * width
            axes.bar(x, rows["goodput_mbps"], 0.9 * width, color=colour, label=algorithm)
            axes.errorbar(
                x,
                rows["goodput_mbps"],
                rows["goodput_mbps_ci95"],
                fmt=marker,
                color=BARS,
                markersize=3.5,
                markerfacecolor=PAPER,
                elinewidth=0.9,
                capsize=2,
            )
        axes.set_xticks(range(len(flows)), flows, rotation=0 if len(flows) <= 8 else 60)
        axes.grid(axis="x", visible=False)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("goodput per user (Mbps)")
        figure.legend(loc="outside upper center", ncols=min(6, len(algorithms)))
    return figure


def windows(result: Result) -> Figure:
    """Congestion windows of the first user of each flow over time, first seed: a line per path."""
    samples = _of_one_point(result).path_samples
    samples = samples[(samples["user"] == 0) & (samples["seed"] == result.seeds[0])]
    names = path_names(result.scenario)

    def draw(axes: Axes, rows: pd.DataFrame, colour: str) -> None:
        for (flow, path), line in rows.groupby(["flow", "path"]):
            dash, label = DASHES[int(path) % len(DASHES)], f"via {names[flow][path]}"
            axes.plot(line["time_s"], line["window_packets"], dash, color=colour, label=label)

    return _grid(result, samples, "flow", "window (packets)", draw, legend=True)


def queues(result: Result) -> Figure:
    """Queues of all links over time, first seed."""
    samples = _of_one_point(result).link_samples
    samples = samples[samples["seed"] == result.seeds[0]]

    def draw(axes: Axes, rows: pd.DataFrame, colour: str) -> None:
        axes.plot(rows["time_s"], rows["queue_packets"], color=colour)

    return _grid(result, samples, "link", "queue (packets)", draw)


FIGURES: dict[str, Callable[[Result], Figure]] = {
    "goodput": goodput,
    "windows": windows,
    "queues": queues,
}


def write(result: Result, directory: Path) -> None:
    """Write every figure into an existing directory, as SVG and as PNG."""
    for name, draw in FIGURES.items():
        save(draw(result), directory / name)


def _grid(
    result: Result,
    samples: pd.DataFrame,
    row: str,
    label: str,
    draw: Callable[[Axes, pd.DataFrame, str], None],
    legend: bool = False,
) -> Figure:
    """Small multiples: a row per flow or link, a column per algorithm, all axes shared by row."""
    names, algorithms = list(samples[row].unique()), result.algorithms
    with matplotlib.rc_context(SHEET):
        size = (max(5.0, 3.0 * len(algorithms)), 0.6 + 1.6 * len(names))
        figure = Figure(figsize=size)
        cells = figure.subplots(
            len(names), len(algorithms), sharex=True, sharey="row", squeeze=False
        )
        for i, name in enumerate(names):
            for j, algorithm in enumerate(algorithms):
                axes, (colour, _) = cells[i, j], style(algorithm, algorithms)
                chosen = (samples[row] == name) & (samples["algorithm"] == algorithm)
                with matplotlib.rc_context({"lines.linewidth": 0.7}):
                    draw(axes, samples[chosen], colour)
                axes.set_title(f"{name}, {algorithm}")
                axes.set_ylim(bottom=0)
            cells[i, 0].set_ylabel(label)
            if legend and len(cells[i, -1].lines) > 1:
                cells[i, -1].legend(loc="upper right")
        for axes in cells[-1]:
            axes.set_xlabel("time (s)")
    return figure


def _of_one_point(result: Result) -> Result:
    if len(result.cases) > 1:
        raise ValueError("figures show one point of a sweep: plot the run of one of them")
    return result
