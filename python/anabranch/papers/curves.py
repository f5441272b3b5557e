"""The curves of a paper's figures: over time, over a swept value, the tail of a distribution.

An item's `figures` in `experiments.toml` define them (`figures.py`). This module computes
their numbers; `html.py` draws them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from anabranch.experiments.samples import over_time
from anabranch.papers.case import Case
from anabranch.papers.figures import Line, Series, Sweep, Tail
from anabranch.papers.suite import Metric
from anabranch.quantities.table import rows
from anabranch.quantities.tails import ccdf, tail_fit
from anabranch.result import Result, between

TAIL_POINTS = 200
"""Points of a curve of a tail, evenly spaced on a log axis."""


@dataclass(frozen=True)
class Curve:
    """One line or one set of points."""

    name: str
    """The legend entry: labels joined by dots."""
    algorithm: str
    """Key of its colour: the last part of a case, or an algorithm."""
    x: Sequence[float]
    y: Sequence[float]
    interval: Sequence[float | None] = ()
    """Half the 95 % interval of each point."""
    dash: int = 0
    """The index of the line style."""
    mark: str = ""
    """`full` points, `hollow` ones (published, without a line), or none if empty."""


@dataclass(frozen=True)
class Panel:
    """Curves over the same axes."""

    title: str
    """Labels joined by dots."""
    curves: Sequence[Curve]


@dataclass(frozen=True)
class Drawing:
    """One figure."""

    title: str
    x: str
    y: str
    """The labels of the axes."""
    panels: Sequence[Panel]
    log: str = ""
    """The axes that are logarithmic: `x`, `y`, `xy` or none."""


def drawn(figure: Series | Tail, result: Result, cases: Sequence[Case]) -> Drawing:
    """A figure drawn from whole runs."""
    return (
        series(figure, result, cases) if isinstance(figure, Series) else tail(figure, result, cases)
    )


def series(figure: Series, result: Result, cases: Sequence[Case]) -> Drawing:
    """Columns of the samples over time, s."""
    panels: dict[str, list[Curve]] = {}
    for case in cases:
        for number, line in enumerate(figure.lines):
            title = {"case": case, "line": line.label}.get(figure.panels, "")
            curves = _lines(figure, result, case, line, 0 if figure.panels == "line" else number)
            panels.setdefault(title, []).extend(curves)
    made = [Panel(name, of_panel) for name, of_panel in panels.items()]
    return Drawing(figure.title, "time (s)", figure.y, made)


def _lines(figure: Series, result: Result, case: Case, line: Line, dash: int) -> Iterator[Curve]:
    """A line of one case, and its levels."""
    name = {"case": line.label, "line": case}.get(figure.panels, Case.of(case, line.label))
    x, y = _over_time(figure, result, case, line)
    yield Curve(name, line.algorithm or case.algorithm, x, y, dash=dash)
    for start, stop, value in line.levels:
        yield Curve("level", "", [start, stop], [value, value])


def _over_time(
    figure: Series, result: Result, case: Case, line: Line
) -> tuple[list[float], list[float]]:
    """Times and values: the sum over paths unless one is chosen, the mean over users and seeds."""
    samples = rows(result.tables()[line.table], case=case, seed=figure.seed)
    column = line.name
    if line.share:
        together = samples.groupby(["seed", "time_s"])[column].transform("sum")
        samples = samples.assign(**{column: samples[column] / together})
    samples = rows(samples, flow=line.flow, path=line.path, link=line.link)
    samples = between(samples, figure.from_s, figure.to_s)
    mean = over_time(samples, column, figure.bin_s)
    return _round(mean.index), _round(mean)


def tail(figure: Tail, result: Result, cases: Sequence[Case]) -> Drawing:
    """The share of transfers that last x s or longer, on log axes, over all seeds.

    With `low_s` and `high_s` the line fitted between them is added, with its slope; with
    `rate_mbps` the distribution of the time that each file would take at that rate.
    """
    panels: dict[str, list[Curve]] = {}
    for case in cases:
        setting, algorithm = case.setting, case.algorithm
        transfers = rows(result.transfers, case=case, flow=figure.flow)
        ordered = np.sort(transfers["duration_s"].to_numpy())
        x = np.geomspace(ordered[0], ordered[-1], TAIL_POINTS)
        if figure.rate_mbps is not None and setting not in panels:
            alone = np.sort(8e-6 * transfers["bytes"].to_numpy() / figure.rate_mbps)
            at = np.geomspace(alone[0], alone[-1], TAIL_POINTS)
            panels[setting] = [Curve("alone", "", _round(at), _round(ccdf(alone, at)))]
        curves = panels.setdefault(setting, [])
        curves.append(Curve(algorithm, algorithm, _round(x), _round(ccdf(ordered, x))))
        if figure.low_s is not None and figure.high_s is not None:
            ends = np.array([figure.low_s, figure.high_s])
            slope, intercept = tail_fit(ordered, figure.low_s, figure.high_s)
            line = _round(10**intercept * ends**slope)
            name = f"{algorithm}.slope {slope:.2f}".replace("-", "−")
            curves.append(Curve(name, algorithm, _round(ends), line, dash=1))
    made = [Panel(setting, curves) for setting, curves in panels.items()]
    return Drawing(figure.title, figure.x, figure.y, made, log="xy")


def joined(before: Drawing | None, after: Drawing) -> Drawing:
    """Two drawings as one: panels of the same title are merged, levels of both kept once."""
    if before is None:
        return after
    panels = {panel.title: list(panel.curves) for panel in before.panels}
    for panel in after.panels:
        curves = panels.setdefault(panel.title, [])
        known = {(c.name, c.x[0], c.y[0]) for c in curves if not c.algorithm}
        curves += [c for c in panel.curves if (c.name, c.x[0], c.y[0]) not in known]
    return replace(after, panels=[Panel(title, curves) for title, curves in panels.items()])


def sweep(figure: Sweep, means: pd.DataFrame, printed: Metric) -> Drawing:
    """A metric over a swept value.

    `means` has the columns `case`, `value` and `value_ci95`. There is a line per algorithm and a
    panel per remaining setting; published numbers are hollow points, theory is dashed.
    """
    published = {Case(case): value for case, value in printed.published.items()}
    cases = [*map(Case, means["case"]), *published]
    swept = {case: part for case in cases if (part := case.swept(figure.over))}
    at = {case: figure.over[part] for case, part in swept.items()}
    without = {case: case.without(part) for case, part in swept.items()}
    panels: dict[str, list[Curve]] = {}
    for line in dict.fromkeys(without.values()):
        chosen = [case for case in without if without[case] == line]
        points = means[means["case"].isin(chosen)].copy()
        points["x"] = [at[case] for case in points["case"]]
        points = points.sort_values("x")
        curves = panels.setdefault(line.setting, [])
        x, y, half = points["x"], points["value"], points["value_ci95"]
        interval = [None if np.isnan(width) else float(f"{width:.6g}") for width in half]
        name = line.algorithm
        if len(points):
            curves.append(Curve(name, name, _round(x), _round(y), interval, mark="full"))
        known = sorted((at[case], published[case]) for case in chosen if case in published)
        if known:
            curves.append(Curve("published", name, *_columns(known), mark="hollow"))
    for setting, curves in panels.items():
        chosen = [case for case, line in without.items() if line.setting == setting]
        for number, kind in enumerate(printed.theory):
            values = {at[case]: printed.theory_of(case).get(kind) for case in chosen}
            known = sorted((x, y) for x, y in values.items() if y is not None)
            if known:
                curves.append(Curve(kind, "", *_columns(known), dash=number))
    made = [Panel(setting, curves) for setting, curves in panels.items()]
    y_label = figure.metric if figure.y is None else figure.y
    return Drawing(figure.title, figure.x, y_label, made, log=figure.log)


def _columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """The x and the y of points."""
    return [x for x, _ in points], [y for _, y in points]


def _round(values: Any) -> list[float]:
    """The values to six digits, which is more than a figure resolves."""
    return [float(f"{value:.6g}") for value in np.asarray(values, dtype=float)]
