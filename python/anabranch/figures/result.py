"""Figures of a Result: goodput per flow, windows over time, queues over time."""

from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from anabranch.figures.style import BARS, DASHES, LABELS, PAPER, SHEET, save, style
from anabranch.result import Result
from anabranch.scenario import path_names

LETTERS_PER_INCH = 15
"""Letters of small text that surely fit, to wrap captions."""

ROW_INCHES = 0.2
"""Height of a row of a legend."""


def goodput(result: Result) -> Figure:
    """Mean goodput per user of each flow, a bar per algorithm, with 95 % intervals over seeds.

    A bar has the colour of the rule that the flow ran, and the marker of the run's algorithm.
    """
    summary = _of_one_point(result).summary()
    flows, algorithms = list(summary["flow"].unique()), result.algorithms
    rules = list(dict.fromkeys([*algorithms, *summary["rule"]]))
    width = 0.8 / len(algorithms)
    with matplotlib.rc_context(SHEET):
        figure = Figure(figsize=(max(4.5, 0.5 + 0.45 * len(flows) * (len(algorithms) + 1)), 3.2))
        axes = figure.add_subplot()
        for i, algorithm in enumerate(algorithms):
            rows = summary[summary["algorithm"] == algorithm].set_index("flow").reindex(flows)
            x = np.arange(len(flows)) + (i - (len(algorithms) - 1) / 2) * width
            colours = [style(rule, rules)[0] for rule in rows["rule"]]
            axes.bar(x, rows["goodput_mbps"], 0.9 * width, color=colours)
            axes.errorbar(
                x,
                rows["goodput_mbps"],
                rows["goodput_mbps_ci95"],
                **_marker(algorithm, rules),
                elinewidth=0.9,
                capsize=2,
            )
        ticks = [_named(summary[summary["flow"] == flow]) for flow in flows]
        axes.set_xticks(range(len(flows)), ticks, rotation=0 if len(flows) <= 8 else 60)
        axes.grid(axis="x", visible=False)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("goodput per user (Mbps)")
        seeds = len(result.seeds)
        over = f"means and 95 % intervals over {seeds} seeds" if seeds > 1 else "one seed"
        axes.set_title(_caption(result, over, figure), fontsize="small", color=LABELS)
        _legend(figure, rules, algorithms)
    return figure


def windows(result: Result) -> Figure:
    """Congestion windows of the first user of each flow over time, first seed: a line per path.

    A line begins and ends with its user.
    """
    samples = _of_one_point(result).path_samples
    samples = samples[(samples["user"] == 0) & (samples["seed"] == result.seeds[0])]
    users = result.flows[["algorithm", "seed", "flow", "rule", "user", "start_s", "stop_s"]]
    samples = samples.merge(users, on=["algorithm", "seed", "flow", "user"])
    present = samples["time_s"].between(samples["start_s"], samples["stop_s"])
    samples = samples.assign(window_packets=samples["window_packets"].where(present))
    names = path_names(result.scenario)

    def draw(axes: Axes, rows: pd.DataFrame, colour: str) -> None:
        for (flow, path), line in rows.groupby(["flow", "path"]):
            dash, label = DASHES[int(path) % len(DASHES)], f"via {names[flow][path]}"
            axes.plot(line["time_s"], line["window_packets"], dash, color=colour, label=label)

    what = "first user of each flow"
    return _grid(result, samples, "flow", "window (packets)", what, draw, legend=True)


def queues(result: Result) -> Figure:
    """Queues of all links over time, first seed."""
    samples = _of_one_point(result).link_samples
    samples = samples[samples["seed"] == result.seeds[0]]
    samples = samples.assign(rule=samples["algorithm"])

    def draw(axes: Axes, rows: pd.DataFrame, colour: str) -> None:
        axes.plot(rows["time_s"], rows["queue_packets"], color=colour)

    return _grid(result, samples, "link", "queue (packets)", "every link", draw)


FIGURES: dict[str, Callable[[Result], Figure]] = {
    "goodput": goodput,
    "windows": windows,
    "queues": queues,
}


