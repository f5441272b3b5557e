"""Figures of one or several panels, of any width, in axes of their own or of the caller."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from textwrap import fill
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from anabranch.figures.style import LABELS, SHEET
from anabranch.formats import first, short
from anabranch.result import Result

CM = 1 / 2.54
"""A centimetre in inches."""

LETTERS_PER_INCH = 15
"""Letters of small text that surely fit, to wrap captions."""

ROW_INCHES = 0.2
"""Height of a row of a legend."""

LETTERS_OF_TITLE = 11
"""Letters of a panel's title that surely fit into an inch."""

PAGE_INCHES = 24 * CM
"""Height of the text on a page: figures whose width is chosen are no higher."""

LEAST_INCHES = 0.55
"""Height of a panel that can still be read."""

LONGEST = 60
"""Letters of a name in a figure: the middle of a longer one is left out."""

MOST_SHOWN = 50
"""Flows or links that a figure shows: more could not be read."""

NARROW = 4.0
"""Figures below this width, in inches, have smaller letters."""


@dataclass(frozen=True)
class Panel:
    """A pair of axes."""

    draw: Callable[[Axes], object]
    title: str = ""
    x: str = ""
    y: str = ""
    row: str = ""
    """Panels of the same row have the same y axis, and continue below where they do not fit."""
    legend: bool = False
    zero: bool = True
    """Whether the y axis begins at 0."""


@dataclass(frozen=True)
class Drawing:
    """One kind of figure of a result."""

    panels: Sequence[Panel]
    caption: str
    width: float = 5.0
    """Width of the figure if nobody chooses one, inches."""
    height: float = 1.6
    """Height of a panel, inches."""
    least: float = 1.5
    """Width of a panel below which a figure has fewer columns of them, inches."""
    share_x: bool = True
    legend: Sequence[tuple[Any, str]] = field(default_factory=list)
    """Handle and label of what all panels show."""


def caption(result: Result, what: str) -> str:
    """The scenario, its backend and what is shown."""
    return f"{short(result.scenario.name, LONGEST) or 'scenario'}, on {result.backend}: {what}"


def titled(flow: str, rule: str, algorithm: str) -> str:
    """A flow with the rule that it ran, and the one beside it where that is another."""
    own = f", beside {short(algorithm, LONGEST)}" if rule != algorithm else ""
    return f"{short(flow, LONGEST)} ({short(rule, LONGEST)}){own}"


def over_seeds(result: Result) -> str:
    """Meaning of bars and intervals."""
    return one_trajectory(result) or f"means and 95 % intervals over {len(result.seeds)} seeds"


def one_trajectory(result: Result) -> str:
    """Why numbers have no interval; empty where some have one."""
    seeds = len(result.seeds)
    if not result.is_one_trajectory():
        return "" if seeds > 1 else "computed, without seeds"
    return f"one trajectory, {f'the same with {seeds} seeds' if seeds > 1 else 'one seed'}"


def first_seed(result: Result) -> str:
    """The seed that a figure over time shows."""
    of = f", the first of {len(result.seeds)}" if len(result.seeds) > 1 else ""
    return f"seed {result.seeds[0]}{of}"


def shown(rows: pd.DataFrame, kind: str) -> tuple[pd.DataFrame, str]:
    """The rows of the first flows or links of a result, and words for a caption if it has more."""
    some, there = first(rows, kind, MOST_SHOWN)
    return some, count_of(there, kind)


def count_of(there: int, kind: str) -> str:
    """Words for the caption of a figure of the first flows or links; none if it has all."""
    return f", {MOST_SHOWN} of {there} {kind}s" if there > MOST_SHOWN else ""


def render(drawing: Drawing, width_cm: float | None = None, ax: Any = None) -> Figure:
    """A new figure of this width, or the figure of `ax`, in which each panel has its axes.

    Raises ValueError where `ax` has another number of axes than the drawing has panels.
    """
    if ax is None:
        new = _new(drawing, drawing.width if width_cm is None else width_cm * CM)
        if width_cm is not None:
            _fit(new)
        return new
    axes = [each for each in np.ravel(ax) if isinstance(each, Axes)]
    if len(axes) != len(drawing.panels):
        titles = ", ".join(panel.title or panel.y for panel in drawing.panels)
        raise ValueError(
            f"ax: expected {len(drawing.panels)} axes, got {len(axes)}: one for each of {titles}"
        )
    with matplotlib.rc_context(_text(NARROW)):
        for each, panel in zip(axes, drawing.panels, strict=True):
            _draw(each, panel)
        _begin_at_zero(axes, drawing.panels)
        if drawing.legend:
            handles, labels = zip(*drawing.legend, strict=True)
            axes[0].legend(handles, labels, handler_map=MARKED)
    figure = axes[0].get_figure(root=True)
    assert figure is not None
    return figure


