"""A sweep: goodput against one key as curves, against two as a heat map."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.cm import ScalarMappable
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from anabranch.figures.panels import (
    Drawing,
    Panel,
    caption,
    one_trajectory,
    over_seeds,
    plain_numbers,
    titled,
)
from anabranch.figures.per_rule import rules_that_ran
from anabranch.figures.style import style
from anabranch.result import Result

HEAT = "viridis"
"""The colour map of goodput."""

MOST_TICKS = 6
"""Ticks of an axis of a heat map: more would overlap."""

DECADES = 8.0
"""Greatest over least value from which on an axis is logarithmic, if all are positive."""


def sweep(result: Result) -> Drawing:
    """Goodput per user of each flow against the keys that were swept.

    One key: a panel per flow, a curve per algorithm with 95 % intervals over seeds. Two keys: a
    panel per flow and algorithm, the goodput as colour. A key with one value does not count.
    Raises ValueError for more keys, and for a key whose values are no numbers.
    """
    summary = result.summary()
    keys = [key for key in result.cases if key != "algorithm" and summary[key].nunique() > 1]
    words = [key for key in keys if not pd.api.types.is_numeric_dtype(summary[key])]
    if words:
        raise ValueError(f"sweep: the values of {words[0]} are no numbers")
    if not 1 <= len(keys) <= 2:
        names = ", ".join(keys) or "no key"
        raise ValueError(f"sweep: expected one or two keys with several values, got {names}")
    return _curves(result, summary, keys[0]) if len(keys) == 1 else _heat(result, summary, keys)


def _curves(result: Result, summary: pd.DataFrame, key: str) -> Drawing:
    rules = rules_that_ran(result, summary)
    panels = []
    for flow, rows in summary.groupby("flow", sort=False):
        draw = partial(_lines, rows, key, rules)
        # A flow with a rule of its own has a curve for each algorithm that ran beside it.
        own = rows["rule"].iloc[0]
        always = len(result.algorithms) > 1 and rows["rule"].nunique() == 1
        title = f"{flow} ({own}), beside each" if always else str(flow)
        panels.append(Panel(draw, title, key, "goodput per user (Mbps)", row="all"))
    entries = [
        (Line2D([], [], color=style(rule, rules)[0], marker=style(rule, rules)[1]), rule)
        for rule in result.algorithms
    ]
    width = min(9.0, max(5.0, 2.8 * len(panels)))
    text = caption(result, f"goodput against {key}, {over_seeds(result)}")
    return Drawing(panels, text, width, 2.2, legend=entries)


def _lines(rows: pd.DataFrame, key: str, rules: list[str], axes: Axes) -> None:
    for algorithm, line in rows.sort_values(key).groupby("algorithm", sort=False):
        colour, marker = style(str(algorithm), rules)
        axes.errorbar(
            line[key],
            line["goodput_mbps"],
            line["goodput_mbps_ci95"],
            color=colour,
            marker=marker,
            markersize=4,
            linewidth=1.1,
            capsize=2,
        )
    if _is_wide(rows[key]):
        axes.set_xscale("log")
        plain_numbers(axes.xaxis)


def _heat(result: Result, summary: pd.DataFrame, keys: list[str]) -> Drawing:
    panels = []
    for flow, of_flow in summary.groupby("flow", sort=False):
        top = float(of_flow["goodput_mbps"].max())
        for algorithm in result.algorithms:
            rows = of_flow[of_flow["algorithm"] == algorithm]
            draw = partial(_colours, rows, keys, top, algorithm == result.algorithms[-1])
            beside = algorithm if len(result.algorithms) > 1 else rows["rule"].iloc[0]
            title = titled(str(flow), rows["rule"].iloc[0], beside)
            panels.append(Panel(draw, title, keys[0], keys[1], row=str(flow), zero=False))
    width = min(9.0, max(5.0, 3.2 * len(result.algorithms)))
    over = one_trajectory(result) or f"means over {len(result.seeds)} seeds"
    text = caption(result, f"goodput per user (Mbps), {over}")
    return Drawing(panels, text, width, 2.2)


def _colours(rows: pd.DataFrame, keys: list[str], top: float, with_scale: bool, axes: Axes) -> None:
    """Cells where every combination ran, else a disc for each point."""
    x, y = keys
    grid = rows.pivot_table(index=y, columns=x, values="goodput_mbps")
    shown: ScalarMappable
    look: dict[str, Any] = {"cmap": HEAT, "vmin": 0.0, "vmax": top}
    if grid.notna().to_numpy().all() and grid.size == len(rows):
        edges = [_edges(grid.columns.to_numpy(float)), _edges(grid.index.to_numpy(float))]
        shown = axes.pcolormesh(*edges, grid.to_numpy(), rasterized=True, **look)
        axes.grid(visible=False)
    else:
        shown = axes.scatter(rows[x], rows[y], c=rows["goodput_mbps"], s=18, **look)
    for axis, values in (axes.xaxis, rows[x]), (axes.yaxis, rows[y]):
        if _is_wide(values):
            (axes.set_xscale if axis is axes.xaxis else axes.set_yscale)("log")
        _ticks(axis, values)
    if with_scale:
        axes.figure.colorbar(shown, ax=axes)


def _ticks(axis: Axis, values: pd.Series) -> None:
    """Ticks at the values that ran, or at some of them where they are many."""
    ran = np.unique(values.to_numpy(float))
    every = -(-len(ran) // MOST_TICKS)
    axis.set_major_locator(FixedLocator(ran[::every].tolist()))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def _edges(values: np.ndarray) -> np.ndarray:
    """Edges of cells around values, halfway on the scale of the axis."""
    wide = _is_wide(pd.Series(values))
    places = np.log(values) if wide else values
    inner = (places[1:] + places[:-1]) / 2
    edges = np.concatenate([[2 * places[0] - inner[0]], inner, [2 * places[-1] - inner[-1]]])
    return np.asarray(np.exp(edges) if wide else edges)


def _is_wide(values: pd.Series) -> bool:
    return bool(values.min() > 0 and values.max() / values.min() >= DECADES)
