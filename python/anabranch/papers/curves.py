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
    panel: str = ""
    """The title of its axes: labels joined by dots."""


@dataclass(frozen=True)
class Drawing:
    """One figure."""

    title: str
    x: str
    y: str
    """The labels of the axes."""
    curves: Sequence[Curve]
    log: str = ""
    """The axes that are logarithmic: `x`, `y`, `xy` or none."""

    @property
    def panels(self) -> dict[str, list[Curve]]:
        """The curves of each pair of axes, by title."""
        found: dict[str, list[Curve]] = {}
        for curve in self.curves:
            found.setdefault(curve.panel, []).append(curve)
        return found

    def joined(self, other: "Drawing") -> "Drawing":
        """With the curves of another one; levels of both are kept once."""
        known = {(c.panel, c.name, c.x[0], c.y[0]) for c in self.curves if not c.algorithm}
        new = [c for c in other.curves if (c.panel, c.name, c.x[0], c.y[0]) not in known]
        return replace(self, curves=[*self.curves, *new])


def drawn(figure: Series | Tail, result: Result, case: Case) -> Drawing:
    """A figure drawn from the whole runs of a case, to be joined with those of others."""
    if isinstance(figure, Series):
        return Drawing(figure.title, "time (s)", figure.y, [*_series(figure, result, case)])
    return Drawing(figure.title, figure.x, figure.y, [*_tail(figure, result, case)], log="xy")


def _series(figure: Series, result: Result, case: Case) -> Iterator[Curve]:
    """Columns of the samples over time, s: the lines of one case, and their levels."""
    for number, line in enumerate(figure.lines):
        panel = {"case": case, "line": line.label}.get(figure.panels, "")
        name = {"case": line.label, "line": case}.get(figure.panels, Case.of(case, line.label))
        dash = 0 if figure.panels == "line" else number
        x, y = _over_time(figure, result, case, line)
        yield Curve(name, line.algorithm or case.algorithm, x, y, dash=dash, panel=panel)
        for start, stop, value in line.levels:
            yield Curve("level", "", [start, stop], [value, value], panel=panel)


def _over_time(
    figure: Series, result: Result, case: Case, line: Line
) -> tuple[list[float], list[float]]:
    """Times and values: the sum over paths unless one is chosen, the mean over users and seeds."""
    table, _, column = line.column.partition(".")
    samples = rows(result.tables()[table], case=case, seed=figure.seed)
    if line.share:
        together = samples.groupby(["seed", "time_s"])[column].transform("sum")
        samples = samples.assign(**{column: samples[column] / together})
    samples = rows(samples, flow=line.flow, path=line.path, link=line.link)
    samples = between(samples, figure.from_s, figure.to_s)
    mean = over_time(samples, column, figure.bin_s)
    return _round(mean.index), _round(mean)


def _tail(figure: Tail, result: Result, case: Case) -> Iterator[Curve]:
    """The share of transfers that last x s or longer, on log axes, over all seeds.

    With `low_s` and `high_s` the line fitted between them is added, with its slope; with
    `rate_mbps` the distribution of the time that each file would take at that rate.
    """
    panel, algorithm = case.setting, case.algorithm
    transfers = rows(result.transfers, case=case, flow=figure.flow)
    ordered = np.sort(transfers["duration_s"].to_numpy())
    x = np.geomspace(ordered[0], ordered[-1], TAIL_POINTS)
    if figure.rate_mbps is not None:
        alone = np.sort(8e-6 * transfers["bytes"].to_numpy() / figure.rate_mbps)
        at = np.geomspace(alone[0], alone[-1], TAIL_POINTS)
        yield Curve("alone", "", _round(at), _round(ccdf(alone, at)), panel=panel)
    yield Curve(algorithm, algorithm, _round(x), _round(ccdf(ordered, x)), panel=panel)
    if figure.low_s is not None and figure.high_s is not None:
        ends = np.array([figure.low_s, figure.high_s])
        slope, intercept = tail_fit(ordered, figure.low_s, figure.high_s)
        line = _round(10**intercept * ends**slope)
        name = f"{algorithm}.slope {slope:.2f}".replace("-", "−")
        yield Curve(name, algorithm, _round(ends), line, dash=1, panel=panel)


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
    curves: list[Curve] = []
    for line in dict.fromkeys(without.values()):
        chosen = [case for case in without if without[case] == line]
        name, panel = line.algorithm, line.setting
        points = means[means["case"].isin(chosen)].copy()
        points["x"] = [at[case] for case in points["case"]]
        points = points.sort_values("x")
        x, y, half = points["x"], points["value"], points["value_ci95"]
        interval = [None if np.isnan(width) else float(f"{width:.6g}") for width in half]
        if len(points):
            curves.append(Curve(name, name, _round(x), _round(y), interval, 0, "full", panel))
        known = {at[case]: published[case] for case in chosen if case in published}
        curves += _points("published", name, known, mark="hollow", panel=panel)
    for panel in dict.fromkeys(line.setting for line in without.values()):
        chosen = [case for case, line in without.items() if line.setting == panel]
        for number, kind in enumerate(printed.theory):
            values = {at[case]: printed.theory_of(case).get(kind) for case in chosen}
            known = {x: y for x, y in values.items() if y is not None}
            curves += _points(kind, "", known, dash=number, panel=panel)
    y_label = figure.metric if figure.y is None else figure.y
    return Drawing(figure.title, figure.x, y_label, curves, log=figure.log)


def _points(name: str, algorithm: str, known: dict[float, float], **look: Any) -> list[Curve]:
    """The curve of values by x; none without any."""
    x, y = sorted(known), [known[x] for x in sorted(known)]
    return [Curve(name, algorithm, x, y, **look)] if known else []


def _round(values: Any) -> list[float]:
    """The values to six digits, which is more than a figure resolves."""
    return [float(f"{value:.6g}") for value in np.asarray(values, dtype=float)]
