"""Dask: an executor whose workers are on other machines."""

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

from anabranch.scenario import ScenarioError

CONNECT_S = 10
PER_THREAD = 4
"""Points that are handed over per thread of a worker, so that none waits for the next one."""


@contextmanager
def dask(address: str) -> Iterator[tuple[Executor, int]]:
    """The executor of a Dask scheduler, and the number of points to give it at a time.

    A point whose worker dies runs again on another one. Raises `ScenarioError` where Dask is not
    installed, the scheduler or its workers are not there, or a point killed several workers.
    """
    try:
        import distributed
    except ImportError:
        raise ScenarioError("Dask is not installed: pip install 'anabranch[dask]'") from None
    try:
        client: Any = distributed.Client(address, timeout=CONNECT_S)
    except (OSError, ValueError) as error:
        raise ScenarioError(f"no Dask scheduler at {address}: {error}") from None
    with client:
        threads = sum(client.nthreads().values())
        if threads == 0:
            raise ScenarioError(f"the Dask scheduler at {address} has no workers: start one")
        try:
            yield client.get_executor(pure=False), PER_THREAD * threads
        except distributed.KilledWorker as error:
            raise ScenarioError(f"a point killed several Dask workers: {error}") from None
        except ModuleNotFoundError as error:
            raise ScenarioError(f"a Dask worker lacks a module: {error}") from None
