"""Distributions: completion times of files, and RTTs."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from anabranch.figures.panels import Drawing, Panel, caption, plain_numbers
from anabranch.figures.style import style
from anabranch.result import Result


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
    ran = result.flows[["algorithm", "flow", "rule"]].drop_duplicates()
    rows = rows.merge(ran, on=["algorithm", "flow"])
    rules = list(dict.fromkeys([*result.algorithms, *rows["rule"]]))
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
    text = caption(result, f"all users, {f'{seeds} seeds' if seeds > 1 else 'one seed'}")
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
