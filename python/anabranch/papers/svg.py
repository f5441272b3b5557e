"""Figures of a report as inline SVG, in the page's light and dark colours."""

import io
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from anabranch.figures import style
from anabranch.papers.curves import Curve, Drawing
from anabranch.papers.entries.case import Case
from anabranch.papers.report import Item, Report, Row, Table

INK, RULE = style.PAGE_INK, style.PAGE_RULE

MARKS = ["-", (0, (4, 1.5)), (0, (1, 1)), (0, (4, 1, 1, 1)), (0, (6, 1, 1, 1, 1, 1))]
"""Line styles of the kinds of theory value, in the order of the report's list of them."""

WIDTH = 8.6
"""The width of every figure, inches."""


class Pictures:
    """Draws the figures of one report; `colours` are all it may use."""

    def __init__(self, report: Report) -> None:
        self.report = report
        labels = list(report.algorithms)
        self.styles = _styles(report.algorithms)
        self.colours = sorted({self.style(label)[0] for label in [*labels, *_others(report)]})

    def style(self, label: str) -> tuple[str, str]:
        """Colour and marker of a label (the last part of a case, or an algorithm); ink for none."""
        if not label:
            return INK, ""
        return self.styles.get(label) or style.style(label)

    def item(self, item: Item) -> list[Markup]:
        """All figures of an item."""
        made = [self.curves(drawing) for drawing in item.drawings if drawing.panels]
        if item.bars:
            made.insert(0, self.bars(item, [t for t in item.tables if t.metric in item.bars]))
        return made

    # ------------------------------------------------------------------ curves
    def curves(self, drawing: Drawing) -> Markup:
        """A drawing's panels, which share their axes."""
        columns = min(len(drawing.panels), 3 if len(drawing.panels) > 4 else 2)
        lines = -(-len(drawing.panels) // columns)
        with matplotlib.rc_context(_sheet(drawing.title)):
            sheet = Figure(figsize=(WIDTH, 0.7 + (2.9 if columns == 1 else 2.3) * lines))
            cells = sheet.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
            for panel, axes in zip(drawing.panels, cells.flat, strict=False):
                axes.set_title(self.report.label(panel.title) if panel.title else "")
                for curve in panel.curves:
                    self.curve(axes, curve)
            for axes in cells.flat[: len(drawing.panels)]:
                _scale(axes, drawing)  # last, because setting a limit stops autoscaling
            for axes in cells.flat[len(drawing.panels) :]:
                axes.set_axis_off()
            sheet.supxlabel(drawing.x, size="medium")
            sheet.supylabel(self.report.label(drawing.y), size="medium")
            handles = self.curve_legend(drawing)
            if len(handles) > 1:
                sheet.legend(handles=handles, loc="outside upper center", ncols=4)
            return self.inline(sheet)

    def curve(self, axes: Axes, curve: Curve) -> None:
        """A line or points with their intervals."""
        colour, marker = self.style(curve.algorithm)
        dash = style.DASHES[curve.dash % len(style.DASHES)]
        axes.plot(curve.x, curve.y, **_look(curve, colour, marker, dash))
        if curve.interval:
            half = [np.nan if width is None else width for width in curve.interval]
            axes.errorbar(curve.x, curve.y, half, fmt="none", ecolor=colour, lw=1, capsize=2)

    def curve_legend(self, drawing: Drawing) -> list[Line2D]:
        """One entry per name; in ink if the name has different colours in different panels."""
        named: dict[str, list[Curve]] = {}
        for panel in drawing.panels:
            for curve in panel.curves:
                named.setdefault(curve.name, []).append(curve)
        handles = []
        for name, curves in named.items():
            looks = {self.style(curve.algorithm) for curve in curves}
            colour, marker = looks.pop() if len(looks) == 1 else (INK, "o")
            dash = style.DASHES[curves[0].dash % len(style.DASHES)]
            look = _look(curves[0], colour, marker, dash)
            handles.append(Line2D([], [], label=self.report.label(name), **look))
        return handles

    # ------------------------------------------------------------------ bars
    def bars(self, item: Item, tables: Sequence[Table]) -> Markup:
        """An item's numbers, one panel per metric."""
        crowded = any(len(settings(table)) > 4 for table in tables)
        columns = 1 if crowded else min(2, len(tables))
        lines = -(-len(tables) // columns)
        with matplotlib.rc_context(_sheet(item.id)):
            sheet = Figure(figsize=(WIDTH, 0.5 + 2.7 * lines))
            panels = list(sheet.subplots(lines, columns, squeeze=False).flat)
            for table, axes in zip(tables, panels, strict=False):
                self.bar_panel(axes, table)
            for axes in panels[len(tables) :]:
                axes.set_axis_off()
            handles = self.bar_legend(item, tables)
            sheet.legend(handles=handles, loc="outside upper center", ncols=4)
            return self.inline(sheet)

    def bar_panel(self, axes: Axes, table: Table) -> None:
        """Published as hollow bars, measured as full bars with intervals, theory as lines."""
        shift = 0.9 if any(row.published is not None for row in table.rows) else 0.45
        place = 0.0
        ticks = []
        for rows in settings(table).values():
            ticks.append(place + len(rows) - 0.5)
            for row in rows:
                edge: dict[str, Any] = {"edgecolor": self.style(row.case.algorithm)[0], "lw": 1.4}
                if row.published is not None:
                    axes.bar(place, row.published, 0.8, facecolor="none", **edge)
                if row.measured is not None:
                    fill = edge["edgecolor"]
                    axes.bar(place + shift, row.measured, 0.8, facecolor=fill, **edge)
                if row.measured is not None and row.interval is not None:
                    at = place + shift
                    axes.errorbar(at, row.measured, row.interval, color=INK, lw=1, capsize=2)
                for label, value in row.theory.items():
                    dash = self.mark(label)
                    axes.hlines(value, place - 0.45, place + 1.35, color=INK, ls=dash, lw=1.3)
                place += 2.0
            place += 1.0
        axes.set_xticks(np.array(ticks) - 0.05, [self.tick(name) for name in settings(table)])
        axes.tick_params(axis="x", length=0)
        axes.grid(axis="x", visible=False)
        axes.set_title(self.report.label(table.metric))
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))

    def bar_legend(self, item: Item, tables: Sequence[Table]) -> list[Patch | Line2D]:
        """The meaning of colours, fillings and lines."""
        names = dict.fromkeys(row.case.algorithm for table in tables for row in table.rows)
        handles: list[Patch | Line2D] = [Patch(facecolor=INK, edgecolor=INK, label="measured")]
        if any(row.published is not None for table in tables for row in table.rows):
            handles.insert(0, Patch(facecolor="none", edgecolor=INK, label="published"))
        for name in names:
            handles.append(Patch(color=self.style(name)[0], label=self.report.label(name)))
        for name in self.report.theories(item):
            label = self.report.label(name)
            handles.append(Line2D([], [], color=INK, ls=self.mark(name), lw=1.3, label=label))
        return handles

    def mark(self, theory: str) -> Any:
        """The line style of a kind of theory value, the same in every figure of a report."""
        return MARKS[list(self.report.theory).index(theory) % len(MARKS)]

    def tick(self, name: str) -> str:
        """A setting's label, a line for each of its parts."""
        return "\n".join(textwrap.fill(self.report.label(part), 14) for part in Case(name).parts)

    # ------------------------------------------------------------------ SVG
    def inline(self, sheet: Figure) -> Markup:
        """The sheet as SVG for a page: with the page's colours and font, and only ids in use."""
        buffer = io.StringIO()
        sheet.savefig(buffer, format="svg", transparent=True)
        svg = buffer.getvalue()
        svg = svg[svg.index("<svg") :]
        svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
        svg = re.sub(r' xmlns(:xlink)?="[^"]*"', "", svg).replace("xlink:href", "href")
        used = set(re.findall(r"url\(#([^)]+)\)|href=\"#([^\"]+)\"", svg))
        kept = {one or other for one, other in used}
        svg = re.sub(r' id="([^"]*)"', lambda m: m[0] if m[1] in kept else "", svg)
        svg = re.sub(r"font: ([0-9.]+)px [^;\"]*", r"font-size: \1px", svg)
        svg = svg.replace(INK, "var(--ink)").replace(RULE, "var(--rule)")
        for i, colour in enumerate(self.colours):
            svg = svg.replace(colour, f"var(--series-{i})")
        return Markup(svg)


