"""One point of a sweep: all that its run needs, as plain data, and the run."""

import hashlib
import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.metadata import version
from pathlib import Path
from pkgutil import resolve_name
from threading import Lock
from typing import Any

from anabranch import _core
from anabranch.rule import Rule, packed, source_hash
from anabranch.runner import BACKENDS
from anabranch.runner.asked import OWN
from anabranch.scenario import Scenario, ScenarioError
from anabranch.sweeps.store import encode
from anabranch.theory.errors import NotConverged

FORMAT = 1
"""Version of an entry; part of its key."""

SAMPLES = ("flow_samples", "path_samples", "link_samples")
"""The tables over time, which are most of a result."""


@dataclass(frozen=True)
class Point:
    """One run. It can be sent to another machine, which needs no file of this one."""

    text: str
    """The scenario, all overrides included, with names of traces for one folder."""
    traces: Mapping[str, bytes]
    """The contents of the traces, by these names."""
    source: str
    """The name of the scenario's file, for errors."""
    values: Mapping[str, Any]
    """Values of the keys that the sweep varies."""
    algorithm: str
    rule: Rule | None
    """In place of the algorithm, a rule in Python."""
    seed: int
    on: str
    with_samples: bool
    version: str
    """Version of this Anabranch."""
    key: str = field(init=False)
    """A hash of all that determines the result."""

    def __post_init__(self) -> None:
        traces = {name: _hash(trace) for name, trace in self.traces.items()}
        parts = [FORMAT, build(), self.on, self.text, traces]
        parts += [self.algorithm, self.seed, self.with_samples]
        if code := source_hash(self.rule):
            parts.append(code)
        key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        object.__setattr__(self, "key", key)

    def __reduce__(self) -> tuple[Any, ...]:
        """With the code of its rule, which another machine may lack."""
        values = {one.name: getattr(self, one.name) for one in fields(self) if one.init}
        return _unpacked, ({**values, "rule": None}, self.key, packed(self.rule))

    @property
    def label(self) -> str:
        """Values, algorithm and seed of the point, for messages."""
        values = [f"{key}={value}" for key, value in self.values.items()]
        return ", ".join([*values, self.algorithm, f"seed {self.seed}"])


def _unpacked(values: dict[str, Any], key: str, rule: bytes) -> Point:
    """The point that was pickled, with the key that it had."""
    made = Point(**{**values, "rule": pickle.loads(rule)})
    object.__setattr__(made, "key", key)
    return made


def point(
    scenario: Scenario,
    values: Mapping[str, Any],
    algorithm: str,
    rule: Rule | None,
    seed: int,
    on: str,
    with_samples: bool,
    traces: dict[str, bytes],
) -> Point:
    """The point of a complete scenario, with the contents of its traces.

    `traces` are those of other points, by their hash; new ones are added.
    """
    own = on == "kernel" or algorithm in BACKENDS[on].algorithms
    if algorithm != OWN and rule is None and not own:
        scenario = scenario.with_algorithm(algorithm)
    seeds = [("seeds", f"[{seed}]")]
    scenario = Scenario.parse(scenario.text, scenario.source, seeds, scenario.inputs)
    text, files = scenario.to_folder()
    # One copy of a trace for all points.
    kept = {name: traces.setdefault(_hash(trace), trace) for name, trace in files.items()}
    name = Path(scenario.source).name
    return Point(text, kept, name, values, algorithm, rule, seed, on, with_samples, _version())


@cache
def _version() -> str:
    """The version of Anabranch, looked up once: a lookup reads files."""
    return version("anabranch")


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@cache
def build() -> str:
    """The version of Anabranch and a hash of the code that computes results.

    In a checkout the code changes and the version does not.
    """
    package = Path(_core.__file__).parent
    digest = hashlib.sha256()
    for file in [Path(_core.__file__), *sorted((package / "theory").rglob("*.py"))]:
        digest.update(file.read_bytes())
    return f"{_version()}+{digest.hexdigest()[:12]}"


class Live:
    """The runs under way in threads of this process: their progress, and how to stop them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._runs: set[_core.Run] = set()
        self._cancelled = False

    def add(self, run: _core.Run) -> None:
        """A run that begins."""
        with self._lock:
            self._runs.add(run)
            if self._cancelled:
                run.cancel()

    def remove(self, run: _core.Run) -> None:
        """A run that has ended."""
        with self._lock:
            self._runs.discard(run)

    def cancel(self) -> None:
        """Stop all runs, and those that begin later."""
        with self._lock:
            self._cancelled = True
            for run in self._runs:
                run.cancel()

    @property
    def progress(self) -> float:
        """The number of runs under way, each as the fraction done."""
        with self._lock:
            return sum(run.progress for run in self._runs)


def run_point(point: Point, live: Live | None = None) -> bytes:
    """Run it: the bytes of its entry, which says so where the run failed.

    Raises `ScenarioError` where this machine has another version of Anabranch.
    """
    here = _version()
    if here != point.version:
        raise ScenarioError(f"a worker has Anabranch {here}, this machine has {point.version}")
    about = {
        "key": point.key,
        "anabranch": here,
        "values": {key: str(value) for key, value in point.values.items()},
        "algorithm": point.algorithm,
        "seed": point.seed,
    }
    try:
        tables = _execute(point, live)
    except (ScenarioError, NotConverged) as error:
        return encode({**about, "failure": str(error)}, {})
    if not point.with_samples:
        for name in SAMPLES:
            tables[name] = {column: values[:0] for column, values in tables[name].items()}
    return encode(about, tables)


def _execute(point: Point, live: Live | None) -> dict[str, dict[str, Any]]:
    scenario = Scenario.parse(point.text, point.source, inputs=dict(point.traces))
    make = resolve_name(BACKENDS[point.on].path)
    algorithm = None if point.algorithm == OWN else point.algorithm
    run = make(scenario, algorithm, point.seed, point.rule)
    if live is None:
        return run.execute()  # type: ignore[no-any-return]
    live.add(run)
    try:
        return run.execute()  # type: ignore[no-any-return]
    finally:
        live.remove(run)
