"""The figure of theory meets packets: predicted against measured shares, a panel for each rule."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from pandas import DataFrame

from anabranch.figures import style
from anabranch.figures.style import BAND, DIAGONAL, LABELS, PAPER
from anabranch.formats import share

NAME = "theory-meets-packets"
TICKS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
VISIBLE = 0.05
"""Spreads over seeds below this fraction of a share are hidden by the marker."""
SHEET: dict[Any, Any] = {
    **style.SHEET,
    "axes.edgecolor": LABELS,
    "xtick.color": LABELS,
    "ytick.color": LABELS,
}


def draw(flows: DataFrame, bands: Mapping[str, float]) -> Figure:
    """Small multiples with one scale: on the diagonal theory and packets agree.

    `flows` are those of a `Comparison`, `bands` the worst deviation that is expected of each rule,
    as a fraction.
    """
    rules = list(bands)
    columns = min(5, len(rules))
    rows = -(-len(rules) // columns)
    shares = flows[["predicted", "measured"]]
    limits = 0.8 * float(shares.min().min()), min(1.0, 1.25 * float(shares.max().max()))
    with matplotlib.rc_context(SHEET):
        figure = Figure(figsize=(2.25 * columns, 2.45 * rows + 0.75))
        panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for axes, rule in zip(panels.flat, rules, strict=False):
            _panel(axes, flows[flows["rule"] == rule], rule, limits, bands[rule])
        for axes in panels.flat[len(rules) :]:
            axes.set_axis_off()
        figure.supxlabel("share of all goodput: fluid equilibrium", fontsize="medium", color=LABELS)
        figure.supylabel("simulator", fontsize="medium", color=LABELS)
        figure.legend(handles=_key(), loc="outside upper center", ncols=4, labelcolor=LABELS)
    return figure


def write(flows: DataFrame, bands: Mapping[str, float], directory: Path) -> None:
    """Write the figure into a directory, as SVG and as PNG."""
    directory.mkdir(parents=True, exist_ok=True)
    style.save(draw(flows, bands), directory / NAME)


def _panel(
    axes: Axes, flows: DataFrame, rule: str, limits: tuple[float, float], worst: float
) -> None:
    line = np.array(limits)
    axes.fill_between(line, line * (1 - worst), line * (1 + worst), color=BAND, linewidth=0)
    axes.plot(line, line, color=DIAGONAL, linewidth=0.8)
    colour, _ = style.style(rule)
    wide = flows[flows["spread"] > VISIBLE * flows["measured"]]
    least = np.maximum(wide["measured"] - wide["spread"], limits[0])
    axes.vlines(wide["predicted"], least, wide["measured"] + wide["spread"], colour, linewidth=0.7)
    for several, rows in flows.groupby(flows["paths"] > 1):
        axes.plot(
            rows["predicted"],
            rows["measured"],
            "o",
            markersize=4.0 if several else 3.4,
            markerfacecolor=colour if several else PAPER,
            markeredgecolor=PAPER if several else colour,
            markeredgewidth=0.5 if several else 0.9,
            zorder=3 if several else 2,
        )
    size = flows["deviation"].abs()
    axes.set_title(rule, color=colour, fontweight="bold")
    axes.text(
        0.96,
        0.05,
        f"median {share(size.median())}\nworst {share(size.max())}",
        transform=axes.transAxes,
        ha="right",
        fontsize="small",
        color=LABELS,
    )
    axes.set(xscale="log", yscale="log", xlim=limits, ylim=limits, aspect="equal")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(FixedLocator(TICKS[1::2] if limits[0] < 0.01 else TICKS))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))


def _key() -> list[Any]:
    shape: dict[str, Any] = {"marker": "o", "linestyle": "", "color": LABELS}
    return [
        Line2D([], [], **shape, markersize=4.5, label="several paths, the rule"),
        Line2D([], [], **shape, markersize=4, markerfacecolor=PAPER, label="one path, NewReno"),
        Line2D([], [], color=DIAGONAL, linewidth=0.8, label="theory = packets"),
        Patch(color=BAND, label="band stated before the run"),
    ]
