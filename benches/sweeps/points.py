"""Points per minute of a sweep, and what threads, processes and Dask take per point.

Speed: `examples/two_links.toml` (12 paths of 11 users over two links of 10 Mbps) for 30 s, 1000
points, stored on disk. Overhead: the same for 0.1 s, 200 points, where hardly anything but the
overhead is left; beside it, the bare runs in as many threads, without entries, keys and tables.
Each is the shortest time of several rounds in which all take turns. `--dask` adds Dask.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import anabranch
from anabranch import _core

SCENARIO = Path(__file__).parents[2] / "examples" / "two_links.toml"
JOBS = 2


def rates(count: int) -> dict[str, str]:
    """A sweep of `count` values of one rate."""
    return {"links.left.rate_mbps": f"lin(5,15,{count})"}


def lasting(duration_s: float) -> dict[str, float]:
    """The length of a run."""
    return {"measure.duration_s": duration_s, "measure.warmup_s": duration_s / 6}


def swept(count: int, duration_s: float, **how: Any) -> float:
    """Seconds of a sweep into a new store."""
    with tempfile.TemporaryDirectory() as out:
        begun = time.perf_counter()
        anabranch.sweep(SCENARIO, rates(count), seeds=1, set=lasting(duration_s), out=out, **how)
        return time.perf_counter() - begun


def bare(count: int, duration_s: float) -> float:
    """Seconds of the runs alone."""
    values = lasting(duration_s) | {"seeds": [1]}
    scenarios = [
        anabranch.load(SCENARIO, {**values, "links.left.rate_mbps": 5 + 10 * i / (count - 1)})
        for i in range(count)
    ]
    begun = time.perf_counter()
    with ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(lambda scenario: _core.Run(scenario, None, 1).execute(), scenarios))
    return time.perf_counter() - begun


@contextmanager
def dask() -> Iterator[Executor]:
    """A cluster of worker processes on this machine."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(JOBS, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client.get_executor(pure=False)


def main() -> None:
    """Prints both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dask", action="store_true")
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {JOBS} jobs")
    with ExitStack() as stack:
        pool = ProcessPoolExecutor(JOBS, mp_context=get_context("spawn"))
        ways: dict[str, dict[str, Any]] = {
            "threads": {"jobs": JOBS},
            "processes": {"executor": stack.enter_context(pool)},
        }
        if asked.dask:
            ways["Dask"] = {"executor": stack.enter_context(dask())}
        for how in ways.values():  # workers load Anabranch
            swept(8, 0.1, **how)
        whole: dict[str, Callable[[], float]] = {"bare runs": lambda: bare(asked.points, 30)}
        short: dict[str, Callable[[], float]] = {"bare runs": lambda: bare(200, 0.1)}
        for name, how in ways.items():
            whole[name] = lambda how=how: swept(asked.points, 30, **how)
            short[name] = lambda how=how: swept(200, 0.1, **how)
        for name, seconds in shortest(whole, asked.rounds).items():
            rate = 60 * asked.points / seconds
            print(f"{name}: {asked.points} points in {seconds:.1f} s: {rate:.0f} a minute")
        for name, seconds in shortest(short, 2 * asked.rounds).items():
            print(f"{name}: {seconds / 200 * 1e3:.2f} ms per point of 0.1 s")


def shortest(what: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """The shortest time of each, taking turns."""
    times = [{name: measure() for name, measure in what.items()} for _ in range(rounds)]
    return {name: min(each[name] for each in times) for name in what}


if __name__ == "__main__":
    main()
