"""`anabranch.sweep`: a scenario over every combination of values, or over samples."""

import errno
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from anabranch.files import staged
from anabranch.result import Result
from anabranch.rule import Rule, explained, source_hash
from anabranch.runner import Progress, choices
from anabranch.runner.asked import Algorithms, Seeds, stand_in
from anabranch.scenario import Scenario, ScenarioError, load, settings, toml_value
from anabranch.sweeps import space, tables
from anabranch.sweeps.execute import Engine, engine
from anabranch.sweeps.point import Point, build, point
from anabranch.sweeps.space import Values
from anabranch.sweeps.store import Directory, Memory, Store

Source = str | os.PathLike[str] | Scenario


def sweep(
    source: Source,
    over: Mapping[str, Values],
    algorithm: Algorithms = None,
    seeds: Seeds = None,
    *,
    set: Mapping[str, Any] | None = None,
    on: str = "sim",
    sample: int | None = None,
    method: str = "lhs",
    with_samples: bool = False,
    out: str | os.PathLike[str] | None = None,
    retry: bool = False,
    jobs: int | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Result:
    """Run a scenario for every combination of values, each algorithm and each seed.

    `over` maps a dotted key to the values it takes: a list, or text such as "log(1,100,9)"
    (`anabranch.sweeps.space`). `sample`: so many points drawn from its intervals by `method`,
    "lhs" or "sobol". `algorithm`, `seeds`, `set` and `on` are as in `run`. Every table of the
    result leads with a column per key. The tables over time are empty unless `with_samples`.

    `out`: a directory that stores every point as soon as it is done. A point that is there does not
    run again, so the same call resumes a sweep that was stopped, and several processes may share
    the work. The tables are written there as Parquet. Without it, everything is in memory.

    Points run in `jobs` threads, one per core by default, or in any `executor`, such as a
    ProcessPoolExecutor or a Dask client's `get_executor(pure=False)`; there `jobs` is the number of
    points handed over at a time. All points are checked before the first one runs.

    A point that fails is in `Result.failures` with the reason; with `retry`, points that have
    failed before run again. Raises `ScenarioError` for what cannot be run and where every point
    failed.

    >>> grid = {"links.left.rate_mbps": [5, 10], "measure.duration_s": [30]}
    >>> result = sweep("examples/two_links.toml", grid, seeds=1)
    >>> result.totals()[["links.left.rate_mbps", "total_goodput_mbps"]].round(1)
       links.left.rate_mbps  total_goodput_mbps
    0                     5                14.5
    1                    10                19.3
    """
    plan = Plan.of(source, set, over, algorithm, seeds, on, with_samples)
    points = plan.points(space.points(over, sample, method))
    what = plan.definition() | {"sample": sample, "method": method if sample else None}
    with (
        opened(out, plan) as store,
        engine(store, executor, jobs, on, plan.in_python, retry, progress) as runs,
    ):
        define(store, what, points)
        try:
            return finished(plan, points, runs)
        except AttributeError as error:
            raise explained(error) from None


def define(store: Store, what: Mapping[str, Any], points: Sequence[Point]) -> None:
    """Write down what the sweep consists of; a message where the store was that of another one."""
    if not isinstance(store, Directory):
        return
    before = store.definition() or {}
    if any(before.get(key, value) != value for key, value in what.items() if key != "finished"):
        print(
            f"anabranch: {store.path} has another sweep so far: its tables are replaced, and its "
            "points stay until `anabranch sweep gc`",
            file=sys.stderr,
        )
    store.define({**what, "points": [point.key for point in points]})


def finished(plan: "Plan", points: Sequence[Point], runs: Engine) -> Result:
    """Run the points that have no entry, and write the tables of all."""
    runs.complete(points)
    result = tables.join(plan.scenario, points, runs.store)
    if isinstance(runs.store, Directory):
        with staged(runs.store.path) as stage:
            tables.write(result, stage)
    return result


@contextmanager
def opened(out: str | os.PathLike[str] | None, plan: "Plan") -> Iterator[Store]:
    """The store of a sweep. Raises `ScenarioError` for one that cannot be used.

    A full disk is an OSError that says what is kept.
    """
    if out is None:
        yield Memory()
        return
    if any(rule is not None and not source_hash(rule) for rule in plan.rules.values()):
        raise ScenarioError(
            "a rule in Python has no name that stays the same when it changes: sweep it without "
            "a store, or as FILE.py:CLASS from the command line"
        )
    store = Directory(out)
    try:
        yield store
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        kept = f"{sum(1 for _ in store.stored())} points are stored; with more room the same call"
        text = f"{os.strerror(errno.ENOSPC)}: {kept} goes on with the others"
        raise OSError(errno.ENOSPC, text, str(out)) from None
    finally:
        store.close()


@dataclass(frozen=True)
class Plan:
    """Common part of all points of a sweep."""

    source: Source
    set: Mapping[str, Any]
    over: Mapping[str, Values]
    scenario: Scenario
    """Without the values of the sweep."""
    rules: Mapping[str, Rule | None]
    seeds: Sequence[int]
    on: str
    with_samples: bool

    @classmethod
    def of(
        cls,
        source: Source,
        set: Mapping[str, Any] | None,
        over: Mapping[str, Values],
        algorithm: Algorithms,
        seeds: Seeds,
        on: str,
        with_samples: bool,
    ) -> "Plan":
        """Check the arguments. Raises `ScenarioError`."""
        values = settings(set)
        if not over:
            raise ScenarioError("a sweep needs a key to vary, as in links.R1.rate_mbps=5,10,20")
        if both := next((key for key in values if key in over), None):
            raise ScenarioError(f"{both} has one value and is swept: expected one of the two")
        scenario = _loaded(source, values, stand_in(algorithm))
        rules, chosen = choices(scenario, algorithm, seeds, on)
        return cls(source, values, over, scenario, rules, chosen, on, with_samples)

    @property
    def in_python(self) -> bool:
        """Whether a rule is written in Python."""
        return any(rule is not None for rule in self.rules.values())

    def points(
        self, grid: Sequence[Mapping[str, Any]], algorithms: Sequence[str] | None = None
    ) -> list[Point]:
        """A point for each of these values, algorithms and seeds; all checked."""
        found: list[Point] = []
        traces: dict[str, bytes] = {}
        for values in grid:
            scenario = _loaded(self.source, {**self.set, **values}, self.scenario.algorithm)
            for name in algorithms or self.rules:
                for seed in self.seeds:
                    how = (name, self.rules[name], seed, self.on, self.with_samples)
                    found.append(point(scenario, values, *how, traces))
        return found

    def definition(self) -> dict[str, Any]:
        """It as plain data, for the store."""
        return {
            "anabranch": build(),
            "backend": self.on,
            "scenario": self.scenario.text,
            "over": {
                key: values if isinstance(values, str) else [toml_value(v) for v in values]
                for key, values in self.over.items()
            },
            "algorithms": list(self.rules),
            "seeds": list(self.seeds),
            "with_samples": self.with_samples,
        }


def _loaded(source: Source, values: Mapping[str, Any], algorithm: str | None) -> Scenario:
    if isinstance(source, Scenario):
        written = [(key, toml_value(value)) for key, value in values.items()]
        given = source.set + written
        return Scenario.parse(source.original, source.source, given, source.inputs, algorithm)
    return load(source, values, algorithm)
