"""Goodput of each flow and rule: as bars, and beside the RTT."""

from collections.abc import Sequence
from functools import partial
from textwrap import fill
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.textpath import TextPath

from anabranch.figures.panels import (
    LONGEST,
    Drawing,
    Panel,
    caption,
    over_seeds,
    plain_numbers,
    shown,
)
from anabranch.figures.style import BARS, PAPER, style
from anabranch.formats import short
from anabranch.result import Result

MOST_LETTERS = 16
"""Letters of an algorithm's name under a bar."""


def goodput(result: Result) -> Drawing:
    """Mean goodput per user of each flow, a bar per algorithm, with 95 % intervals over seeds.

    A bar has the colour of the rule that the flow ran, and the marker of the run's algorithm. Where
    several algorithms ran, each bar is named: by its rule, or by the algorithm beside it.
    """
    summary, more = shown(result.summary(), "flow")
    flows, algorithms = list(summary["flow"].unique()), result.algorithms
    rules = rules_that_ran(result, summary)
    return Drawing(
        [Panel(partial(_bars, summary, algorithms, rules), y="goodput per user (Mbps)")],
        caption(result, over_seeds(result) + more),
        width=max(4.5, 0.5 + 0.45 * len(flows) * (len(algorithms) + 1)),
        height=2.3 if len(algorithms) == 1 else 2.9,  # with names under the bars
        legend=legend(rules, algorithms),
    )


def goodput_rtt(result: Result) -> Drawing:
    """Goodput per user beside the RTT, a panel per flow, a point per algorithm.

    With 95 % intervals over seeds. A point has the colour of the rule that the flow ran.
    """
    summary, more = shown(result.summary(), "flow")
    rules = rules_that_ran(result, summary)
    panels = []
    for flow in summary["flow"].unique():
        rows = summary[summary["flow"] == flow]
        draw = partial(_points, rows, rules)
        panels.append(
            Panel(draw, _named(rows, LONGEST), "RTT (ms)", "goodput per user (Mbps)", row="all")
        )
    text = caption(result, f"goodput beside RTT, {over_seeds(result)}{more}")
    width = min(9.0, max(5.0, 2.8 * len(panels)))
    entries = legend(rules, result.algorithms)
    return Drawing(panels, text, width, 2.2, share_x=False, legend=entries)


def rules_that_ran(result: Result, rows: pd.DataFrame) -> list[str]:
    """The algorithms, then the rules that flows name themselves."""
    return list(dict.fromkeys([*result.algorithms, *rows["rule"]]))


def legend(rules: Sequence[str], algorithms: Sequence[str]) -> list[tuple[Any, str]]:
    """Colour of each rule, with the marker of an algorithm."""
    entries: list[tuple[Any, str]] = []
    for rule in rules:
        patch = Patch(color=style(rule, rules)[0])
        marked = (patch, Line2D([], [], **_marker(rule, rules)))
        entries.append((marked if rule in algorithms else (patch,), rule))
    return entries


def _bars(
    summary: pd.DataFrame, algorithms: Sequence[str], rules: Sequence[str], axes: Axes
) -> None:
    flows = list(summary["flow"].unique())
    width = 0.8 / len(algorithms)
    for i, algorithm in enumerate(algorithms):
        rows = summary[summary["algorithm"] == algorithm].set_index("flow").reindex(flows)
        x = np.arange(len(flows)) + (i - (len(algorithms) - 1) / 2) * width
        colours = [style(rule, rules)[0] for rule in rows["rule"]]
        axes.bar(x, rows["goodput_mbps"], 0.9 * width, color=colours)
        intervals: dict[str, Any] = {"elinewidth": 0.9, "capsize": 2}
        means, half = rows["goodput_mbps"], rows["goodput_mbps_ci95"]
        axes.errorbar(x, means, half, **_marker(algorithm, rules), **intervals)
    _name_bars(axes, flows, summary, algorithms, width)
    figure = axes.figure
    letters = max(8, int(13 * figure.bbox.width / figure.dpi / len(flows)))
    ticks = [_named(summary[summary["flow"] == flow], letters) for flow in flows]
    axes.set_xticks(range(len(flows)), ticks, rotation=0 if len(flows) <= 8 else 60)
    axes.grid(axis="x", visible=False)