def settings(table: Table) -> dict[str, list[Row]]:
    """The rows by setting, which is the case without its last part: one group of bars each."""
    groups: dict[str, list[Row]] = {}
    for row in table.rows:
        groups.setdefault(row.case.setting, []).append(row)
    return groups


def _styles(algorithms: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Colour and marker by label; the first label of an algorithm has the algorithm's own."""
    named = {label: f"{name.split(':')[0]}:{label}" for label, name in algorithms.items()}
    return {label: style.style(name, list(named.values())) for label, name in named.items()}


def _others(report: Report) -> list[str]:
    """Algorithms of curves that are not those of a case."""
    return [
        curve.algorithm
        for item in report.items
        for drawing in item.drawings
        for panel in drawing.panels
        for curve in panel.curves
        if curve.algorithm and curve.algorithm not in report.algorithms
    ]


def _look(curve: Curve, colour: str, marker: str, dash: str) -> dict[str, Any]:
    """Matplotlib's properties of a curve, in its panel and in the legend."""
    look: dict[str, Any] = {"color": colour, "ls": dash, "lw": 1.1}
    if curve.mark:
        look |= {"marker": marker, "markersize": 4.5}
    if curve.mark == "hollow":
        look |= {"ls": "none", "markerfacecolor": "none"}
    if not curve.algorithm:
        look |= {"ls": MARKS[(curve.dash + 1) % len(MARKS)], "lw": 1.3}
    return look


def _scale(axes: Axes, drawing: Drawing) -> None:
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        if name in drawing.log:
            axes.set(**{f"{name}scale": "log"})
            # Plain numbers, because the page's text has no math mode for powers of ten.
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter("")
    if "y" not in drawing.log:
        axes.set_ylim(bottom=0)


def _sheet(salt: str) -> dict[Any, Any]:
    return style.SHEET | {
        "axes.edgecolor": RULE,
        "axes.labelcolor": INK,
        "grid.color": RULE,
        "path.simplify_threshold": 0.3,
        "svg.fonttype": "none",
        "svg.hashsalt": salt,
        "text.color": INK,
        "xtick.color": INK,
        "ytick.color": INK,
    }
