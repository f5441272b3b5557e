"""The runs of a judgement: points of a sweep, kept by its store, and what is measured in them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anabranch.experiments.quantities import measure
from anabranch.judge.entries import Measure
from anabranch.judge.networks import Network
from anabranch.judge.subject import Subject
from anabranch.result import Result
from anabranch.runner import BACKENDS
from anabranch.scenario import Scenario, ScenarioError
from anabranch.sweeps import tables
from anabranch.sweeps.execute import engine
from anabranch.sweeps.point import Point, build, point
from anabranch.sweeps.store import Directory, Memory, Store, decode
from anabranch.sweeps.sweep import define


@dataclass
class Runs:
    """Runs networks for a rule and its references, each point once."""

    subject: Subject
    seeds: Sequence[int]
    store: Store
    jobs: int | None = None
    traces: dict[str, bytes] = field(default_factory=dict)

    def of_rule(self, network: Network, on: str) -> list[Point]:
        """The points of the rule that is judged, one per seed."""
        return self._points(network.scenario, on, self.subject.key, self.subject.written)

    def of_references(self, network: Network, on: str) -> dict[str, list[Point]]:
        """The points of each reference, one per seed."""
        return {
            name: self._points(scenario, on, name, None)
            for name, scenario in network.references.items()
        }

    def _points(self, scenario: Scenario, on: str, name: str, rule: Any) -> list[Point]:
        seeds = self.seeds if BACKENDS[on].random else self.seeds[:1]
        return [point(scenario, {}, name, rule, seed, on, True, self.traces) for seed in seeds]

    def complete(self, points: Sequence[Point], done: int, in_all: int, progress: Any) -> None:
        """Run what the store lacks: rules of the table in parallel, then those in Python."""
        for in_python in (False, True):
            part = [one for one in points if (one.rule is not None) == in_python]
            if not part:
                continue
            self._define(part)
            try:
                with engine(
                    self.store, None, self.jobs, part[0].on, in_python, False, progress
                ) as runs:
                    runs.complete(part, done, in_all)
            except ScenarioError:
                raise
            except Exception as error:
                if not in_python:
                    raise
                raise self.subject.failed(error) from error
            done += len(part)

    def _define(self, points: Sequence[Point]) -> None:
        """Add these points to those of other judgements in the same store."""
        before: Mapping[str, Any] = {}
        if isinstance(self.store, Directory):
            before = self.store.definition() or {}
        what = {"anabranch": build(), "judge": "RFC 9743"}
        kept = {one.key for one in points}
        define(self.store, what, points)
        others = [key for key in before.get("points", []) if key not in kept]
        if isinstance(self.store, Directory) and others:
            definition = self.store.definition() or {}
            self.store.define({**definition, "points": [*definition["points"], *others]})

    def measured(self, network: Network, one: Point, wanted: Measure) -> float:
        """The number of a measure in a run; NaN where there is nothing to measure.

        Raises `ScenarioError` where the run failed.
        """
        result = self.result(network.scenario, one)
        try:
            return measure(wanted.quantity, result, **wanted.parameters)
        except ScenarioError:  # such as no transfer that finished
            return float("nan")

    def result(self, scenario: Scenario, one: Point) -> Result:
        """The result of a run. Raises `ScenarioError` where it failed."""
        entry = decode(self.store.read(one.key) or b"", one.key)
        if entry.failure is not None:
            raise ScenarioError(entry.failure.replace(self.subject.key, self.subject.name))
        return tables.join(scenario, [one], self.store)


def open_store(folder: Path | None) -> Store:
    """A store in a directory, or in memory."""
    return Memory() if folder is None else Directory(folder)
