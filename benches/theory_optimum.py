"""How long the optimum of large random networks takes, and how far from the best it may be.

Each flow has two paths over 1 to 3 links, chosen at random, of 10 to 100 Mbps; all from one seed.
Prints seconds and the certified gap: what better rates could add, over what users pay in all.

    .venv/bin/python benches/theory_optimum.py                   # 100 links, 1000 flows
    .venv/bin/python benches/theory_optimum.py 10000 100000
"""

import sys
import time
from pathlib import Path

import numpy as np
from scipy import sparse

from anabranch.theory.optimum.maximise import solve
from anabranch.theory.optimum.problem import Problem
from anabranch.theory.optimum.utility import AlphaFair

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from theory.optimum.conic import conic

CONIC_PATHS = 5_000
"""Number of paths up to which the oracle takes seconds."""


def random_problem(links: int, flows: int, seed: int = 1) -> Problem:
    """A network without any structure, which is the hardest to factor."""
    rng = np.random.default_rng(seed)
    paths = 2 * flows
    hops = rng.integers(1, 4, paths)
    columns, rows = np.repeat(np.arange(paths), hops), rng.integers(0, links, hops.sum())
    crossed = sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape=(links, paths))
    routes = sparse.csr_array(crossed)
    routes.data[:] = 1  # a path crosses a link once
    pairs = np.arange(0, paths + 1, 2)
    return Problem(
        capacity=rng.uniform(10, 100, links),
        routes=routes,
        sums=sparse.csr_array((np.ones(paths), np.arange(paths), pairs), shape=(flows, paths)),
        weight=np.ones(flows),
        floor=np.zeros(paths),
        links=[f"link {i}" for i in range(links)],
        users=[f"flow {i}" for i in range(flows)],
    )


def main(links: int = 100, flows: int = 1000) -> None:
    """Solve one network, and a small one with CVXPY and Clarabel, too."""
    problem = random_problem(links, flows)
    for solver in (conic, solve) if 2 * flows <= CONIC_PATHS else (solve,):
        start = time.perf_counter()
        found = solver(problem, AlphaFair(1))
        seconds = time.perf_counter() - start
        print(
            f"{links} links, {flows} two-path flows, {found.solver}: {seconds:.2f} s, "
            f"{found.iterations} iterations, relative gap {found.gap:.1e}"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
