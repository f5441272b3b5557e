"""Curves on axes; and the figure of a study: a panel per rule with all others in grey, or a panel
per case."""

from dataclasses import replace
from functools import partial
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from anabranch.experiments.case import Case
from anabranch.experiments.curves import Curve, Drawing, drawn, sweep, together
from anabranch.experiments.drawings import Distribution, Plane, Series, Sweep
from anabranch.experiments.outcome import Outcome
from anabranch.experiments.values import numbers
from anabranch.figures import panels
from anabranch.figures.panels import Panel
from anabranch.figures.style import DASHES, INK, Marker, plain_log, style
from anabranch.scenario import ScenarioError

MARKS = ["-", (0, (4, 1.5)), (0, (1, 1)), (0, (4, 1, 1, 1)), (0, (6, 1, 1, 1, 1, 1))]
"""Line styles of what is of no algorithm, such as the kinds of theory value."""
PANEL = 1.25
"""Height of a panel of a rule, inches."""
OTHERS = "#c4c4c4"
"""Lines of all other rules, behind the one of the panel."""


def look_of(curve: Curve, colour: str, marker: Marker) -> dict[str, Any]:
    """Matplotlib's properties of a curve, in its panel and in the legend."""
    dash = DASHES[curve.dash % len(DASHES)]
    look: dict[str, Any] = {"color": colour, "ls": dash, "lw": 1.1}
    if curve.mark:
        look |= {"marker": marker, "markersize": 4.5}
    if curve.mark == "hollow":
        look |= {"ls": "none", "markerfacecolor": "none"}
    if not curve.algorithm:
        look |= {"ls": MARKS[(curve.dash + 1) % len(MARKS)], "lw": 1.3}
    return look


def draw_curve(axes: Axes, curve: Curve, colour: str, marker: Marker) -> None:
    """A line or points with their intervals."""
    axes.plot(curve.x, curve.y, **look_of(curve, colour, marker))
    if curve.interval:
        half = [np.nan if width is None else width for width in curve.interval]
        axes.errorbar(curve.x, curve.y, half, fmt="none", ecolor=colour, lw=1, capsize=2)


def draw(outcome: Outcome) -> Figure:
    """The figure that the study's file asks for."""
    asked = outcome.suite.entries.figure
    if asked is None:
        raise ScenarioError(f"{outcome.suite.name} has no figure")
    if isinstance(asked, Plane):
        return _plane(outcome, asked)
    of_rules = together([_of_rule(outcome, asked, rule) for rule in outcome.rules])
    return _panel_per_rule(outcome, asked, of_rules)


def _of_rule(outcome: Outcome, asked: Sweep | Series | Distribution, rule: str) -> Drawing:
    """The curves of a rule, under its name, and those that it is compared with."""
    if isinstance(asked, Sweep):
        means = outcome.table
        means = means[(means["rule"] == rule) & (means["measure"] == asked.metric)]
        drawing = sweep(asked, means.assign(case=means["case"] + ".rule"), {}, {})
        baselines = []
    else:
        (case,) = asked.cases or ()
        drawing = _of_case(outcome, asked, case, rule)
        baselines = [
            replace(curve, name=outcome.suite.entries.cases[case].label, algorithm="", dash=number)
            for number, case in enumerate(asked.baselines)
            for alone in outcome.suite.entries.cases[case].rules or ()
            for curve in _of_case(outcome, asked, case, alone).curves
        ]
    own = [replace(c, name=rule, algorithm=rule) if c.algorithm else c for c in drawing.curves]
    return replace(drawing, curves=[*own, *baselines])


def _of_case(outcome: Outcome, asked: Series | Distribution, case: str, rule: str) -> Drawing:
    """A case with a rule: of a series the first run that did not fail, else all of them."""
    runs = outcome.extracts.get((case, rule), {})
    some = sorted(runs)[: 1 if isinstance(asked, Series) else None]
    return drawn(asked, {seed: runs[seed] for seed in some}, Case(case))


def _panel_per_rule(
    outcome: Outcome, asked: Sweep | Series | Distribution, drawing: Drawing
) -> Figure:
    """All other rules in grey; the rule in its colour, and curves that it is compared with."""
    rules = list(outcome.rules)
    marks = asked.marks if isinstance(asked, Series) else ()

    def panel(rule: str, axes: Axes) -> None:
        for curve in drawing.curves:
            if curve.algorithm in (rule, ""):
                draw_curve(axes, curve, *(style(rule, rules) if curve.algorithm else (INK, "")))
            else:
                axes.plot(curve.x, curve.y, color=OTHERS, linewidth=0.6, zorder=1.5)
        for mark in marks:
            axes.axvline(mark, color=INK, linestyle=":", linewidth=0.8)
        axes.set_title(rule, color=style(rule, rules)[0])
        plain_log(axes, drawing.log)

    shared = {
        curve.name: look_of(curve, INK, "") for curve in drawing.curves if not curve.algorithm
    }
    looks = {"the other rules": {"color": OTHERS}, **shared}
    if marks and isinstance(asked, Series):
        looks[asked.marks_label] = {"color": INK, "ls": ":"}
    keys = [(Line2D([], [], **look), name) for name, look in looks.items()]
    below, zero = fill(drawing.x, 22), "y" not in drawing.log  # letters in the width of a panel
    each = [Panel(partial(panel, rule), rule, below, row="all", zero=zero) for rule in rules]
    figure = panels.render(panels.Drawing(each, _caption(outcome), height=PANEL, legend=keys))
    figure.supylabel(drawing.y, fontsize="medium")
    return figure


def _plane(outcome: Outcome, asked: Plane) -> Figure:
    """A panel per case, one below the other, with a marker per rule."""
    rules = list(outcome.rules)
    looks = {rule: style(rule, rules) for rule in rules}

    def points(case: str, axes: Axes) -> None:
        xs = numbers(outcome.table, rules, asked.x_metric, case)
        ys = numbers(outcome.table, rules, asked.y_metric, case)
        for rule in (one for one in xs if one in ys):
            (x, x_half), (y, y_half) = xs[rule], ys[rule]
            colour, marker = looks[rule]
            look: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 6}
            axes.errorbar(x, y, y_half, x_half, elinewidth=0.8, **look)

    def panel(case: str) -> Panel:
        title = outcome.suite.entries.cases[case].label
        return Panel(partial(points, case), title, asked.x, asked.y, row="all", zero=False)

    keys = [(Line2D([], [], ls="", color=c, marker=m), rule) for rule, (c, m) in looks.items()]
    form: dict[str, Any] = {"height": 2.1, "least": panels.Drawing.width, "legend": keys}
    return panels.render(panels.Drawing([*map(panel, asked.cases)], _caption(outcome), **form))


def _caption(outcome: Outcome) -> str:
    return f"{outcome.suite.entries.title}: {outcome.backend}, {outcome.over}{outcome.form}"
