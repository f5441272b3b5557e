"""Running a scenario for algorithms and seeds, in parallel."""

import itertools
import os
import re
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, TypeVar, cast

import pandas as pd

from anabranch import _core
from anabranch.core_types import Tables
from anabranch.files import staged
from anabranch.qlog import write as write_qlog
from anabranch.result import Result
from anabranch.rule import Rule, explained
from anabranch.runner.asked import (
    OWN,
    Algorithms,
    Seeds,
    algorithms_of,
    check_jobs,
    seeds_of,
    stand_in,
)
from anabranch.scenario import Scenario, ScenarioError, expected_one_of, load

# Jobs in an executor: a limited number at a time, with progress; an exception ends all.


POLL_S = 0.1

Name = TypeVar("Name")


def completed(
    executor: Executor,
    jobs: Iterable[tuple[Name, Callable[..., Any], tuple[Any, ...]] | None],
    in_flight: int,
    report: Callable[[], None],
    cancel: Callable[[], None],
) -> Generator[tuple[Name, Any], None, None]:
    """Call each job's function with its arguments, `in_flight` of them at a time.

    Yields the name of a job and what it returned, as the jobs end. `jobs` gives None where none can
    begin yet, and is then asked again. `report` is called at least every `POLL_S`. Any exception,
    Ctrl-C and an end of the iteration included, takes back the jobs that have not begun and calls
    `cancel`, which stops the others.
    """
    waiting: dict[Future[Any], Name] = {}
    left = iter(jobs)
    try:
        while _submit(executor, left, in_flight, waiting) or waiting:
            done: set[Future[Any]] = set()
            if waiting:
                done, _ = wait(waiting, POLL_S, FIRST_COMPLETED)
            else:
                time.sleep(POLL_S)
            results = [(waiting.pop(future), future.result()) for future in done]
            report()
            yield from results
    except BaseException:
        for future in waiting:
            future.cancel()
        cancel()
        raise


def _submit(
    executor: Executor,
    left: Iterator[tuple[Name, Callable[..., Any], tuple[Any, ...]] | None],
    in_flight: int,
    waiting: dict[Future[Any], Name],
) -> bool:
    """Give jobs to the executor until it has enough or none can begin; whether some are left."""
    while len(waiting) < in_flight:
        try:
            job = next(left)
        except StopIteration:
            return False
        if job is None:
            break
        name, function, arguments = job
        waiting[executor.submit(function, *arguments)] = name
    return True


Progress = Callable[[float], None]

TEXT = pd.Series([""]).dtype
"""The type that pandas gives to a column of text."""


@dataclass(frozen=True)
class Backend:
    """A kind of run."""

    path: str
    """A class with the interface of `_core.Run`, or a function that makes one; its `algorithms()`,
    if it has that method, are names that only this backend has. Loaded when it is used: theory is
    above this module and slow to load."""
    random: bool = True
    """Whether the seed matters; if not, only the first seed runs."""
    real_time: bool = False
    """Whether runs at the same time disturb one another."""
    algorithms: tuple[str, ...] = ()
    """Names that only this backend has, where they do not depend on the machine."""
    log: str = ""
    """The kind of log of which its runs take a folder: "pcap" or "qlog"; none by default."""


NOQ = ("noq-bbr3", "noq-cubic", "noq-newreno")

BACKENDS = {
    "sim": Backend("anabranch._core:Run", log="pcap"),
    "fluid": Backend("anabranch.theory.fluid.backend:FluidRun", random=False),
    "equilibrium": Backend("anabranch.theory.fluid.backend:EquilibriumRun", random=False),
    "quic": Backend("anabranch._core:Run.over_quic", algorithms=NOQ, log="qlog"),
    "kernel": Backend("anabranch.kernel:Run", real_time=True),
}


