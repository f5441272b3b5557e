"""The curves of figures: over time, over a swept value, the distribution of a value."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd

from anabranch.experiments.case import Case
from anabranch.experiments.drawings import Distribution, Line, Series, Sweep
from anabranch.quantities.table import rows
from anabranch.quantities.tails import ccdf, tail_fit
from anabranch.result import Result, between

POINTS = 200
"""Points of the curve of a distribution, evenly spaced on its axis."""

Extract = list[pd.DataFrame]
"""Parts of a run's tables that a figure needs: one for each line of a series."""
Extracts = dict[Any, dict[int, Extract]]
"""Extracts by what the runs are of, and by seed."""


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


def extract(figure: Series | Distribution, result: Result) -> Extract:
    """Parts of a run's tables that a figure needs."""
    if isinstance(figure, Series):
        return [_samples(line, result) for line in figure.lines]
    return [_values(figure, result)]


def drawn(figure: Series | Distribution, runs: Mapping[int, Extract], case: Case) -> Drawing:
    """A figure drawn from the runs of a case by seed, to be joined with those of others."""
    curves: list[Curve] = []
    in_order = (runs[seed] for seed in sorted(runs))
    whole = [pd.concat(part, ignore_index=True) for part in zip(*in_order, strict=True)]
    if isinstance(figure, Series):
        curves += _series(figure, whole, case) if runs else ()
        return Drawing(figure.title, "time (s)", figure.y, curves)
    curves += _distribution(figure, whole[0], case) if runs else ()
    return Drawing(figure.title, figure.x, figure.y, curves, "xy" if figure.tail else "")


def _samples(line: Line, result: Result) -> pd.DataFrame:
    """The samples of a line, in the last column: a row per time, seed and user or link."""
    table, _, column = line.column.partition(".")
    samples = result.tables()[table]
    if line.share:
        together = samples.groupby(["seed", "time_s"])[column].transform("sum")
        samples = samples.assign(**{column: samples[column] / together})
    samples = rows(samples, flow=line.flow, path=line.path, link=line.link)
    keys = [key for key in ("seed", "flow", "user", "link", "time_s") if key in samples.columns]
    return samples[[*keys, column]]


def _series(figure: Series, samples: Extract, case: Case) -> Iterator[Curve]:
    """Columns of the samples over time, s: the lines of one case, and their levels."""
    for number, (line, of_line) in enumerate(zip(figure.lines, samples, strict=True)):
        panel = {"case": case, "line": line.label}.get(figure.panels, "")
        name = {"case": line.label, "line": case}.get(figure.panels, Case.of(case, line.label))
        dash = 0 if figure.panels == "line" else number
        chosen = between(rows(of_line, seed=figure.seed), figure.from_s, figure.to_s)
        mean = _over_time(chosen, figure.bin_s)
        x, y = _round(mean.index), _round(mean)
        yield Curve(name, line.algorithm or case.algorithm, x, y, dash=dash, panel=panel)
        for start, stop, value in line.levels:
            yield Curve(line.levels_label, "", [start, stop], [value, value], panel=panel)


def _over_time(samples: pd.DataFrame, bin_s: float | None) -> pd.Series:
    """The sum over paths, then the mean over users and seeds, by time; or by the middle of bins."""
    *keys, column = samples.columns
    mean = samples.groupby(keys)[column].sum().groupby("time_s").mean()
    if bin_s is not None:
        mean = mean.groupby(_bins(mean.index, bin_s)).mean()
        mean.index = (mean.index - 0.5) * bin_s
    return mean


def _bins(times_s: Any, bin_s: float) -> Any:
    """The number of the bin of each sample, in which it ends."""
    return np.ceil(np.asarray(times_s) / bin_s - 1e-9)


def _values(figure: Distribution, result: Result) -> pd.DataFrame:
    """Values, one per transfer, with its bytes, or per bin of the samples of each user."""
    table, _, column = figure.of.partition(".")
    found = rows(result.tables()[table], flow=figure.flow)
    if table == "transfers":
        return found[[column, "bytes"]]
    found = found[found["time_s"] > result.scenario.warmup_s]
    means = found.groupby([found["user"], _bins(found["time_s"], figure.bin_s)])[column].mean()
    return means.reset_index(drop=True).to_frame()


def _distribution(figure: Distribution, values: pd.DataFrame, case: Case) -> Iterator[Curve]:
    """The share of values below x, or of those that are x or larger, over all seeds.

    With `low_s` and `high_s` the line fitted between them is added, with its slope; with
    `rate_mbps` the distribution of the time that each file would take at that rate.
    """
    panel, algorithm = case.setting, case.algorithm
    space = np.geomspace if figure.tail else np.linspace

    def curve(name: str, of: str, unsorted: pd.Series) -> Curve:
        ordered = np.sort(unsorted.to_numpy())
        x = space(ordered[0], ordered[-1], POINTS)
        y = ccdf(ordered, x)
        return Curve(name, of, _round(x), _round(y if figure.tail else 1 - y), panel=panel)

    if figure.rate_mbps is not None:
        yield curve("alone", "", 8e-6 * values["bytes"] / figure.rate_mbps)
    own = values.iloc[:, 0]
    yield curve(algorithm, algorithm, own)
    if figure.low_s is not None and figure.high_s is not None:
        ends = np.array([figure.low_s, figure.high_s])
        slope, intercept = tail_fit(own, figure.low_s, figure.high_s)
        line = _round(10**intercept * ends**slope)
        name = f"{algorithm}.slope {slope:.2f}".replace("-", "−")
        yield Curve(name, algorithm, _round(ends), line, dash=1, panel=panel)


def sweep(
    figure: Sweep,
    means: pd.DataFrame,
    published: Mapping[str, float],
    theory: Mapping[str, Mapping[str, float]],
) -> Drawing:
    """A metric over a swept value.

    `means` has the columns `case`, `value` and `value_ci95`. There is a line per algorithm and a
    panel per remaining setting; published numbers are hollow points, theory is dashed.
    """
    printed = {Case(case): value for case, value in published.items()}
    cases = [*map(Case, means["case"]), *printed]
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
        known = {at[case]: printed[case] for case in chosen if case in printed}
        curves += _points("published", name, known, mark="hollow", panel=panel)
    for panel in dict.fromkeys(line.setting for line in without.values()):
        chosen = [case for case, line in without.items() if line.setting == panel]
        for number, (kind, values) in enumerate(theory.items()):
            of_kind = ((c, value) for key, value in values.items() for c in chosen if c.is_of(key))
            known = {at[case]: value for case, value in of_kind}
            curves += _points(kind, "", known, dash=number, panel=panel)
        known = dict(zip(figure.over.values(), figure.reference, strict=False))
        curves += _points(figure.reference_label, "", known, dash=len(theory), panel=panel)
    y_label = figure.metric if figure.y is None else figure.y
    return Drawing(figure.title, figure.x, y_label, curves, log=figure.log)


def together(drawings: Sequence[Drawing]) -> Drawing:
    """All of them as one."""
    return reduce(Drawing.joined, drawings)


def _points(name: str, algorithm: str, known: dict[float, float], **look: Any) -> list[Curve]:
    """The curve of values by x; none without any."""
    x, y = sorted(known), [known[x] for x in sorted(known)]
    return [Curve(name, algorithm, x, y, **look)] if known else []


def _round(values: Any) -> list[float]:
    """The values to six digits, which is more than a figure resolves."""
    return [float(f"{value:.6g}") for value in np.asarray(values, dtype=float)]
