"""The figure of a suite. Its width suits a narrow column: 5 inches, panels below one another."""

from collections.abc import Callable, Sequence
from textwrap import fill
from typing import Any, Literal

import matplotlib
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
from anabranch.figures.style import BAND, INK, LABELS, SHEET, style
from anabranch.scenario import ScenarioError

WIDTH = 5.0
"""Width of every figure, inches."""
ACROSS = 3
"""Panels of rules in a row."""
PANEL = 1.25
"""Height of a row of panels, inches."""
LINE = 0.2
"""Height of a line of text above or below the panels, inches."""
LETTERS = 74
"""Letters of small text in the width."""
OTHERS = "#c4c4c4"
"""Lines of all other rules, behind the one of the panel."""
BASELINES: tuple[Literal["--", ":"], ...] = ("--", ":")

Draw = Callable[[Axes, str], None]


def draw(outcome: Outcome) -> Figure:
    """The figure that the study's file asks for."""
    match outcome.suite.entries.figure:
        case Curve() as drawing:
            return _curve(outcome, drawing)
        case Plane() as drawing:
            return _plane(outcome, drawing)
        case Time() as drawing:
            return _time(outcome, drawing)
        case Distribution() as drawing:
            return _distribution(outcome, drawing)
    raise ScenarioError(f"{outcome.suite.name} has no figure")


def _panels(
    outcome: Outcome, one: Draw, shared: Callable[[Axes], None], keys: Sequence[Any], y: str, x: str
) -> Figure:
    """A panel per rule: `shared`, then all other rules in grey, then the rule in its colour."""
    rules = list(outcome.rules)
    across = min(ACROSS, len(rules))
    rows = -(-len(rules) // across)
    caption = _caption(outcome)
    lines = caption.count("\n") + 3
    with matplotlib.rc_context(SHEET):
        figure = Figure(figsize=(WIDTH, PANEL * rows + LINE * lines + 0.2))
        grid = figure.subplots(rows, across, sharex=True, sharey=True, squeeze=False)
        for axes, rule in zip(grid.flat, rules, strict=False):
            shared(axes)
            for other in rules:
                if other != rule:
                    with matplotlib.rc_context({"lines.linewidth": 0.6}):
                        one(axes, other)
                    for line in axes.lines[-1:]:
                        line.set(color=OTHERS, marker="", zorder=1.5)
            with matplotlib.rc_context({"lines.linewidth": 1.5}):
                one(axes, rule)
            axes.set_title(rule, color=style(rule, rules)[0], fontweight="bold")
        for axes in grid.flat[len(rules) :]:
            axes.set_axis_off()
        # Panels above an empty place have the axis that it would have had.
        for column in range(across):
            used = [row for row in range(rows) if row * across + column < len(rules)]
            grid[used[-1], column].tick_params(labelbottom=True)
        figure.supylabel(y, fontsize="medium")
        figure.supxlabel(x, fontsize="medium")
        _key(figure, keys, caption)
    return figure


def _key(figure: Figure, keys: Sequence[Any], caption: str) -> None:
    """Legend of the lines, under the caption, above the panels."""
    legend = figure.legend(
        handles=keys,
        title=caption,
        title_fontsize="small",
        alignment="left",
        loc="outside upper left",
        ncols=min(3, len(keys)),
        handletextpad=0.5,
        columnspacing=1.2,
    )
    legend.get_title().set_color(LABELS)


def _caption(outcome: Outcome) -> str:
    count = len(outcome.seeds)
    seeds = "one seed" if count == 1 else f"{count} seeds"
    form = ", quick form" if outcome.quick else ""
    return fill(f"{outcome.suite.entries.title}: {outcome.backend}, {seeds}{form}", LETTERS)


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

    keys = [Line2D([], [], color=OTHERS, label="the other rules")]
    if drawing.reference:
        keys.append(Line2D([], [], color=INK, linestyle="--", label=drawing.reference_label))
    figure = _panels(outcome, one, shared, keys, drawing.y, drawing.x)
    figure.axes[0].set_ylim(bottom=0)
    return figure


def _plane(outcome: Outcome, drawing: Plane) -> Figure:
    table, rules = outcome.table, list(outcome.rules)
    rows = -(-len(rules) // 3)
    with matplotlib.rc_context(SHEET):
        height = 2.1 * len(drawing.cases) + LINE * (rows + 2)
        figure = Figure(figsize=(WIDTH, height))
        panels = figure.subplots(len(drawing.cases), 1, sharex=True, sharey=True, squeeze=False)
        for axes, case in zip(panels.flat, drawing.cases, strict=True):
            xs = numbers(table, rules, drawing.x_measure, case)
            ys = numbers(table, rules, drawing.y_measure, case)
            for rule in xs.keys() & ys.keys():
                x, y = xs[rule], ys[rule]
                colour, marker = style(rule, rules)
                axes.errorbar(
                    *(x["value"], y["value"], y["value_ci95"], x["value_ci95"]),
                    color=colour,
                    marker=marker,
                    markersize=6,
                    elinewidth=0.8,
                )
            axes.set_title(outcome.suite.entries.cases[case].label)
            axes.set_ylabel(drawing.y)
            if drawing.log == "y":
                axes.set_yscale("log")
                axes.yaxis.set_major_formatter("{x:g}")
        panels.flat[-1].set_xlabel(drawing.x)
        handles = [
            Line2D([], [], linestyle="", color=colour, marker=marker, label=rule)
            for rule in rules
            for colour, marker in [style(rule, rules)]
        ]
        _key(figure, handles, _caption(outcome))
    return figure


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

    keys: list[Any] = [Line2D([], [], color=OTHERS, label="the other rules")]
    if drawing.marks_label:
        keys.append(Line2D([], [], color=INK, linestyle=":", label=drawing.marks_label))
    if traces or drawing.base:
        keys.append(Patch(color=BAND, label="capacity"))
    figure = _panels(outcome, one, shared, keys, drawing.y, "time (s)")
    figure.axes[0].set_ylim(bottom=0)
    return figure


def _distribution(outcome: Outcome, drawing: Distribution) -> Figure:
    rules, samples = list(outcome.rules), outcome.samples
    labels = {case: outcome.suite.entries.cases[case].label for case in drawing.baselines}
    baselines = {case: pd.concat(samples.of(case))["value"] for case in drawing.baselines}

    def one(axes: Axes, rule: str) -> None:
        if found := samples.of(drawing.case, rule):
            _count(axes, pd.concat(found)["value"], drawing.tail, color=style(rule, rules)[0])

    def shared(axes: Axes) -> None:
        for values, dash in zip(baselines.values(), BASELINES, strict=False):
            _count(axes, values, drawing.tail, color=INK, linestyle=dash, linewidth=1.0, zorder=3)
        if drawing.tail:
            axes.set(xscale="log", yscale="log")
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_formatter("{x:g}")
                axis.set_minor_formatter("")

    keys: list[Any] = [Line2D([], [], color=OTHERS, label="the other rules")]
    for label, dash in zip(labels.values(), BASELINES, strict=False):
        keys.append(Line2D([], [], color=INK, linestyle=dash, label=label))
    return _panels(outcome, one, shared, keys, drawing.y, drawing.x)


def _count(axes: Axes, values: pd.Series, tail: bool, **look: Any) -> None:
    """The share of values below each, or with `tail` of those that are as large or larger."""
    ordered = np.sort(values.to_numpy())
    rank = np.arange(len(ordered)) / len(ordered)
    axes.step(ordered, 1 - rank if tail else rank, where="pre" if tail else "post", **look)