def run(
    source: str | os.PathLike[str] | Scenario,
    algorithm: Algorithms = None,
    seeds: Seeds = None,
    *,
    set: Mapping[str, Any] | None = None,
    on: str = "sim",
    jobs: int | None = None,
    qlog: str | os.PathLike[str] | None = None,
    pcap: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    tolerate: tuple[type[Exception], ...] = (),
) -> Result:
    """Run a scenario once per algorithm and seed.

    `algorithm`: a name ("olia", "balia:cap=inf"), a `Rule`, or several of them; it replaces the
    scenario's own choice. `seeds`: n for the seeds 1 to n, or the seeds themselves; the
    scenario's own by default. `set`: dotted keys to values. `jobs`: runs at a time, by default one
    per core; runs of a Python rule follow one another. `progress` is called with the fraction done,
    0 to 1. Ctrl-C cancels every run at once.

    `on`: "sim", packets; "fluid", the rules' differential equations; "equilibrium", the stationary
    point of these (docs/notebook/theory-fluid.md); "quic", QUIC endpoints in virtual time
    (docs/reference/quic.md); or "kernel", real Linux hosts in real time (docs/reference/lab.md),
    one run after the other by default. There an algorithm may be any that the kernel has; on "quic"
    also "noq-bbr3", "noq-cubic" and "noq-newreno", the QUIC library's own.

    `qlog`: a directory for the events of each end of each connection, as qlog files in a folder per
    run (docs/reference/quic.md), on "quic"; on "sim" for the samples of each user's paths. `pcap`:
    the same for the packets at each sender, as pcapng files; only on "sim"
    (docs/reference/files.md). Raises FileExistsError where it is not empty.

    `tolerate`: errors by which an algorithm may fail without ending the others. It is then not in
    the tables, and `Result.failures` has the reason; if all fail, the first error is raised.

    Raises `ScenarioError` for a scenario, algorithm, seed or backend that cannot be run;
    `NotConverged` where "fluid" or "equilibrium" finds no solution.

    >>> short = {"measure.duration_s": 10, "measure.warmup_s": 2}
    >>> result = run("examples/two_links.toml", ["lia", "olia"], seeds=2, set=short)
    >>> result.totals()[["algorithm", "jain_index"]].round(2)
      algorithm  jain_index
    0       lia        0.93
    1      olia        0.91
    """
    scenario = load(source, set, stand_in(algorithm))
    kind = known_backend(on).log
    if qlog is not None and not kind:
        raise ScenarioError(f"qlog: {on} logs no events; run it with --on quic or sim")
    if pcap is not None and kind != "pcap":
        raise ScenarioError(f"pcap: {on} has no simulated packets of TCP; run it with --on sim")
    with _new_directory(qlog) as events, _new_directory(pcap) as packets:
        logs = events if kind == "qlog" else packets
        planned = plan(scenario, algorithm, seeds, on=on, logs=logs)
        try:
            if tolerate:
                result = _collect_tolerantly(scenario, planned, on, jobs, progress, tolerate)
            else:
                result = collect(scenario, planned, on, jobs, progress)
        except AttributeError as error:
            raise explained(error) from None
        if events and kind != "qlog":
            write_qlog(result, events)
        return result


@contextmanager
def _new_directory(directory: str | os.PathLike[str] | None) -> Iterator[Path | None]:
    """As `staged`, for one that is empty or does not exist; None if there is none."""
    if directory is None:
        yield None
        return
    if Path(directory).is_dir() and any(Path(directory).iterdir()):
        raise FileExistsError(f"{directory}: the directory is not empty; choose another one")
    with staged(directory) as stage:
        yield stage


@dataclass(frozen=True)
class Job:
    """One run and the values of its leading columns."""

    keys: dict[str, Any]
    run: _core.Run
    """A `_core.Run`, or a class with its interface."""
    in_python: bool


def known_backend(name: str) -> Backend:
    """The backend of this name. Raises `ScenarioError` for an unknown one."""
    if not isinstance(name, str):
        raise ScenarioError(f'on = {name!r}: expected the name of one backend, such as "sim"')
    if name not in BACKENDS:
        raise ScenarioError(f"unknown backend {name!r}: {expected_one_of(name, list(BACKENDS))}")
    return BACKENDS[name]


def plan(
    scenario: Scenario,
    algorithm: Algorithms,
    seeds: Seeds,
    on: str = "sim",
    logs: Path | None = None,
) -> list[Job]:
    """The runs of one scenario: each algorithm with each seed.

    A backend without randomness runs the first seed only. Each run gets a folder in `logs`.
    """
    backend = known_backend(on)
    make = resolve_name(backend.path)
    rules, chosen = choices(scenario, algorithm, seeds, on)
    jobs = []
    for name, rule in rules.items():
        for seed in chosen:
            keys = {"algorithm": name, "seed": seed}
            spec = None if name == OWN else name
            log = {backend.log: logs / _file_name(f"{name}-seed-{seed}")} if logs else {}
            run = make(scenario, spec, seed, rule, **log)
            jobs.append(Job(keys, run, rule is not None))
    return jobs


def _file_name(text: str) -> str:
    return re.sub(r"[^\w.=-]", "_", text)


def choices(
    scenario: Scenario, algorithm: Algorithms, seeds: Seeds, on: str
) -> tuple[dict[str, Rule | None], list[int]]:
    """The algorithms by name, None for those of the table, and the seeds that a run has.

    Raises `ScenarioError`.
    """
    backend = known_backend(on)
    make = resolve_name(backend.path)
    own = make.algorithms() if hasattr(make, "algorithms") else backend.algorithms
    chosen = seeds_of(seeds, scenario.seeds)
    rules = algorithms_of(scenario, algorithm, own)
    return rules, chosen if backend.random else chosen[:1]


