"""One scenario over a grid of values."""

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.result import Result
from anabranch.runner import Algorithms, Progress, Seeds, collect, plan
from anabranch.scenario import load


def sweep(
    file: str | os.PathLike[str],
    grid: Mapping[str, Sequence[Any]],
    algorithm: Algorithms = None,
    seeds: Seeds = None,
    *,
    on: str = "sim",
    threads: int | None = None,
    progress: Progress | None = None,
) -> Result:
    """Run a scenario for every combination of the grid's values.

    `grid` maps a dotted key to the values it takes: `{"links.R1.rate_mbps": [10, 30]}`. Every
    table of the result leads with one column per key. The rest is as in `run`; all points are
    checked before the first one runs.
    """
    jobs = []
    for values in itertools.product(*grid.values()):
        point = dict(zip(grid, values, strict=True))
        jobs += plan(load(file, point), algorithm, seeds, point, on)
    return collect(load(file), jobs, on, threads, progress)
