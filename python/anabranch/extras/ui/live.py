"""Runs of the page: a few at a time, the others wait; each sends events while it computes."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from pkgutil import resolve_name
from time import monotonic
from typing import Any

from anabranch import _core
from anabranch.extras.ui.asked import Asked, plain
from anabranch.extras.ui.parameters import parameters
from anabranch.extras.ui.series import Thinner, plan
from anabranch.extras.ui.summary import optimum, totals
from anabranch.figures.network import topology
from anabranch.result.caveats import caveats
from anabranch.runner import BACKENDS
from anabranch.runner.asked import OWN
from anabranch.scenario import Scenario, ScenarioError
from anabranch.theory.errors import NotConverged

Message = dict[str, Any]

POLL_S = 0.03
"""Time between two looks at the samples of a run."""

REST_S = 0.2
"""How long theory waits, so that it does not begin while a slider moves: it is in Python, whose
lock the first samples need, too."""

MOST_JOBS = 32
"""Jobs beyond these are refused: a page has one request at a time."""

USER_ERRORS = (ScenarioError, NotConverged, OSError)


class Busy(Exception):
    """There are too many jobs already."""


class Pool:
    """Runs at most `workers` jobs at once, in threads; the rules release Python's lock."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.closed = False
        self._executor = ThreadPoolExecutor(workers, thread_name_prefix="run")
        self._lock = threading.Lock()
        self._jobs = 0

    @property
    def jobs(self) -> int:
        """The number of jobs that run or wait."""
        return self._jobs

    def check(self) -> None:
        """Raise `Busy` where no more jobs are taken."""
        if self._jobs >= MOST_JOBS:
            raise Busy(f"{self._jobs} runs are waiting already: stop some, or wait")

    def submit(self, work: Callable[[], Any]) -> "asyncio.Future[Any]":
        """Begin a job as soon as one of the workers is free."""
        with self._lock:
            self._jobs += 1
        future = self._executor.submit(work)
        future.add_done_callback(self._done)
        return asyncio.wrap_future(future)

    def _done(self, _: Future[Any]) -> None:
        with self._lock:
            self._jobs -= 1

    def close(self) -> None:
        """Begin no more jobs. `events` then ends, and cancels those that run."""
        self.closed = True
        self._executor.shutdown(wait=False, cancel_futures=True)


class Work:
    """A run or a reference of a request, in the pool."""

    def __init__(self, scenario: Scenario, rule: str | None, seed: int, on: str) -> None:
        self.run: Any = None
        self.has_begun = False
        """Whether there have been samples, or there are none before the end."""
        self.thinner = Thinner(scenario)
        self.scenario = scenario
        self._cancelled = False
        self._arguments = (scenario, rule, seed)
        self._on = on

    def execute(self) -> Mapping[str, Any]:
        """Make and execute the run: in the pool, because theory is slow to load."""
        self.run = resolve_name(BACKENDS[self._on].path)(*self._arguments)
        if hasattr(self.run, "samples"):
            self.run.samples()  # asks for the first ones
        if self._cancelled:
            self.run.cancel()
        tables: Mapping[str, Any] = self.run.execute()
        return tables

    def cancel(self) -> None:
        """Stop it, now or when it begins."""
        self._cancelled = True
        if self.run is not None:
            self.run.cancel()

    def samples(self) -> Message | None:
        """The points since the last call and the progress; None before there are any."""
        if self.run is None:
            return None
        if not hasattr(self.run, "samples"):
            self.has_begun = True
            return {"progress": self.run.progress}
        tables = self.run.samples()
        if tables is None:
            return None
        self.has_begun = True
        return {"progress": self.run.progress, **self.thinner.add(tables)}


def described(scenario: Scenario) -> Message:
    """A scenario for the page: its lines, topology, sliders, text and warnings."""
    return {
        **plan(scenario),
        "name": scenario.name,
        "algorithm": scenario.algorithm,
        "seeds": scenario.seeds,
        "topology": str(topology(scenario.network())),
        "parameters": parameters(scenario),
        "text": scenario.text,
        "warnings": scenario.warnings,
    }


async def events(asked: Asked, pool: Pool) -> AsyncGenerator[Message]:
    """The events of a request, until all its runs are done; whatever ends it cancels them."""
    scenario = asked.scenario
    warnings = [*scenario.warnings, *caveats(scenario, asked.on)]
    yield {
        "type": "plan",
        **described(scenario),
        "runs": [{"rule": rule or OWN} for rule in asked.rules],
        "on": asked.on,
        "seed": asked.seed,
        "warnings": warnings,
    }
    if pool.closed:
        return
    runs = [Work(scenario, rule, asked.seed, asked.on) for rule in asked.rules]
    references: list[Work] = []
    begun = monotonic()
    stop = threading.Event()
    works = {pool.submit(work.execute): work for work in runs}
    left: set[asyncio.Future[Any]] = set(works)
    best: asyncio.Future[Any] | None = None
    try:
        while (left or best is None) and not pool.closed:
            if left:
                done, left = await asyncio.wait(left, timeout=POLL_S, return_when="FIRST_COMPLETED")
            else:
                done = await asyncio.sleep(POLL_S, set())
            for future in done:
                if future is best:
                    yield {"type": "optimum", **future.result()}
                elif (work := works[future]) in runs:
                    yield _ended(work, runs.index(work), future)
                else:
                    yield _reference(work, references.index(work), future)
            computing = [works[future] for future in left if works.get(future) in runs]
            for work in computing:
                if new := work.samples():
                    yield {"type": "samples", "run": runs.index(work), **new}
            if computing and all(work.run is None for work in computing):
                yield {"type": "queued", "jobs": pool.jobs - len(left)}
            rests = monotonic() > begun + REST_S and all(work.has_begun for work in computing)
            if best is None and rests and not pool.closed:
                best = pool.submit(lambda: optimum(scenario, stop))
                references = _equilibria(asked)
                own = {pool.submit(work.execute): work for work in references}
                works |= own
                left |= {best, *own}
        yield {"type": "done"}
    finally:
        stop.set()
        for work in (*runs, *references):
            work.cancel()
        for future in left:
            future.cancel()


def _equilibria(asked: Asked) -> list[Work]:
    if asked.on == "equilibrium":
        return []
    return [Work(asked.scenario, rule, asked.seed, "equilibrium") for rule in asked.rules]


def _ended(work: Work, number: int, future: "asyncio.Future[Any]") -> Message:
    """The last samples and the totals of a run, or its error."""
    tables, error = _outcome(work, future)
    if tables is None:
        return {"type": "error", "run": number, "message": error}
    return ended(work.scenario, work.thinner, number, tables)


def ended(scenario: Scenario, thinner: Thinner, number: int, tables: Mapping[str, Any]) -> Message:
    """The event that ends a run with these tables."""
    points = thinner.add(tables, whole_run=True)
    return {"type": "result", "run": number, **points, "totals": totals(scenario, tables)}


def _reference(work: Work, number: int, future: "asyncio.Future[Any]") -> Message:
    tables, error = _outcome(work, future)
    event = {"type": "equilibrium", "run": number}
    if tables is None:
        return {**event, "reason": error}
    rows = totals(work.scenario, tables)["flows"]
    return {**event, "goodput_mbps": [row["goodput_mbps"] for row in rows]}


def _outcome(work: Work, future: "asyncio.Future[Any]") -> tuple[Any, str]:
    """The tables, or None and the reason."""
    try:
        return future.result(), ""
    except USER_ERRORS as error:
        return None, plain(str(error), work.scenario.source)
    except (_core.Cancelled, CancelledError):
        return None, "cancelled"
