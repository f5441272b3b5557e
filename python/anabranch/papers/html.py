"""A report as a self-contained page, with its figures as SVG in light and dark colours."""

import io
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import matplotlib
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from anabranch.experiments.case import Case
from anabranch.experiments.curves import Curve, Drawing
from anabranch.experiments.figures import MARKS, draw_curve, look_of
from anabranch.experiments.pages import render
from anabranch.figures import style
from anabranch.figures.network import topology
from anabranch.figures.style import Marker
from anabranch.papers.report import NEAR, OFF, Item, Report, Row, Table, measured

INK, RULE = style.PAGE_INK, style.PAGE_RULE

WIDTH = 4.1
"""The width of every drawing, inches: that of a phone; a page has two beside each other."""

HEIGHT = 2.5
"""The height of most drawings, inches."""

MOST_BARS = 9
"""Cases in a drawing; more settings go on in the next one."""

SYMBOLS = ["o", "s", "^", "D", "v"]
"""Markers of the kinds of theory value, beside their line styles."""

Entry = Patch | Line2D
"""Entries of a legend."""


class Pictures:
    """Draws the figures of one report; `colours` are those of rules that it has used."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.made = 0
        self.colours: list[str] = []
        self.styles = _styles(report.algorithms)

    def style(self, label: str) -> tuple[str, Marker]:
        """Colour and marker of a label (the last part of a case, or an algorithm); ink for none."""
        if not label:
            return INK, ""
        found = self.styles.get(label) or style.style(label)
        self.colours += [found[0]] if found[0] not in self.colours else []
        return found

    def item(self, item: Item) -> list[list[Markup]]:
        """All figures of an item; each is a legend and drawings to put beside each other."""
        made = [self.curves(drawing) for drawing in item.drawings if drawing.curves]
        if item.bars:
            made.insert(0, self.bars(item))
        return made

    # ------------------------------------------------------------------ curves
    def curves(self, drawing: Drawing) -> list[Markup]:
        """A drawing's panels, whose axes have the same limits."""

        def panel(axes: Axes, of: tuple[str, Sequence[Curve]]) -> None:
            title, curves = of
            axes.set_title(self.report.label(title) if title else "")
            for curve in curves:
                draw_curve(axes, curve, *self.style(curve.algorithm))
            style.plain_log(axes, drawing.log)
            if "y" not in drawing.log:
                axes.set_ylim(bottom=0)  # last, because setting a limit stops autoscaling
            axes.set(xlabel=drawing.x, ylabel=self.report.label(drawing.y))

        made = self.sheets(drawing.title, panel, [*drawing.panels.items()], "xy")
        handles = self.curve_legend(drawing)
        return [self.legend(handles, drawing.title), *made] if len(handles) > 1 else made

    def curve_legend(self, drawing: Drawing) -> list[Line2D]:
        """One entry per name; in ink if the name has different colours in different panels."""
        named: dict[str, list[Curve]] = {}
        for curve in (curve for curves in drawing.panels.values() for curve in curves):
            named.setdefault(curve.name, []).append(curve)
        handles = []
        for name, curves in named.items():
            looks = {self.style(curve.algorithm) for curve in curves}
            colour, marker = looks.pop() if len(looks) == 1 else (INK, "o")
            look = look_of(curves[0], colour, marker)
            handles.append(Line2D([], [], label=self.report.label(name), **look))
        return handles

    # ------------------------------------------------------------------ bars
    def bars(self, item: Item) -> list[Markup]:
        """An item's numbers: a drawing per metric, or several where there are many settings."""
        made, tables = [], [table for table in item.tables if table.metric in item.bars]
        for table in (table for table in tables if table.rows):
            made += self.sheets(item.id, partial(self.bar_panel, table), _lines(table), "y")
        return [self.legend(self.bar_legend(item, tables), item.id), *made]

    def bar_panel(self, table: Table, axes: Axes, groups: Sequence[Sequence[Row]]) -> None:
        """Published as hollow bars, measured as full bars with intervals, theory as lines."""
        shift = 0.9 if any(row.published is not None for row in table.rows) else 0.45
        place = 0.0
        ticks = []
        for rows in groups:
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
                    look = self.mark(label)
                    axes.plot([place - 0.45, place + 0.45, place + 1.35], [value] * 3, **look)
                place += 2.0
            place += 1.0
        names = [self.tick(rows[0].case.setting, len(groups)) for rows in groups]
        axes.set_xticks(np.array(ticks) - 0.05, names)
        axes.tick_params(axis="x", length=0)
        axes.grid(axis="x", visible=False)
        axes.set_title("\n".join(textwrap.wrap(self.report.label(table.metric), 44)))
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))

    def bar_legend(self, item: Item, tables: Sequence[Table]) -> list[Entry]:
        """The meaning of colours, fillings and lines."""
        names = dict.fromkeys(row.case.algorithm for table in tables for row in table.rows)
        grey = style.DIAGONAL
        handles: list[Entry] = [Patch(facecolor=grey, edgecolor=grey, label="filled: measured")]
        if any(row.published is not None for table in tables for row in table.rows):
            hollow = Patch(facecolor="none", edgecolor=grey, label="hollow: published")
            handles.insert(0, hollow)
        for name in names:
            handles.append(Patch(color=self.style(name)[0], label=self.report.label(name)))
        for name in self.report.theories(item):
            look = {**self.mark(name), "markevery": None}
            handles.append(Line2D([], [], label=self.report.label(name), **look))
        return handles

    def mark(self, theory: str) -> dict[str, Any]:
        """Line and symbol of a kind of theory value, the same in every figure of a report."""
        kind = list(self.report.theory).index(theory)
        symbol = {"marker": SYMBOLS[kind % len(SYMBOLS)], "markersize": 3.5, "markevery": [1]}
        face = {"markerfacecolor": style.DIAGONAL}
        return {"color": INK, "ls": MARKS[kind % len(MARKS)], "lw": 1.1, **symbol, **face}

    def tick(self, name: str, beside: int) -> str:
        """A setting's label, a line for each of its parts; `beside`: how many share the axis."""
        letters = max(8, 44 // beside)
        parts = Case(name).parts
        return "\n".join(textwrap.fill(self.report.label(part), letters) for part in parts)

    # ------------------------------------------------------------------ diagonal
    def diagonal(self) -> Markup | None:
        """Every printed number against the measured one; None below three of them."""
        rows = [
            row
            for item in self.report.in_order
            for table in item.tables
            if not table.repeats
            for row in table.rows
            if not row.inferred
            if (row.published or 0) > 0 and (row.measured or 0) > 0
        ]
        if len(rows) < 3:
            return None
        values = np.array([(row.published, row.measured) for row in rows], dtype=float)
        ends = np.array([values.min() / 1.5, values.max() * 1.5])
        with matplotlib.rc_context(_sheet("diagonal")):
            sheet = Figure(figsize=(WIDTH, WIDTH))
            axes = sheet.add_subplot()
            style.plain_log(axes, "xy")
            axes.set(xlim=ends, ylim=ends, aspect="equal")
            for away in OFF, NEAR:
                band: dict[str, Any] = {"color": style.DIAGONAL, "alpha": 0.3, "lw": 0}
                axes.fill_between(ends, ends * (1 - away), ends * (1 + away), **band)
            axes.plot(ends, ends, color=style.DIAGONAL, lw=0.8)
            for row, (printed, measured) in zip(rows, values, strict=True):
                colour, marker = self.style(row.case.algorithm)
                look: dict[str, Any] = {"ls": "none", "marker": marker or "o", "markersize": 4.5}
                axes.plot(printed, measured, color=colour, mec=INK, mew=0.4, **look)
            axes.set(xlabel="published", ylabel="measured")
            return self.inline(sheet, "diagonal")

    # ------------------------------------------------------------------ SVG
    def sheets(
        self, salt: str, draw: Callable[[Axes, Any], None], panels: Sequence[Any], same: str
    ) -> list[Markup]:
        """A sheet per panel; the axes `same` have the limits that hold all of them."""
        with matplotlib.rc_context(_sheet(salt)):
            made = [Figure(figsize=(WIDTH, HEIGHT)) for _ in panels]
            each = [sheet.add_subplot() for sheet in made]
            for axes, panel in zip(each, panels, strict=True):
                draw(axes, panel)
        for key in (f"{name}lim" for name in same):
            low, high = zip(*(getattr(axes, f"get_{key}")() for axes in each), strict=True)
            for axes in each:
                axes.set(**{key: (min(low), max(high))})
        return [self.inline(sheet, salt) for sheet in made]

    def legend(self, handles: Sequence[Entry], salt: str) -> Markup:
        """A drawing with a legend alone."""
        longest = max(len(str(handle.get_label())) for handle in handles)
        columns = 1 if longest > 26 else 2 if longest > 14 else 3
        lines = -(-len(handles) // columns)
        with matplotlib.rc_context(_sheet(salt)):
            sheet = Figure(figsize=(WIDTH, 0.06 + 0.19 * lines))
            sheet.set_layout_engine("none")
            sheet.legend(handles=list(handles), loc="center left", ncols=columns, borderpad=0)
        return self.inline(sheet, salt)

    def inline(self, sheet: Figure, salt: str) -> Markup:
        """The sheet as SVG for a page: with the page's colours and font, and only ids in use."""
        buffer = io.StringIO()
        self.made += 1  # ids differ within a page
        with matplotlib.rc_context(_sheet(f"{salt} {self.made}")):
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


def _lines(table: Table) -> list[list[list[Row]]]:
    """The rows by setting, a group of bars each; as many together as a drawing has room for."""
    groups: dict[str, list[Row]] = {}
    for row in table.rows:
        groups.setdefault(row.case.setting, []).append(row)
    lines: list[list[list[Row]]] = []
    for rows in groups.values():
        if not lines or sum(map(len, lines[-1])) + len(rows) > MOST_BARS:
            lines.append([])
        lines[-1].append(rows)
    return lines


def _styles(algorithms: Mapping[str, str]) -> dict[str, tuple[str, Marker]]:
    """Colour and marker by label; the first label of an algorithm has the algorithm's own."""
    named = {label: f"{name.split(':')[0]}:{label}" for label, name in algorithms.items()}
    return {label: style.style(name, list(named.values())) for label, name in named.items()}


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


OPEN = 12
"""Tables with at most so many numbers are not folded."""


def html(report: Report) -> str:
    """The page of one paper; the same report gives the same bytes."""
    pictures = Pictures(report)
    figures = {item.id: pictures.item(item) for item in report.items}
    networks = {name: topology(network) for name, network in report.networks.items()}
    return render(
        "paper.html.j2",
        report=report,
        figures=figures,
        diagonal=pictures.diagonal(),
        OPEN=OPEN,
        measured=measured,
        networks=networks,
        colours=pictures.colours,
    )