def _name_bars(
    axes: Axes, flows: Sequence[str], summary: pd.DataFrame, algorithms: Sequence[str], width: float
) -> None:
    """Under each bar its rule, or "beside" the run's algorithm where the flow ran its own."""
    if len(algorithms) == 1:
        return
    names, places = [], []
    for i, flow in enumerate(flows):
        rules = summary[summary["flow"] == flow].set_index("algorithm")["rule"]
        for j, algorithm in enumerate(algorithms):
            name = short(algorithm, MOST_LETTERS)
            own = rules.get(algorithm, algorithm) != algorithm
            names.append(f"beside {name}" if own else name)
            places.append(i + (j - (len(algorithms) - 1) / 2) * width)
    slot = 72 * 0.85 * axes.figure.bbox.width / axes.figure.dpi * width / len(flows)
    points = 0.694 * matplotlib.rcParams["font.size"]  # x-small
    longest = max(TextPath((0, 0), name, size=points).get_extents().width for name in names)
    turned = longest > 0.9 * slot
    axes.xaxis.remove_overlapping_locs = False  # the bar in the middle is above its flow's name
    axes.set_xticks(places, names, minor=True)
    look = {"labelsize": "x-small", "labelrotation": 90 if turned else 0}
    axes.tick_params(axis="x", which="minor", length=0, pad=2, **look)
    axes.tick_params(axis="x", which="major", length=0, pad=(longest if turned else points) + 7)
    axes.grid(axis="x", which="both", visible=False)


def _points(rows: pd.DataFrame, rules: Sequence[str], axes: Axes) -> None:
    for row in rows.to_dict(orient="records"):
        colour = style(row["rule"], rules)[0]
        look: dict[str, Any] = {
            "markerfacecolor": colour,
            "markeredgecolor": BARS,
            "markeredgewidth": 0.5,
        }
        axes.errorbar(
            row["rtt_ms"],
            row["goodput_mbps"],
            xerr=row["rtt_ms_ci95"],
            yerr=row["goodput_mbps_ci95"],
            linestyle="none",
            marker=style(row["algorithm"], rules)[1],
            markersize=7,
            ecolor=colour,
            elinewidth=0.9,
            **look,
        )


def _named(rows: pd.DataFrame, letters: int) -> str:
    """A flow in lines of this length, with its rule in a line of its own where that is its own."""
    flow, rule = fill(short(str(rows["flow"].iloc[0]), LONGEST), letters), rows["rule"].iloc[0]
    return f"{flow}\n({rule})" if (rows["rule"] != rows["algorithm"]).any() else flow


def _marker(algorithm: str, among: Sequence[str]) -> dict[str, Any]:
    look = {"color": BARS, "markersize": 3.5, "markerfacecolor": PAPER}
    return {"linestyle": "none", "marker": style(algorithm, among)[1], **look}


# Distributions: completion times of files, and RTTs.


def completion(result: Result) -> Drawing:
    """The CDF of the times that files took, a panel per flow, a line per algorithm; all seeds.

    Files that arrive in the warm-up are excluded. Raises ValueError where there are none.
    """
    files = result.transfers[result.transfers["start_s"] >= result.scenario.warmup_s]
    if files.empty:
        raise ValueError("completion: no file was completed: a flow needs a workload of files")
    return _drawing(result, files, "duration_s", "completion time of a file (s)", log=True)


def rtt(result: Result) -> Drawing:
    """The CDF of the smoothed RTTs of all paths at the samples, after the warm-up; all seeds.

    A panel per flow, a line per algorithm.
    """
    samples = result.path_samples
    seen = (samples["time_s"] > result.scenario.warmup_s) & (samples["rtt_ms"] > 0)
    return _drawing(result, samples[seen], "rtt_ms", "RTT (ms)", log=False)


def _drawing(result: Result, rows: pd.DataFrame, column: str, label: str, log: bool) -> Drawing:
    rows, more = shown(rows, "flow")
    ran = result.flows[["algorithm", "flow", "rule"]].drop_duplicates()
    rows = rows.merge(ran, on=["algorithm", "flow"])
    rules = rules_that_ran(result, rows)
    panels = [
        Panel(
            partial(_curves, of_flow, column, rules, log),
            str(flow),
            label,
            "part below",
            row="all",
        )
        for flow, of_flow in rows.groupby("flow", sort=False)
    ]
    entries = [
        (Line2D([], [], color=style(name, rules)[0], linestyle=_dash(i)), name)
        for i, name in enumerate(result.algorithms)
    ]
    seeds = len(result.seeds)
    text = caption(result, f"all users, {f'{seeds} seeds' if seeds > 1 else 'one seed'}{more}")
    width = min(9.0, max(5.0, 2.8 * len(panels)))
    return Drawing(panels, text, width, 2.2, share_x=False, legend=entries)


def _curves(rows: pd.DataFrame, column: str, rules: list[str], log: bool, axes: Axes) -> None:
    for i, (algorithm, of_rule) in enumerate(rows.groupby("algorithm", sort=False)):
        values = np.sort(of_rule[column].to_numpy())
        part = np.arange(1, len(values) + 1) / len(values)
        colour = style(str(algorithm), rules)[0]
        axes.step(values, part, where="post", color=colour, linestyle=_dash(i), linewidth=1.2)
    if log:
        axes.set_xscale("log")
        plain_numbers(axes.xaxis)
    axes.set_ylim(0, 1)


def _dash(number: int) -> Any:
    """The line style of a curve, which differs beside its colour."""
    return ("-", "--", "-.", ":")[number % 4]
