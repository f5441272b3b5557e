"""Running the points that a store lacks, with any executor of `concurrent.futures`."""

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from anabranch.runner import BACKENDS, Progress, completed
from anabranch.runner.asked import check_jobs
from anabranch.sweeps.point import Live, Point, run_point
from anabranch.sweeps.store import Damaged, Store, about

Job = tuple[Point, Callable[..., bytes], tuple[Any, ...]]
"""A point, and the function that runs it with its arguments."""


@dataclass(frozen=True)
class Engine:
    """Executor of points, and the store of their entries."""

    store: Store
    executor: Executor
    live: Live | None
    """The runs in threads of this process; None with an executor of the caller."""
    in_flight: int
    """The number of points that are given to the executor at a time."""
    retry: bool
    progress: Progress | None
    damaged: set[str] = field(default_factory=set)
    """The entries that were reported."""

    def complete(self, points: Sequence[Point], after: int = 0, in_all: int | None = None) -> None:
        """Run each point that has no entry; on return all have one."""
        for _ in self.each(points, after, in_all):
            pass

    def each(
        self, points: Sequence[Point], after: int = 0, in_all: int | None = None
    ) -> Iterator[tuple[Point, bytes]]:
        """Each point with its entry, as points end or are found stored.

        `after` points of `in_all` were done before, for the progress. A point that another process
        runs is waited for. On an exception, Ctrl-C included, the points that were done are stored.
        """
        every = {point.key: point for point in points}
        todo: deque[Point] = deque()
        for point in every.values():
            data = self._stored(point)
            if data is None:
                todo.append(point)
            else:
                yield point, data
        claimed: set[str] = set()
        found: list[tuple[Point, bytes]] = []

        highest = 0.0

        def report() -> None:
            nonlocal highest
            if self.progress:
                left = len(todo) + len(claimed) - (self.live.progress if self.live else 0)
                # A run that has ended is no longer live and not yet stored: never backwards.
                highest = max(highest, (after + len(every) - left) / (in_all or len(every)))
                self.progress(highest)

        def cancel() -> None:
            if self.live:
                self.live.cancel()

        jobs = self._jobs(todo, claimed, found)
        entries = completed(self.executor, jobs, self.in_flight, report, cancel)
        try:
            with closing(entries):
                for point, data in entries:
                    self.store.write(point.key, data)
                    self.store.release(point.key)
                    claimed.remove(point.key)
                    report()
                    yield point, data
            yield from found
        finally:
            for key in claimed:
                self.store.release(key)

    def _jobs(
        self, todo: deque[Point], claimed: set[str], found: list[tuple[Point, bytes]]
    ) -> Iterator[Job | None]:
        """The points to run, each claimed; None while other processes run all that are left.

        Entries that another process has written meanwhile are put into `found`.
        """
        passed = 0
        while todo:
            point = todo.popleft()
            if not self.store.claim(point.key):
                todo.append(point)
                passed += 1
            elif (data := self._stored(point)) is not None:
                self.store.release(point.key)
                found.append((point, data))
            else:
                claimed.add(point.key)
                passed = 0
                yield point, run_point, (point, self.live) if self.live else (point,)
            if passed and passed >= len(todo):
                passed = 0
                yield None

    def _stored(self, point: Point) -> bytes | None:
        """The entry of a point that needs no run. One that is damaged is reported and runs again.

        With `retry` a point that has failed needs one.
        """
        data = self.store.read(point.key)
        if data is None:
            return None
        try:
            failed = "failure" in about(data, point.key)
            return None if failed and self.retry else data
        except Damaged as error:
            if point.key not in self.damaged:
                self.damaged.add(point.key)
                reason = f"the entry of {point.label} is damaged ({error}): it runs again"
                print(f"anabranch: warning: {reason}", file=sys.stderr)
            return None


@contextmanager
def engine(
    store: Store,
    executor: Executor | None,
    jobs: int | None,
    on: str,
    in_python: bool,
    retry: bool,
    progress: Progress | None,
) -> Iterator[Engine]:
    """An engine over the executor of the caller, or over threads of its own.

    `jobs`: the points at a time; in threads one per core by default, and one on a backend in real
    time; with an executor four per core of this machine. Rules in Python follow one another.
    """
    check_jobs(jobs)
    cores = os.cpu_count() or 1
    if executor is not None:
        yield Engine(store, executor, None, jobs or 4 * cores, retry, progress)
        return
    threads = 1 if in_python else jobs or (1 if BACKENDS[on].real_time else cores)
    with ThreadPoolExecutor(threads) as pool:
        # One more than threads, so that none waits while an entry is written.
        yield Engine(store, pool, Live(), threads + 1, retry, progress)
