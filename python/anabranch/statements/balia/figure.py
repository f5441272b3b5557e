"""The design map drawn: a row per norm, a column per measure, and the trade-off beside them."""

from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from anabranch.figures.style import CONTOURS, HATCHES, PAPER, SHADES, SHEET, Marker, style
from anabranch.statements.balia.design_map import BETAS, ETAS, MEMBERS, NORMS, Map
from anabranch.theory.array import Array

TITLES = {
    "friendliness": "friendliness\nNewReno's part of its even share",
    "responsiveness_per_s": "responsiveness\ndecay of the slowest mode (1/s)",
    "oscillation": "oscillation\npart of the rate lost at a loss",
}
CAPS = (0.27, 0.30, 0.35, 0.40, 0.45, 0.50)
"""Levels of oscillation whose fronts are drawn."""


def draw(design: Map) -> Figure:
    """Small multiples over (beta, eta), and fronts of friendliness against responsiveness."""
    with matplotlib.rc_context(SHEET | {"axes.grid": False, "hatch.linewidth": 0.4}):
        figure = Figure(figsize=(12.4, 7.8))
        left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=[1.5, 1])[0]
        cells = left.subplots(len(NORMS), len(TITLES), sharex=True, sharey=True)
        for column, name in enumerate(TITLES):
            _column(left, cells[:, column], design, name)
        for row, norm in enumerate(NORMS):
            cells[row, 0].set_ylabel(f"norm {norm.replace('inf', '∞')}\n\n$\\eta$", parse_math=True)
        for axes in cells[-1]:
            axes.set_xlabel("$\\beta$", parse_math=True)
        _trade_off(right.subplots(), design)
        handles = [*_markers(design), Patch(fill=False, hatch="////", edgecolor=HATCHES)]
        labels = [*design.rules, "on the Pareto front"]
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure


def _column(figure: SubFigure, cells: Array, design: Map, name: str) -> None:
    values = design.measures[name]
    levels = np.linspace(values.min(), values.max(), 41)
    for i, (axes, norm) in enumerate(zip(cells, NORMS, strict=True)):
        picture = axes.contourf(BETAS, ETAS, values[i].T, levels, cmap=SHADES[name])
        picture.set_rasterized(True)  # 41 levels are 40 times the bytes as paths
        lines = axes.contour(BETAS, ETAS, values[i].T, 6, colors=CONTOURS, linewidths=0.5)
        axes.clabel(lines, fontsize=6.5, fmt="%.2g")
        front = design.front[i].T.astype(float)
        axes.contourf(BETAS, ETAS, front, [0.5, 1.5], colors="none", hatches=["////"])
        _members(axes, norm)
        axes.set_xlim(-0.03, 1.03)
        axes.set_ylim(-0.06, 2.02)
    cells[0].set_title(TITLES[name], fontsize="medium")
    bar = figure.colorbar(
        picture, ax=list(cells), location="bottom", shrink=0.85, aspect=30, ticks=MaxNLocator(4)
    )
    if bar.solids is not None:
        bar.solids.set_rasterized(True)


def _members(axes: Axes, norm: str) -> None:
    for rule, places in MEMBERS.items():
        for its_norm, beta, eta in places:
            if its_norm == norm:
                colour, marker = style(rule)
                axes.plot(beta, eta, **_mark(colour, marker), clip_on=False, zorder=5)


def _trade_off(axes: Axes, design: Map) -> None:
    """For each level of oscillation the most responsive design at each friendliness."""
    for cap, shade in zip(CAPS, np.linspace(0.3, 0.95, len(CAPS)), strict=True):
        x, y = _front(design, cap)
        colour = matplotlib.colormaps[SHADES["oscillation"]](shade)
        axes.plot(x, y, color=colour, linewidth=1.6)
        axes.annotate(
            f"{cap:.2f}", (x[-1], y[-1]), (0, -3), textcoords="offset points", color=colour,
            ha="center", va="top", fontsize=8,
        )  # fmt: skip
    names = list(design.rules)
    for rule, measures in design.rules.items():
        colour, marker = style(rule, names)
        place = measures.friendliness, measures.responsiveness_per_s
        axes.plot(*place, **_mark(colour, marker), zorder=5, clip_on=False)
        axes.annotate(
            f"{measures.oscillation:.2f}", place, (7, 4), textcoords="offset points", fontsize=7.5
        )
    axes.grid(True)
    axes.set_xlim(0.45, 1.02)
    axes.set_yscale("function", functions=(np.sqrt, np.square))
    axes.set_ylim(0, 5.4)
    axes.set_yticks([0, 0.1, 0.5, 1, 2, 3, 4, 5])
    axes.set_title(
        "the trade-off, with the oscillation of each\nlines: the best of the family at that bound",
        fontsize="medium",
    )
    axes.set_xlabel("friendliness")
    axes.set_ylabel("responsiveness (1/s)")


def _front(design: Map, cap: float) -> tuple[Array, Array]:
    """The most responsive design at least so friendly, where none may oscillate more than that."""
    measures = design.measures
    fine = np.linspace(ETAS[0], ETAS[-1], 20 * (len(ETAS) - 1) + 1)
    friendliness = np.linspace(measures["friendliness"].min(), 1.0, 400)
    best = np.full_like(friendliness, -np.inf)
    for i in range(len(NORMS)):
        responsiveness, oscillation = (
            np.array([np.interp(fine, ETAS, row) for row in measures[name][i]])
            for name in ("responsiveness_per_s", "oscillation")
        )
        allowed = np.where(oscillation <= cap + 1e-6, responsiveness, -np.inf).max(axis=1)
        some = np.isfinite(allowed)
        x, y = measures["friendliness"][i, some, 0][::-1], allowed[some][::-1]
        best = np.fmax(best, np.interp(friendliness, x, y, left=np.nan, right=np.nan))
    best = np.maximum.accumulate(best[::-1])[::-1]
    reached = np.isfinite(best)
    return friendliness[reached], best[reached]


def _markers(design: Map) -> list[Line2D]:
    names = list(design.rules)
    return [Line2D([], [], **_mark(*style(rule, names))) for rule in names]


def _mark(colour: str, marker: Marker) -> dict[str, Any]:
    return {
        "color": colour,
        "marker": marker,
        "linestyle": "none",
        "markersize": 9,
        "markeredgecolor": PAPER,
        "markeredgewidth": 0.9,
    }