def _new(drawing: Drawing, width: float) -> Figure:
    rows = _rows(drawing.panels, max(1, int(width / drawing.least)))
    columns = max(map(len, rows), default=1)  # no panels: nothing was sampled
    with style_sheet(width):
        figure = Figure(figsize=(width, 0.9 + drawing.height * len(rows)))
        grid = figure.add_gridspec(max(1, len(rows)), columns)
        drawn: list[Axes] = []  # figure.axes has scales of colours, too
        first: dict[str, Axes] = {}
        for i, row in enumerate(rows):
            for j, panel in enumerate(row):
                over = drawn[0] if drawing.share_x and drawn else None
                beside = first.get(panel.row) if panel.row else None
                axes = figure.add_subplot(grid[i, j], sharex=over, sharey=beside)
                first.setdefault(panel.row, axes)
                drawn.append(axes)
                _draw(axes, panel, int(LETTERS_OF_TITLE * width / columns))
                _only_at_the_edge(axes, panel, j, i, rows, drawing.share_x)
        _begin_at_zero(drawn, drawing.panels)
        alone = len(drawing.panels) == 1 and not drawing.panels[0].title
        _caption(figure, drawing.caption, alone)
        # Beside a caption above all axes a legend would cover it.
        _legend(figure, drawing.legend, "upper" if alone else "lower")
    return figure


def _fit(figure: Figure) -> None:
    """Make the figure no higher than a page, as far as its panels can still be read."""
    specs = (axes.get_subplotspec() for axes in figure.axes)
    rows = max((spec.get_gridspec().nrows for spec in specs if spec), default=1)
    most = max(PAGE_INCHES, 0.9 + LEAST_INCHES * rows)
    figure.set_figheight(min(figure.get_figheight(), most))


def _rows(panels: Sequence[Panel], columns: int) -> list[list[Panel]]:
    """The panels of each row of the figure; those of one `row` that do not fit go on below."""
    rows: list[list[Panel]] = []
    for _, group in groupby(panels, key=lambda panel: panel.row):
        left = list(group)
        lines = -(-len(left) // columns)
        each = -(-len(left) // lines)
        rows += [left[i : i + each] for i in range(0, len(left), each)]
    return rows


def _draw(axes: Axes, panel: Panel, letters: int = 40) -> None:
    panel.draw(axes)
    axes.set_title(fill(short(panel.title, 4 * LONGEST), letters), loc="left")
    axes.set_xlabel(panel.x)
    axes.set_ylabel(panel.y)
    if panel.legend:
        axes.legend(loc="best", fontsize="small")


def _begin_at_zero(axes: Sequence[Axes], panels: Sequence[Panel]) -> None:
    """The y axes that do; last, because it stops the scaling of the whole row."""
    for each, panel in zip(axes, panels, strict=True):
        if panel.zero:
            each.set_ylim(bottom=0)


def _only_at_the_edge(
    axes: Axes, panel: Panel, column: int, row: int, rows: Sequence[Sequence[Panel]], share: bool
) -> None:
    """Labels at the left and below only, where the others would repeat them."""
    if column and panel.row:
        axes.tick_params(labelleft=False)
        axes.set_ylabel("")
    below = len(rows) > row + 1 and len(rows[row + 1]) > column
    if share and below:
        axes.tick_params(labelbottom=False)
        axes.set_xlabel("")


def _caption(figure: Figure, words: str, alone: bool) -> None:
    """Title of the figure in lines that fit: over its only panel, or above all."""
    text = fill(words, int(LETTERS_PER_INCH * figure.get_figwidth()))
    if alone:
        figure.axes[0].set_title(text, loc="left", fontsize="small", color=LABELS)
    else:
        figure.suptitle(text, x=0.01, ha="left", fontsize="small", color=LABELS)


MARKED: dict[type, Any] = {tuple: HandlerTuple(ndivide=1, pad=0)}
"""A marker on a patch."""


def _legend(figure: Figure, entries: Sequence[tuple[Any, str]], where: str) -> None:
    """Above or below the axes, in as many rows as the width needs."""
    if not entries:
        return
    handles, names = zip(*entries, strict=True)
    labels = [short(name, LONGEST) for name in names]
    loc: Any = f"outside {where} center"
    for rows in range(-(-len(entries) // 6), len(entries) + 1):
        columns = -(-len(entries) // rows)
        legend = figure.legend(handles, labels, handler_map=MARKED, loc=loc, ncols=columns)
        if rows == len(entries) or legend.get_window_extent().width < figure.bbox.width:
            figure.set_figheight(figure.get_figheight() + ROW_INCHES * (rows - 1))
            return
        legend.remove()


@contextmanager
def style_sheet(width: float) -> Iterator[None]:
    """The style of all figures, with letters that suit the width, in inches."""
    with matplotlib.rc_context(SHEET | _text(width)):
        yield


def _text(width: float) -> dict[Any, Any]:
    return {"font.size": 9.0 if width >= NARROW else 7.5}


def plain_numbers(axis: Axis) -> None:
    """Label a logarithmic axis with plain numbers at 1, 2, 5, 10, ..."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
