"""The oracle of the optimum: the same problem for CVXPY and Clarabel."""

import warnings
from contextlib import suppress

import numpy as np

from anabranch.theory.optimum.maximise import AlphaFair, Problem, Solution, certified


def conic(problem: Problem, utility: AlphaFair) -> Solution:
    """The oracle's answer with its certificate, accepted or not."""
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