def write(
    result: Result,
    directory: Path,
    formats: Sequence[str] = ("svg", "png"),
    width_cm: float | None = None,
) -> None:
    """Write every figure into an existing directory, as SVG and as PNG."""
    for name, draw in FIGURES.items():
        save(draw(result), directory / name)


def _grid(
    result: Result,
    samples: pd.DataFrame,
    row: str,
    label: str,
    what: str,
    draw: Callable[[Axes, pd.DataFrame, str], None],
    legend: bool = False,
) -> Figure:
    """Small multiples: a row per flow or link, a column per algorithm, all axes shared by row.

    A panel has the colour of the rule that ran.
    """
    names, algorithms = list(samples[row].unique()), result.algorithms
    rules = list(dict.fromkeys([*algorithms, *samples["rule"]]))
    with matplotlib.rc_context(SHEET):
        size = (max(5.0, 3.0 * len(algorithms)), 0.9 + 1.6 * len(names))
        figure = Figure(figsize=size)
        cells = figure.subplots(
            len(names), len(algorithms), sharex=True, sharey="row", squeeze=False
        )
        for i, name in enumerate(names):
            for axes, algorithm in zip(cells[i], algorithms, strict=True):
                rows = samples[(samples[row] == name) & (samples["algorithm"] == algorithm)]
                rule = rows["rule"].iloc[0]
                with matplotlib.rc_context({"lines.linewidth": 0.7}):
                    draw(axes, rows, style(rule, rules)[0])
                own = f", beside {algorithm}" if rule != algorithm and len(algorithms) > 1 else ""
                axes.set_title(f"{name} ({rule}){own}")
            cells[i, 0].set_ylim(bottom=0)  # last, because it stops the scaling of the whole row
            cells[i, 0].set_ylabel(label)
            if legend and len(cells[i, -1].lines) > 1:
                cells[i, -1].legend(loc="upper right")
        for axes in cells[-1]:
            axes.set_xlabel("time (s)")
        seed = f"seed {result.seeds[0]}"
        seed += f", the first of {len(result.seeds)}" if len(result.seeds) > 1 else ""
        text = _caption(result, f"{what}, {seed}", figure)
        figure.suptitle(text, x=0.01, ha="left", fontsize="small", color=LABELS)
    return figure


def _caption(result: Result, what: str, figure: Figure) -> str:
    """The scenario, its backend and what is shown, in lines that fit the figure."""
    name = result.scenario.name or "scenario"
    width = int(LETTERS_PER_INCH * figure.get_figwidth())
    return fill(f"{name}, on {result.backend}: {what}", width)


def _named(rows: pd.DataFrame) -> str:
    """A flow, with its rule in a second line where that is its own."""
    flow, rule = rows["flow"].iloc[0], rows["rule"].iloc[0]
    return f"{flow}\n({rule})" if (rows["rule"] != rows["algorithm"]).any() else str(flow)


def _marker(algorithm: str, among: Sequence[str]) -> dict[str, Any]:
    look = {"color": BARS, "markersize": 3.5, "markerfacecolor": PAPER}
    return {"linestyle": "none", "marker": style(algorithm, among)[1], **look}


def _legend(figure: Figure, rules: Sequence[str], algorithms: Sequence[str]) -> None:
    """Colour and marker of each rule, above the axes, in as many rows as the width needs."""
    handles: list[Any] = []
    for rule in rules:
        patch = Patch(color=style(rule, rules)[0])
        marked = (patch, Line2D([], [], **_marker(rule, rules)))
        handles.append(marked if rule in algorithms else (patch,))
    for rows in range(-(-len(rules) // 6), len(rules) + 1):
        legend = figure.legend(
            handles,
            rules,
            handler_map={tuple: HandlerTuple(ndivide=1, pad=0)},
            loc="outside upper center",
            ncols=-(-len(rules) // rows),
        )
        if rows == len(rules) or legend.get_window_extent().width < figure.bbox.width:
            figure.set_figheight(figure.get_figheight() + ROW_INCHES * (rows - 1))
            return
        legend.remove()


def _of_one_point(result: Result) -> Result:
    if len(result.cases) > 1:
        raise ValueError("figures show one point of a sweep: plot the run of one of them")
    return result
