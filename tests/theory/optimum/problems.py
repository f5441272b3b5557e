"""Networks whose optimum is known or sought, and its oracle, for the tests of theory/optimum."""

import warnings
from contextlib import suppress

import numpy as np
from hypothesis import strategies as st
from scipy import sparse

from anabranch.theory.optimum.maximise import AlphaFair, Problem, Solution, certified

TWO_LINKS = """
name = "two links"
algorithm = "lia"
[measure]
duration_s = 60
[tcp]
packet_bytes = 1000
header_bytes = 0
[links.top]
rate_mbps = 6
delay_ms = 20
[links.bottom]
rate_mbps = 9
delay_ms = 20
[[flows]]
name = "both"
paths = [["top"], ["bottom"]]
[[flows]]
name = "above"
paths = [["top"]]
[[flows]]
name = "below"
paths = [["bottom"]]
"""


def problem(
    capacity: list[float], paths: list[list[int]], users: list[int], floor: float = 0
) -> Problem:
    """Paths as lists of links; users as numbers of paths."""
    routes = np.zeros((len(capacity), len(paths)))
    for path, crossed in enumerate(paths):
        routes[crossed, path] = 1
    sums = np.repeat(np.eye(len(users)), users, axis=1)
    return Problem(
        capacity=np.array(capacity, dtype=float),
        routes=sparse.csr_array(routes),
        sums=sparse.csr_array(sums),
        weight=np.ones(len(users)),
        floor=np.full(len(paths), float(floor)),
        links=[f"link {i}" for i in range(len(capacity))],
        users=[f"flow {i}" for i in range(len(users))],
    )


@st.composite
def networks(draw):
    """Up to 6 links and 6 users with up to 3 paths of up to 3 links."""
    links = draw(st.integers(1, 6))
    capacity = draw(st.lists(st.floats(0.5, 100), min_size=links, max_size=links))
    path = st.lists(st.integers(0, links - 1), min_size=1, max_size=3, unique=True)
    users = draw(st.lists(st.integers(1, 3), min_size=1, max_size=6))
    paths = [draw(path) for _ in range(sum(users))]
    return problem(capacity, paths, users, draw(st.sampled_from([0, 0.01])))


def conic(problem: Problem, utility: AlphaFair) -> Solution:
    """The answer of CVXPY and Clarabel, with its certificate, accepted or not."""
    import cvxpy as cp  # slow to load, and every process of pytest collects all tests

    rate = cp.Variable(problem.routes.shape[1])
    total, alpha = problem.sums @ rate, utility.alpha
    if alpha == 0:
        worth = problem.weight @ total
    elif alpha == 1:
        worth = problem.weight @ cp.log(total)
    elif alpha == 2:  # Clarabel's power cone fails there
        worth = -(problem.weight @ cp.inv_pos(total))
    else:
        worth = problem.weight @ cp.power(total, 1 - alpha, approx=False) / (1 - alpha)
    limits = problem.routes @ rate <= problem.capacity
    program = cp.Problem(cp.Maximize(worth), [limits, rate >= problem.floor])
    with suppress(cp.SolverError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an inaccurate answer: the certificate bounds its error
        program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    if rate.value is None or limits.dual_value is None:  # no answer: prices of 0 certify nothing
        found = Solution(problem.floor, np.zeros(len(problem.capacity)), "Clarabel", 0)
    else:
        iterations = program.solver_stats.num_iters or 0
        found = Solution(rate.value, limits.dual_value, "Clarabel", iterations)
    return certified(problem, utility, found)
