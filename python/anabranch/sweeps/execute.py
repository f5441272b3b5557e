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
        """Run each point that has no entry; on return all have one.

        `after` points of `in_all` were done before, for the progress. A point that another process
        runs is waited for. On an exception, Ctrl-C included, the points that were done are stored.
        """
        every = {point.key: point for point in points}
        todo = deque(point for point in every.values() if not self._has(point, not self.retry))
        claimed: set[str] = set()

        def report() -> None:
            if self.progress:
                left = len(todo) + len(claimed) - (self.live.progress if self.live else 0)
                self.progress((after + len(every) - left) / (in_all or len(every)))

        def cancel() -> None:
            if self.live:
                self.live.cancel()

        jobs = self._jobs(todo, claimed)
        entries = completed(self.executor, jobs, self.in_flight, report, cancel)
        try:
            with closing(entries):
                for point, data in entries:
                    self.store.write(point.key, data)
                    self.store.release(point.key)
                    claimed.remove(point.key)
                    report()
        finally:
            for key in claimed:
                self.store.release(key)

    def _jobs(self, todo: deque[Point], claimed: set[str]) -> Iterator[Job | None]:
        """The points to run, each claimed; None while other processes run all that are left."""
        passed = 0
        while todo:
            point = todo.popleft()
            if not self.store.claim(point.key):
                todo.append(point)
                passed += 1
            elif self._has(point, not self.retry):  # from another process, since we looked
                self.store.release(point.key)
            else:
                claimed.add(point.key)
                passed = 0
                yield point, run_point, (point, self.live) if self.live else (point,)
            if passed and passed >= len(todo):
                passed = 0
                yield None

    def _has(self, point: Point, failures_count: bool) -> bool:
        """Whether the point needs no run. An entry that is damaged is reported and runs again."""
        data = self.store.read(point.key)
        if data is None:
            return False
        try:
            found = about(data, point.key)
            return failures_count or "failure" not in found
        except Damaged as error:
            if point.key not in self.damaged:
                self.damaged.add(point.key)
                reason = f"the entry of {point.label} is damaged ({error}): it runs again"
                print(f"anabranch: warning: {reason}", file=sys.stderr)
            return False


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