def collect(
    scenario: Scenario, planned: Sequence[Job], on: str, jobs: int | None, progress: Progress | None
) -> Result:
    """Execute the planned runs, `jobs` at a time, and join their tables in the order planned."""
    (result,) = collect_parts(scenario, [planned], on, jobs, progress)
    return result


def collect_parts(
    scenario: Scenario,
    parts: Sequence[Sequence[Job]],
    on: str,
    jobs: int | None,
    progress: Progress | None,
) -> Iterator[Result]:
    """Execute all runs, `jobs` at a time; a Result for each part, in their order.

    A part is released when the next one is requested, so that not all of them are in memory.
    """
    planned = [job for part in parts for job in part]
    records = _execute([job.run for job in planned], _threads(planned, on, jobs), progress)
    for part in parts:
        yield _joined(scenario, part, on, itertools.islice(records, len(part)))


def _collect_tolerantly(
    scenario: Scenario,
    planned: Sequence[Job],
    on: str,
    jobs: int | None,
    progress: Progress | None,
    errors: tuple[type[Exception], ...],
) -> Result:
    """As `collect`, without the algorithms of which a run fails with one of the errors."""
    failures: dict[str, Exception] = {}
    attempts = [_Attempt(job.run, job.keys["algorithm"], errors, failures) for job in planned]
    done = list(_execute(cast(Any, attempts), _threads(planned, on, jobs), progress))
    left = [i for i, job in enumerate(planned) if job.keys["algorithm"] not in failures]
    if not left:
        raise next(iter(failures.values()))
    result = _joined(scenario, [planned[i] for i in left], on, (done[i] for i in left))
    return replace(result, failures={name: str(error) for name, error in failures.items()})


@dataclass(frozen=True)
class _Attempt:
    """A run that may fail: then its algorithm has an entry in `failures` and runs no more."""

    run: _core.Run
    algorithm: str
    errors: tuple[type[Exception], ...]
    failures: dict[str, Exception]

    @property
    def progress(self) -> float:
        return 1.0 if self.algorithm in self.failures else self.run.progress

    def cancel(self) -> None:
        self.run.cancel()

    def execute(self) -> Tables | None:
        if self.algorithm in self.failures:
            return None
        try:
            return self.run.execute()
        except self.errors as error:
            self.failures.setdefault(self.algorithm, error)
            return None


def _threads(planned: Sequence[Job], on: str, jobs: int | None) -> int:
    """The number of runs at a time."""
    check_jobs(jobs)
    if any(job.in_python for job in planned):
        return 1
    if BACKENDS[on].real_time:
        return jobs or 1
    return jobs or os.cpu_count() or 1


def _joined(
    scenario: Scenario, planned: Sequence[Job], on: str, records: Iterable[Tables]
) -> Result:
    """The Result of these runs, whose tables are `records`."""
    frames = [_frames(job.keys, record) for job, record in zip(planned, records, strict=True)]
    tables = {
        table: _concatenated([frame.pop(table) for frame in frames]) for table in list(frames[0])
    }
    custom = dict.fromkeys(job.keys["algorithm"] for job in planned if job.in_python)
    keys = tuple(planned[0].keys)
    return Result(scenario, on, keys, **tables, rules_in_python=tuple(custom))


def _execute(
    runs: Sequence[_core.Run], threads: int, progress: Progress | None
) -> Iterator[Tables]:
    """The tables of each run, in their order; any exception, Ctrl-C included, cancels all runs."""

    def report() -> None:
        if progress:
            progress(sum(run.progress for run in runs) / len(runs))

    def cancel() -> None:
        for run in runs:
            run.cancel()

    executions = ((number, run.execute, ()) for number, run in enumerate(runs))
    done: dict[int, Tables] = {}
    first = 0
    with ThreadPoolExecutor(threads) as pool:
        results = completed(pool, executions, len(runs), report, cancel)
        with closing(results):
            for number, tables in results:
                done[number] = tables
                while first in done:
                    yield done.pop(first)
                    first += 1


def _frames(keys: dict[str, Any], record: Tables) -> dict[str, pd.DataFrame]:
    """The tables of a run, each taken out of its record, so that there is no second copy of all."""
    return {table: _frame(keys, record.pop(table)) for table in list(record)}


def _frame(keys: dict[str, Any], columns: dict[str, Any]) -> pd.DataFrame:
    rows = len(next(iter(columns.values())))
    named = {key: pd.Series([value]).repeat(rows).array for key, value in keys.items()}
    # Columns without a type are names. An empty one has no name from which pandas could tell.
    typed = {
        key: pd.Series(values, dtype=TEXT) if isinstance(values, list) and not values else values
        for key, values in columns.items()
    }
    # The columns belong to nobody else: no copy, which would be as large as the samples.
    return pd.DataFrame({**named, **typed}, copy=False)


def _concatenated(frames: list[pd.DataFrame]) -> pd.DataFrame:
    return frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)
