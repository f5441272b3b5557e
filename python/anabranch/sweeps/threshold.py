"""`anabranch.threshold`: where a condition on a result begins to hold, by bisection of one key."""

import itertools
import math
import operator
import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from anabranch.files import staged
from anabranch.formats import records
from anabranch.result import Result
from anabranch.runner import Progress, known_backend
from anabranch.runner.asked import Algorithms, Seeds
from anabranch.scenario import Scenario, ScenarioError
from anabranch.sweeps import space, tables
from anabranch.sweeps.execute import Engine, engine
from anabranch.sweeps.point import Point
from anabranch.sweeps.space import Interval, Values
from anabranch.sweeps.store import Directory
from anabranch.sweeps.sweep import Plan, Source, define, opened

# A number of a result, and a condition on it, as text: `flows.two-path.goodput_mbps >= 5`.


TOTALS = ("total_goodput_mbps", "jain_index")
FLOWS = ("goodput_mbps", "loss_probability", "rtt_ms")
LINKS = ("throughput_mbps", "utilization", "loss_probability", "queue_packets")

_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_CONDITION = re.compile(r"(.+?)\s*(<=|>=|<|>)\s*([^<>=]+)")


@dataclass(frozen=True)
class Metric:
    """A column of `Result.totals`, or of a flow or link in `summary` or `link_summary`."""

    table: str
    """"totals", "flows" or "links"."""
    name: str
    """Name of the flow or link."""
    column: str

    def of(self, result: Result) -> tuple[float, float]:
        """Mean of the metric over the seeds of a result of one case, and half its 95 % interval.

        NaN where it has none: a single trajectory, or a backend that computes without seeds.
        """
        if self.table == "totals":
            row = result.totals().iloc[0]
        else:
            flows = self.table == "flows"
            rows = result.summary() if flows else result.link_summary()
            row = rows.set_index("flow" if flows else "link").loc[self.name]
        half = math.nan if result.is_one_trajectory() else float(row[f"{self.column}_ci95"])
        return float(row[self.column]), half


@dataclass(frozen=True)
class Condition:
    """A comparison of a metric with a number."""

    text: str
    metric: Metric
    compare: str
    bound: float

    def holds(self, value: float) -> bool:
        """Whether it holds for this value of the metric."""
        return bool(_COMPARE[self.compare](value, self.bound))


def condition(text: str, scenario: Scenario) -> Condition:
    """Read a condition. Raises `ScenarioError` that says what was expected."""
    found = _CONDITION.fullmatch(text.strip())
    if not found:
        raise ScenarioError(
            f"until {text!r}: expected METRIC, one of < <= > >=, and a number, as in "
            "'total_goodput_mbps >= 15'"
        )
    metric, compare, bound = found.groups()
    try:
        number = float(bound)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ScenarioError(f"until {text!r}: expected a number, got {bound!r}")
    return Condition(text.strip(), _metric(metric, scenario), compare, number)


def _metric(text: str, scenario: Scenario) -> Metric:
    table, _, rest = text.partition(".")
    name, _, column = rest.rpartition(".")
    if text in TOTALS:
        return Metric("totals", "", text)
    named = {"flows": (scenario.flow_names, FLOWS), "links": (scenario.link_names, LINKS)}
    if table not in named:
        raise ScenarioError(
            f"metric {text!r}: expected {', '.join(TOTALS)}, flows.NAME.COLUMN or links.NAME.COLUMN"
        )
    names, columns = named[table]
    if name not in names:
        raise ScenarioError(f"metric {text!r}: no {table[:-1]} {name!r}: expected {_or(names)}")
    if column not in columns:
        raise ScenarioError(f"metric {text!r}: no column {column!r}: expected {_or(columns)}")
    return Metric(table, name, column)


def _or(names: list[str] | tuple[str, ...]) -> str:
    return f"one of {', '.join(names)}" if len(names) > 1 else names[0]


HALVINGS = 7


