"""The figure of a suite: a panel per rule with all others in grey, or a panel per case."""

from collections.abc import Callable, Sequence
from functools import partial
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from anabranch.conversion.described import Delays, rates_at
from anabranch.experiments.drawings import Curve, Distribution, Plane, Time
from anabranch.experiments.outcome import Outcome
from anabranch.experiments.values import numbers
from anabranch.figures.panels import Drawing, Panel, render
from anabranch.figures.style import BAND, DASHES, INK, plain_log, style
from anabranch.scenario import ScenarioError

PANEL = 1.25
"""Height of a panel of a rule, inches."""
OTHERS = "#c4c4c4"
"""Lines of all other rules, behind the one of the panel."""
GREY = Line2D([], [], color=OTHERS), "the other rules"

Key = tuple[Any, str]
"""Handle and label of a legend."""


def draw(outcome: Outcome) -> Figure:
    """The figure that the study's file asks for."""
    drawing = outcome.suite.entries.figure
    if drawing is None:
        raise ScenarioError(f"{outcome.suite.name} has no figure")
    kinds: dict[type, Callable[[Outcome, Any], Figure]] = {Curve: _curve, Plane: _plane}
    kinds |= {Time: _time, Distribution: _distribution}
    return kinds[type(drawing)](outcome, drawing)


def _panels(
    outcome: Outcome,
    one: Callable[[Axes, str], None],
    shared: Callable[[Axes], None],
    keys: Sequence[Key],
    y: str,
    x: str,
    zero: bool = True,
) -> Figure:
    """A panel per rule: `shared`, then all other rules in grey, then the rule in its colour."""
    rules = list(outcome.rules)

    def panel(rule: str, axes: Axes) -> None:
        shared(axes)
        for other in rules:
            if other != rule:
                one(axes, other)
                for line in axes.lines[-1:]:
                    line.set(color=OTHERS, marker="", linewidth=0.6, zorder=1.5)
        one(axes, rule)
        axes.set_title(rule, color=style(rule, rules)[0])

    below = fill(x, 22)  # letters in the width of a panel
    panels = [Panel(partial(panel, rule), rule, below, row="all", zero=zero) for rule in rules]
    figure = render(Drawing(panels, _caption(outcome), height=PANEL, legend=[GREY, *keys]))
    figure.supylabel(y, fontsize="medium")
    return figure


def _caption(outcome: Outcome) -> str:
    return f"{outcome.suite.entries.title}: {outcome.backend}, {outcome.over}{outcome.form}"


def _curve(outcome: Outcome, drawing: Curve) -> Figure:
    table, rules = outcome.table, list(outcome.rules)
    place = range(len(drawing.cases))

    def one(axes: Axes, rule: str) -> None:
        found = [numbers(table, [rule], drawing.measure, case) for case in drawing.cases]
        means = [n[rule]["value"] if n else np.nan for n in found]
        colour, marker = style(rule, rules)
        axes.plot(place, means, color=colour, marker=marker, markersize=3.5)

    def shared(axes: Axes) -> None:
        if drawing.reference:
            axes.plot(place, drawing.reference, color=INK, linestyle="--", linewidth=1.0, zorder=3)
        labels = [outcome.suite.entries.cases[case].label for case in drawing.cases]
        axes.set_xticks(place, [label.split(" ")[0] for label in labels])
        axes.set_xlim(-0.3, len(labels) - 0.7)

    reference = Line2D([], [], color=INK, linestyle="--"), drawing.reference_label
    keys = [reference] if drawing.reference else []
    return _panels(outcome, one, shared, keys, drawing.y, drawing.x)


def _plane(outcome: Outcome, drawing: Plane) -> Figure:
    table, rules = outcome.table, list(outcome.rules)

    def points(case: str, axes: Axes) -> None:
        xs = numbers(table, rules, drawing.x_measure, case)
        ys = numbers(table, rules, drawing.y_measure, case)
        for rule in (one for one in xs if one in ys):
            x, y = xs[rule], ys[rule]
            colour, marker = style(rule, rules)
            at = (x["value"], y["value"], y["value_ci95"], x["value_ci95"])
            axes.errorbar(*at, color=colour, marker=marker, markersize=6, elinewidth=0.8)

    def panel(case: str) -> Panel:
        title = outcome.suite.entries.cases[case].label
        return Panel(partial(points, case), title, drawing.x, drawing.y, row="all", zero=False)

    looks = [(rule, *style(rule, rules)) for rule in rules]
    keys = [(Line2D([], [], linestyle="", color=c, marker=m), rule) for rule, c, m in looks]
    panels = [panel(case) for case in drawing.cases]
    below = Drawing.width  # one panel below the other
    return render(Drawing(panels, _caption(outcome), height=2.1, least=below, legend=keys))


def _time(outcome: Outcome, drawing: Time) -> Figure:
    rules = list(outcome.rules)
    traces = [outcome.suite.entries.traces[name] for name in drawing.capacity]

    def one(axes: Axes, rule: str) -> None:
        for part in outcome.samples.of(drawing.case, rule)[:1]:
            axes.plot(part["time_s"], part["value"], color=style(rule, rules)[0])

    def shared(axes: Axes) -> None:
        if traces or drawing.base:
            last = max(part["time_s"].max() for part in outcome.samples.of(drawing.case))
            times = np.arange(max(drawing.from_s, 0.0), min(drawing.to_s, last + 0.5), 0.05)
            total = drawing.base + sum(
                rates_at(trace, times) for trace in traces if not isinstance(trace, Delays)
            )
            axes.fill_between(times, total * np.ones_like(times), color=BAND, linewidth=0)
        for mark in drawing.marks:
            axes.axvline(mark, color=INK, linestyle=":", linewidth=0.8)

    keys: list[Key] = []
    if drawing.marks_label:
        keys.append((Line2D([], [], color=INK, linestyle=":"), drawing.marks_label))
    if traces or drawing.base:
        keys.append((Patch(color=BAND), "capacity"))
    return _panels(outcome, one, shared, keys, drawing.y, "time (s)")


def _distribution(outcome: Outcome, drawing: Distribution) -> Figure:
    rules, samples = list(outcome.rules), outcome.samples
    labels = [outcome.suite.entries.cases[case].label for case in drawing.baselines]
    baselines = [pd.concat(samples.of(case))["value"] for case in drawing.baselines]

    def one(axes: Axes, rule: str) -> None:
        if found := samples.of(drawing.case, rule):
            _count(axes, pd.concat(found)["value"], drawing.tail, color=style(rule, rules)[0])

    def shared(axes: Axes) -> None:
        for values, dash in zip(baselines, DASHES[1:], strict=False):
            _count(axes, values, drawing.tail, color=INK, linestyle=dash, linewidth=1.0, zorder=3)
        if drawing.tail:
            plain_log(axes, "xy")

    lines = [Line2D([], [], color=INK, ls=dash) for dash in DASHES[1:]]
    keys = list(zip(lines, labels, strict=False))
    return _panels(outcome, one, shared, keys, drawing.y, drawing.x, zero=False)


def _count(axes: Axes, values: pd.Series, tail: bool, **look: Any) -> None:
    """The share of values below each, or with `tail` of those that are as large or larger."""
    ordered = np.sort(values.to_numpy())
    rank = np.arange(len(ordered)) / len(ordered)
    axes.step(ordered, 1 - rank if tail else rank, where="pre" if tail else "post", **look)
