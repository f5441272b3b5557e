"""The curves of a paper's figures: over time, over a swept value, the tail of a distribution.

An item's `figures` in `experiments.toml` define them (`papers/README.md`). This module computes
their numbers; `svg.py` draws them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from anabranch.papers.quantities.table import rows
from anabranch.result import Result, between
from anabranch.scenario import ScenarioError
from anabranch.theory.queueing.tail_index import ccdf, tail_fit

KINDS: dict[str, set[str]] = {
    "bars": {"metrics"},
    "series": {"lines", "panels", "bin_s", "from_s", "to_s", "seed", "y", "group", "cases"},
    "sweep": {"metric", "over", "x", "y", "log"},
    "tail": {"flow", "low_s", "high_s", "rate_mbps", "x", "y", "group", "cases"},
}
"""The kinds of figure and the keys of each, besides `kind` and `title`."""

LINE = {"column", "share", "flow", "path", "link", "label", "algorithm", "levels"}
"""The keys of a line of a series."""

TAIL_POINTS = 200
"""Points of a curve of a tail, evenly spaced on a log axis."""


@dataclass(frozen=True)
class Curve:
    """One line or one set of points."""

    name: str
    """The legend entry: labels joined by dots."""
    algorithm: str
    """What its colour is chosen by: the last part of a case, or an algorithm."""
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


def check(spec: Mapping[str, Any], item: str) -> None:
    """Raise `ScenarioError` for a figure with an unknown kind or key."""
    kind = spec.get("kind")
    if kind not in KINDS:
        raise ScenarioError(f"{item}: unknown figure {kind!r}: expected one of {', '.join(KINDS)}")
    unknown = set(spec) - KINDS[kind] - {"kind", "title"}
    for line in spec.get("lines", []):
        unknown |= set(line) - LINE
    if unknown:
        raise ScenarioError(f"{item}: a figure of kind {kind} has no {sorted(unknown)[0]!r}")


def series(spec: Mapping[str, Any], result: Result, cases: Sequence[str]) -> Drawing:
    """Columns of the samples over time, s.

    `panels` selects a panel per case, a panel per line, or one panel for all.
    """
    by = spec.get("panels", "")
    panels: dict[str, list[Curve]] = {}
    for case in cases:
        for number, line in enumerate(spec["lines"]):
            title = {"case": case, "line": line.get("label", "")}.get(by, "")
            curves = _lines(spec, result, case, line, 0 if by == "line" else number)
            panels.setdefault(title, []).extend(curves)
    made = [Panel(name, of_panel) for name, of_panel in panels.items()]
    return Drawing(spec.get("title", ""), "time (s)", spec.get("y", ""), made)


def _lines(
    spec: Mapping[str, Any], result: Result, case: str, line: Mapping[str, Any], dash: int
) -> Iterator[Curve]:
    """A line of one case, and its levels."""
    label, by = line.get("label", ""), spec.get("panels", "")
    name = {"case": label, "line": case}.get(by, ".".join(filter(None, [case, label])))
    algorithm = line.get("algorithm", case.rpartition(".")[2])
    x, y = _over_time(spec, result, case, line)
    yield Curve(name, algorithm, x, y, dash=dash)
    for start, stop, value in line.get("levels", []):
        yield Curve("level", "", [start, stop], [value, value])


def _over_time(
    spec: Mapping[str, Any], result: Result, case: str, line: Mapping[str, Any]
) -> tuple[list[float], list[float]]:
    """Times and values: the sum over paths unless one is chosen, the mean over users and seeds."""
    table, _, column = line["column"].partition(".")
    where = {key: line.get(key) for key in ("flow", "path", "link")}
    samples = rows(result.tables()[table], case=case, seed=spec.get("seed"))
    if line.get("share"):
        together = samples.groupby(["seed", "time_s"])[column].transform("sum")
        samples = samples.assign(**{column: samples[column] / together})
    samples = between(rows(samples, **where), spec.get("from_s"), spec.get("to_s"))
    each = [key for key in ("seed", "flow", "user", "link") if key in samples.columns]
    mean = samples.groupby([*each, "time_s"])[column].sum().groupby("time_s").mean()
    if "bin_s" in spec:
        width = spec["bin_s"]
        bins = np.ceil(mean.index.to_numpy() / width - 1e-9)
        mean = mean.groupby(bins).mean()
        mean.index = (mean.index - 0.5) * width
    return _round(mean.index), _round(mean)


def tail(spec: Mapping[str, Any], result: Result, cases: Sequence[str]) -> Drawing:
    """The share of transfers that last x s or longer, on log axes, over all seeds.

    With `low_s` and `high_s` the line fitted between them is added, with its slope; with
    `rate_mbps` the distribution of the time that each file would take at that rate.
    """
    panels: dict[str, list[Curve]] = {}
    for case in cases:
        setting, _, algorithm = case.rpartition(".")
        transfers = rows(result.transfers, case=case, flow=spec.get("flow"))
        ordered = np.sort(transfers["duration_s"].to_numpy())
        x = np.geomspace(ordered[0], ordered[-1], TAIL_POINTS)
        if "rate_mbps" in spec and setting not in panels:
            alone = np.sort(8e-6 * transfers["bytes"].to_numpy() / spec["rate_mbps"])
            at = np.geomspace(alone[0], alone[-1], TAIL_POINTS)
            panels[setting] = [Curve("alone", "", _round(at), _round(ccdf(alone, at)))]
        curves = panels.setdefault(setting, [])
        curves.append(Curve(algorithm, algorithm, _round(x), _round(ccdf(ordered, x))))
        if "low_s" in spec:
            ends = np.array([spec["low_s"], spec["high_s"]])
            slope, intercept = tail_fit(ordered, *ends)
            line = _round(10**intercept * ends**slope)
            name = f"{algorithm}.slope {slope:.2f}".replace("-", "−")
            curves.append(Curve(name, algorithm, _round(ends), line, dash=1))
    made = [Panel(setting, curves) for setting, curves in panels.items()]
    labels = spec.get("x", "duration x (s)"), spec.get("y", "share that lasts x or longer")
    return Drawing(spec.get("title", ""), *labels, made, log="xy")


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


def sweep(spec: Mapping[str, Any], means: pd.DataFrame, facts: Mapping[str, Any]) -> Drawing:
    """A metric over a swept value: `over` maps parts of case names to its values.

    `means` has the columns `case`, `value` and `value_ci95`; `facts` is the metric's table in
    `published.toml`. There is a line per algorithm and a panel per remaining setting; published
    numbers are hollow points, theory is dashed.

    Raises `ScenarioError` for a case without exactly one part in `over`.
    """
    over: Mapping[str, float] = spec["over"]
    published: Mapping[str, float] = facts.get("published", {})
    places = {case: _place(case, over) for case in [*means["case"], *published]}
    panels: dict[str, list[Curve]] = {}
    for setting, algorithm in dict.fromkeys(rest for rest, _ in places.values()):
        chosen = [case for case, (rest, _) in places.items() if rest == (setting, algorithm)]
        points = means[means["case"].isin(chosen)].copy()
        points["x"] = [places[case][1] for case in points["case"]]
        points = points.sort_values("x")
        curves = panels.setdefault(setting, [])
        x, y, half = points["x"], points["value"], points["value_ci95"]
        interval = [None if np.isnan(width) else float(f"{width:.6g}") for width in half]
        if len(points):
            curves.append(Curve(algorithm, algorithm, _round(x), _round(y), interval, mark="full"))
        known = sorted((places[case][1], published[case]) for case in chosen if case in published)
        if known:
            xs, ys = zip(*known, strict=True)
            curves.append(Curve("published", algorithm, list(xs), list(ys), mark="hollow"))
    for setting, curves in panels.items():
        chosen = [case for case, ((rest, _), _) in places.items() if rest == setting]
        for number, label in enumerate(facts.get("theory", {})):
            values = {places[case][1]: theory_of(facts, case).get(label) for case in chosen}
            known = sorted((x, y) for x, y in values.items() if y is not None)
            if known:
                xs, ys = zip(*known, strict=True)
                curves.append(Curve(label, "", list(xs), list(ys), dash=number))
    made = [Panel(setting, curves) for setting, curves in panels.items()]
    labels = spec.get("x", ""), spec.get("y", spec["metric"])
    return Drawing(spec.get("title", ""), *labels, made, log=spec.get("log", ""))


def theory_of(facts: Mapping[str, Any], case: str) -> dict[str, float]:
    """The theory values of a case by kind: its own, or those of its setting."""
    return {
        label: value
        for label, values in facts.get("theory", {}).items()
        for key, value in values.items()
        if case == key or case.startswith(f"{key}.")
    }


def _place(case: str, over: Mapping[str, float]) -> tuple[tuple[str, str], float]:
    """A case's setting without the swept part, its algorithm, and the swept value."""
    *setting, algorithm = case.split(".")
    swept = [part for part in setting if part in over]
    if len(swept) != 1:
        raise ScenarioError(f"{case}: expected one of {', '.join(over)} in the case's name")
    setting.remove(swept[0])
    return (".".join(setting), algorithm), over[swept[0]]


def _round(values: Any) -> list[float]:
    """The values to six digits, which is more than a figure resolves."""
    return [float(f"{value:.6g}") for value in np.asarray(values, dtype=float)]