@dataclass(frozen=True)
class Thresholds:
    """The thresholds of one key."""

    key: str
    until: str
    table: pd.DataFrame
    """A row per case, which is the other values and the algorithm. `holds_at` and `fails_at`: the
    nearest two values of the key with and without the condition; `width`: their distance;
    `metric_holds` and `metric_fails`: the metric there, its mean over the seeds; `decided`: whether
    both 95 % intervals exclude the bound. Without intervals it is false, because other seeds might
    give another threshold; what a backend computes without seeds is decided."""
    result: Result
    """Result of all points that were run."""
    failures: Mapping[str, str] = field(default_factory=dict)
    """The cases without a threshold, with the reason."""

    def as_dict(self) -> dict[str, Any]:
        """As plain data for JSON."""
        return {
            "key": self.key,
            "until": self.until,
            "thresholds": records(self.table),
            "failures": dict(self.failures),
        }


def threshold(
    source: Source,
    over: Mapping[str, Values],
    until: str,
    algorithm: Algorithms = None,
    seeds: Seeds = None,
    *,
    halvings: int = HALVINGS,
    set: Mapping[str, Any] | None = None,
    on: str = "sim",
    out: str | os.PathLike[str] | None = None,
    retry: bool = False,
    jobs: int | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Thresholds:
    """Bisect one key for the value at which a condition begins to hold, or ceases to.

    `over`: one key has an interval, such as "lin(5,50)", "log(1,100)" or "int(1,8)"; every
    combination of the others and each algorithm is a case of its own. `until`: the condition, such
    as "flows.two-path.goodput_mbps >= 5", on the mean over the seeds; metrics are
    `total_goodput_mbps`, `jain_index`, and columns of `summary` and `link_summary`. The interval is
    halved so many times, or until two integers are adjacent.

    The metric must be monotone in the key; this is assumed, not checked. If it is not, the
    bracket holds one of several crossings. The rest is as in `sweep`. A case whose condition holds
    at both ends of the interval, or at neither, is in `failures`. Raises `ScenarioError`, also
    where no case has a threshold.

    >>> short = {"measure.duration_s": 20, "measure.warmup_s": 5}
    >>> rate = {"links.left.rate_mbps": "lin(5,50)"}
    >>> found = threshold(
    ...     "examples/two_links.toml", rate, "total_goodput_mbps >= 25", seeds=1, set=short
    ... )
    >>> found.table[["algorithm", "holds_at", "width"]].round(2)
      algorithm  holds_at  width
    0       lia     16.25   0.35
    """
    if not 1 <= halvings <= 60:
        raise ScenarioError(f"halvings = {halvings}: expected 1 to 60")
    plan = Plan.of(source, set, over, algorithm, seeds, on, with_samples=False)
    wanted = condition(until, plan.scenario)
    key, interval, others = _interval(over)
    cases = [
        _Case(values, name, interval, wanted)
        for values in space.points(others)
        for name in plan.rules
    ]
    ends = [{**case.values, key: end} for case in cases for end in case.ends()]
    plan.points(ends)  # are checked before the first one runs
    what = plan.definition() | {"until": wanted.text, "halvings": halvings}
    with (
        opened(out, plan) as store,
        engine(store, executor, jobs, on, plan.in_python, retry, progress) as runs,
    ):
        points = _bisect(plan, key, cases, halvings, runs, what)
        found = _answer(key, wanted, cases, tables.join(plan.scenario, points, store))
        if isinstance(store, Directory):
            with staged(store.path) as stage:
                tables.write(found.result, stage)
                found.table.to_parquet(stage / "thresholds.parquet", index=False)
    return found


@dataclass
class _Case:
    """A bisection under way."""

    values: Mapping[str, Any]
    algorithm: str
    interval: Interval
    wanted: Condition
    measured: dict[float, float] = field(default_factory=dict)
    """The metric by value of the key."""
    half: dict[float, float] = field(default_factory=dict)
    """Half its 95 % interval."""
    failure: str | None = None

    @property
    def label(self) -> str:
        return ", ".join([*(f"{k}={v}" for k, v in self.values.items()), self.algorithm])

    def ends(self) -> list[float | int]:
        """The ends of the interval."""
        return [self.interval.at(0.0), self.interval.at(1.0)]

    def next(self) -> list[float | int]:
        """The values to run next; none when it is finished."""
        if self.failure is not None:
            return []
        if not self.measured:
            return self.ends()
        low, high = sorted(self.bracket())
        middle = self.interval.middle(low, high)
        return [] if middle is None or middle in (low, high) else [middle]

    def bracket(self) -> tuple[float, float]:
        """The nearest two values where the condition holds and where it fails."""
        holds = [v for v, metric in self.measured.items() if self.wanted.holds(metric)]
        fails = [v for v, metric in self.measured.items() if not self.wanted.holds(metric)]
        return min(itertools.product(holds, fails), key=lambda pair: abs(pair[0] - pair[1]))

    def decided(self, *values: float) -> bool:
        """Whether the intervals at these values exclude the bound."""
        bound = self.wanted.bound
        return all(abs(self.measured[at] - bound) > self.half[at] for at in values)

    def check_ends(self) -> None:
        """Note a failure where the condition does not change over the interval."""
        if self.failure is not None:
            return
        (low, at_low), (high, at_high) = sorted(self.measured.items())
        if self.wanted.holds(at_low) == self.wanted.holds(at_high):
            where = "at both ends" if self.wanted.holds(at_low) else "at neither end"
            self.failure = (
                f"{self.wanted.text} holds {where}: the metric is {at_low:.4g} at {low:g} and "
                f"{at_high:.4g} at {high:g}; choose another interval or bound"
            )


def _bisect(
    plan: Plan,
    key: str,
    cases: Sequence[_Case],
    halvings: int,
    runs: Engine,
    what: Mapping[str, Any],
) -> list[Point]:
    """Run until each case has its bracket or a failure: all the points, in the order of the cases.

    The definition lists the points as they become known.
    """
    points: dict[int, list[Point]] = {number: [] for number in range(len(cases))}
    in_all = len(cases) * len(plan.seeds) * (2 + halvings)
    for step in range(1 + halvings):
        batch: list[tuple[int, float, list[Point]]] = []
        for number, case in enumerate(cases):
            for value in case.next():
                grid = [{name: {**case.values, key: value}[name] for name in plan.over}]
                batch.append((number, value, plan.points(grid, [case.algorithm])))
        before = [point for of_case in points.values() for point in of_case]
        new = [point for _, _, of_value in batch for point in of_value]
        if not new:
            break
        define(runs.store, {**what, "finished": False}, before + new)
        runs.complete(new, len(before), in_all)
        for number, value, of_value in batch:
            points[number] += of_value
            _measure(cases[number], value, plan, of_value, runs)
        if step == 0:
            for case in cases:
                case.check_ends()
    every = [point for of_case in points.values() for point in of_case]
    define(runs.store, {**what, "finished": True}, every)
    return every


def _measure(case: _Case, value: float, plan: Plan, points: Sequence[Point], runs: Engine) -> None:
    try:
        result = tables.join(plan.scenario, points, runs.store)
    except ScenarioError as error:
        case.failure = str(error)
        return
    if result.failures:
        case.failure = next(iter(result.failures.values()))
        return
    case.measured[value], case.half[value] = case.wanted.metric.of(result)


def _answer(key: str, wanted: Condition, cases: Sequence[_Case], result: Result) -> Thresholds:
    failures = {case.label: case.failure for case in cases if case.failure is not None}
    rows = []
    random = known_backend(result.backend).random
    for case in cases:
        if case.failure is None:
            holds, fails = case.bracket()
            row = {"holds_at": holds, "fails_at": fails, "width": abs(holds - fails)}
            metrics: dict[str, float | bool] = {
                "metric_holds": case.measured[holds],
                "metric_fails": case.measured[fails],
            }
            metrics["decided"] = not random or case.decided(holds, fails)
            rows.append({**case.values, "algorithm": case.algorithm, **row, **metrics})
    if not rows:
        label, reason = next(iter(failures.items()))
        raise ScenarioError(f"{key}, {label}: {reason}")
    return Thresholds(key, wanted.text, pd.DataFrame(rows), result, failures)


def _interval(over: Mapping[str, Values]) -> tuple[str, Interval, dict[str, Values]]:
    """The one key with an interval, and the others."""
    found = {key: axis for key, axis in space.axes(over).items() if isinstance(axis, Interval)}
    if len(found) != 1:
        raise ScenarioError(
            f"a threshold needs one key with an interval, such as lin(5,50), log(1,100) or "
            f"int(1,8), got {len(found)}"
        )
    ((key, interval),) = found.items()
    return key, interval, {name: values for name, values in over.items() if name != key}
