"""The runs of a suite: points of a sweep, kept by its store, and what is measured in them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anabranch.experiments.networks import Cell
from anabranch.experiments.suite import Taken
from anabranch.quantities import measure
from anabranch.result import Result
from anabranch.runner import Progress
from anabranch.scenario import ScenarioError
from anabranch.sweeps import tables
from anabranch.sweeps.execute import engine
from anabranch.sweeps.point import Point, build
from anabranch.sweeps.store import Directory, Memory, Nowhere, Store, decode

See = Callable[[Cell, int, Result], None]
"""Called with each run that is looked at."""


@dataclass
class Runs:
    """Runs cells, each point once, and measures at once: a result is released when it was."""

    store: Store
    jobs: int | None = None
    strict: bool = False
    """Whether a measure that cannot be taken is an error, with its place."""
    failed: Callable[[Exception], Exception] | None = None
    """The error of a rule in Python that raised one."""
    numbers: dict[tuple[str, str], float] = field(default_factory=dict)
    """Numbers by the keys of a point and of a measure."""
    failures: dict[str, str] = field(default_factory=dict)
    """Why points failed, by key."""
    late: set[str] = field(default_factory=set)
    """The points in real time that were too late to count."""
    seen: set[tuple[int, int]] = field(default_factory=set)
    """The runs that were looked at."""
    _points: dict[tuple[int, int], tuple[Cell, Point]] = field(default_factory=dict)
    _traces: dict[str, bytes] = field(default_factory=dict)

    def point(self, cell: Cell, seed: int) -> Point:
        """The run of a cell with a seed."""
        key = (id(cell), seed)
        if key not in self._points:
            self._points[key] = (cell, cell.point(seed, self._traces))
        return self._points[key][1]

    def take(
        self,
        wanted: Sequence[tuple[Cell, int, Sequence[Taken], bool]],
        progress: Progress | None = None,
        see: See | None = None,
        name: str = "",
    ) -> None:
        """Run what the store lacks, and measure: rules of the table first, then those in Python.

        `wanted`: cell, seed, measures, and whether `see` is called with the run. `name`: that of
        the definition in the store.
        """
        owners: dict[str, list[tuple[Cell, int, Sequence[Taken], bool]]] = {}
        groups: dict[tuple[bool, str], dict[str, Point]] = {}
        for cell, seed, measures, seen in wanted:
            one = self.point(cell, seed)
            missing = any((one.key, _name(m)) not in self.numbers for m in measures)
            if one.key in self.failures or not (
                missing or (seen and (id(cell), seed) not in self.seen)
            ):
                continue
            self.seen |= {(id(cell), seed)} if seen else set()
            owners.setdefault(one.key, []).append((cell, seed, measures, seen))
            groups.setdefault((one.rule is not None, one.on), {})[one.key] = one
        if name and isinstance(self.store, Directory):
            keys = dict.fromkeys(one.key for _, one in self._points.values())  # earlier ones, too
            self.store.define({"anabranch": build(), "suite": name, "points": list(keys)}, name)
        done, in_all = 0, sum(map(len, groups.values()))
        for (in_python, on), points in sorted(groups.items(), key=lambda group: group[0][0]):
            how = (self.store, None, self.jobs, on, in_python, False, progress)
            try:
                with engine(*how) as runs:
                    for one, data in runs.each(list(points.values()), done, in_all):
                        self._measure(one, data, owners[one.key], see)
            except ScenarioError:
                raise
            except Exception as error:
                if not in_python or self.failed is None:
                    raise
                raise self.failed(error) from error
            done += len(points)

    def value(self, cell: Cell, seed: int, wanted: Taken) -> float | None:
        """The number of a measure in a run; NaN where there is nothing, None where it failed."""
        return self.numbers.get((self.point(cell, seed).key, _name(wanted)))

    def by_seed(self, cell: Cell, seeds: Sequence[int], wanted: Taken) -> dict[int, float]:
        """The numbers of a measure by seed, of the runs that did not fail."""
        found = {seed: self.value(cell, seed, wanted) for seed in seeds}
        return {seed: value for seed, value in found.items() if value is not None}

    def failure(self, cell: Cell, seeds: Sequence[int]) -> str | None:
        """Why a run of a cell failed, the first one."""
        reasons = (self.failures.get(self.point(cell, seed).key) for seed in seeds)
        return next(filter(None, reasons), None)

    def _measure(self, one: Point, data: bytes, owners: Sequence[Any], see: See | None) -> None:
        failure = decode(data, one.key).failure
        if failure is not None:
            self.failures[one.key] = failure
            return
        kept = Memory()
        kept.write(one.key, data)
        for cell, seed, measures, seen in owners:
            result = tables.join(cell.scenario, [self.point(cell, seed)], kept)
            if len(result.late_runs()):
                self.late.add(one.key)
            for wanted in measures:
                self.numbers[one.key, _name(wanted)] = self._measured(wanted, result)
            if see is not None and seen:
                see(cell, seed, result)

    def _measured(self, wanted: Taken, result: Result) -> float:
        try:
            return measure(wanted.quantity, result, **wanted.parameters)
        except ScenarioError as error:  # such as no transfer that finished
            if self.strict:
                raise wanted.where.error(str(error)) from error
            return float("nan")


def _name(wanted: Taken) -> str:
    return json.dumps([wanted.quantity, sorted(wanted.parameters.items())])


def open_store(folder: Path | None) -> Store:
    """A store in a directory, or none that keeps anything."""
    return Nowhere() if folder is None else Directory(folder)
