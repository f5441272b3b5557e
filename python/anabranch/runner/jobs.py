"""Jobs in an executor: a limited number at a time, with progress; an exception ends all."""

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from typing import Any, TypeVar

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
