"""A Report as one HTML file that needs nothing else: no script, no font, no other host."""

import io
import re
import textwrap
from collections.abc import Sequence
from typing import Any

import jinja2
import matplotlib
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from anabranch import plot
from anabranch.report import Item, Report, Row, Table, measured, number, percent

INK, RULE = "#010203", "#040506"
"""Colours that stand for the page's own, which differ by day and by night."""

MARKS = ["-", (0, (4, 1.5)), (0, (1, 1)), (0, (4, 1, 1, 1))]
"""Line styles of the theory values, in the order in which the report explains them."""


def html(report: Report) -> str:
    """The whole page. The same report gives the same bytes."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("anabranch", package_path=""),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"number": number, "percent": percent, "measured": measured}
    colours = sorted({plot.style(name)[0] for name in report.algorithms.values()})
    figures = {item.id: figure(report, item, colours) for item in report.items if item.tables}
    template = environment.get_template("report.html.j2")
    return template.render(report=report, figures=figures, colours=colours)


def figure(report: Report, item: Item, colours: Sequence[str]) -> Markup:
    """An item's numbers as inline SVG, one panel per metric."""
    crowded = any(len(settings(table)) > 4 for table in item.tables)
    columns = 1 if crowded else min(2, len(item.tables))
    lines = -(-len(item.tables) // columns)
    sheet = plot.SHEET | {
        "axes.edgecolor": RULE,
        "axes.labelcolor": INK,
        "grid.color": RULE,
        "svg.fonttype": "none",
        "svg.hashsalt": item.id,
        "text.color": INK,
        "xtick.color": INK,
        "ytick.color": INK,
    }
    with matplotlib.rc_context(sheet):
        drawing = Figure(figsize=(8.6, 0.5 + 2.7 * lines))
        panels = list(drawing.subplots(lines, columns, squeeze=False).flat)
        for table, axes in zip(item.tables, panels, strict=False):
            bars(axes, report, table)
        for axes in panels[len(item.tables) :]:
            axes.set_axis_off()
        drawing.legend(handles=legend(report, item), loc="outside upper center", ncols=4)
        buffer = io.StringIO()
        drawing.savefig(buffer, format="svg", transparent=True)
    return inline(buffer.getvalue(), colours)


def bars(axes: Axes, report: Report, table: Table) -> None:
    """Published hollow, measured full with its interval, theory as a line across the bars."""
    shift = 0.9 if any(row.published is not None for row in table.rows) else 0.45
    place = 0.0
    ticks = []
    for rows in settings(table).values():
        ticks.append(place + len(rows) - 0.5)
        for row in rows:
            colour = plot.style(report.algorithms[series(row)])[0]
            if row.published is not None:
                axes.bar(place, row.published, 0.8, facecolor="none", edgecolor=colour, lw=1.4)
            if row.measured is not None:
                axes.bar(
                    place + shift, row.measured, 0.8, facecolor=colour, edgecolor=colour, lw=1.4
                )
            if row.measured is not None and row.interval is not None:
                axes.errorbar(place + shift, row.measured, row.interval, color=INK, lw=1, capsize=2)
            for label, value in row.theory.items():
                dash = mark(report, label)
                axes.hlines(value, place - 0.45, place + 1.35, color=INK, ls=dash, lw=1.3)
            place += 2.0
        place += 1.0
    axes.set_xticks(np.array(ticks) - 0.05, [tick(report, name) for name in settings(table)])
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="x", visible=False)
    axes.set_title(report.label(table.metric))
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))


def legend(report: Report, item: Item) -> list[Patch | Line2D]:
    """What colours, fillings and lines stand for."""
    names = dict.fromkeys(series(row) for table in item.tables for row in table.rows)
    colour = {name: plot.style(report.algorithms[name])[0] for name in names}
    handles: list[Patch | Line2D] = [Patch(facecolor=INK, edgecolor=INK, label="measured")]
    if any(row.published is not None for table in item.tables for row in table.rows):
        handles.insert(0, Patch(facecolor="none", edgecolor=INK, label="published"))
    handles += [Patch(color=colour[name], label=report.label(name)) for name in names]
    for name in report.theories(item):
        line = Line2D([], [], color=INK, ls=mark(report, name), lw=1.3, label=report.label(name))
        handles.append(line)
    return handles


def mark(report: Report, theory: str) -> Any:
    """The line style of a kind of theory value, the same in every figure of a report."""
    return MARKS[list(report.theory).index(theory) % len(MARKS)]


def settings(table: Table) -> dict[str, list[Row]]:
    """The rows by all of their case but its last part: the bars that stand together."""
    groups: dict[str, list[Row]] = {}
    for row in table.rows:
        groups.setdefault(row.case.rpartition(".")[0], []).append(row)
    return groups


def tick(report: Report, name: str) -> str:
    """A setting's label, a line for each of its parts."""
    return "\n".join(textwrap.fill(report.label(part), 14) for part in name.split("."))


def series(row: Row) -> str:
    """The last part of a case: what ran."""
    return row.case.rpartition(".")[2]


def inline(svg: str, colours: Sequence[str]) -> Markup:
    """Matplotlib's SVG as part of a page: the page's colours and font, no ids but those in use."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"', "", svg).replace("xlink:href", "href")
    used = set(re.findall(r"url\(#([^)]+)\)|href=\"#([^\"]+)\"", svg))
    kept = {one or other for one, other in used}
    svg = re.sub(r' id="([^"]*)"', lambda m: m[0] if m[1] in kept else "", svg)
    svg = re.sub(r"font: ([0-9.]+)px [^;\"]*", r"font-size: \1px", svg)
    svg = svg.replace(INK, "var(--ink)").replace(RULE, "var(--rule)")
    for i, colour in enumerate(colours):
        svg = svg.replace(colour, f"var(--series-{i})")
    return Markup(svg)
