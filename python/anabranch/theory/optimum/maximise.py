"""Network utility maximisation: the rates of the largest total utility, and the links' prices.

    maximise   sum_u weight_u U(y_u)    where  y = sums x
    subject to routes x <= capacity,  x >= floor

Kelly, Maulloo and Tan, "Rate control for communication networks", 1998; for users with several
paths wVegas' paper, (1). The interior-point method of `interior_point.py` solves it, and its answer
is certified: its rates keep to the capacities, and the dual function at its prices is a bound on
the utility of any rates. In the tests CVXPY with Clarabel is the oracle.
"""

from dataclasses import replace

import numpy as np
from scipy import sparse

from anabranch.runner import Progress
from anabranch.theory.array import Array
from anabranch.theory.errors import NotConverged
from anabranch.theory.optimum.interior_point import interior_point, of_each
from anabranch.theory.optimum.problem import Problem, Solution
from anabranch.theory.optimum.utility import AlphaFair


def solve(problem: Problem, utility: AlphaFair, progress: Progress | None = None) -> Solution:
    """The optimum, certified.

    Raises `ScenarioError` for a problem that is infeasible or unbounded, and `NotConverged` when
    gap or mismatch stay above what is accepted.
    """
    problem.check()
    rate, price, iterations = interior_point(problem, utility, progress)
    solution = certified(problem, utility, Solution(rate, price, "interior point", iterations))
    if not solution.accepted:
        raise NotConverged(
            f"{solution.solver} stopped after {solution.iterations} iterations with a "
            f"relative duality gap of {solution.gap:.1e}; the worst user's price is "
            f"{solution.mismatch:.1e} off its marginal utility",
            solution.gap,
        )
    return solution


def certified(problem: Problem, utility: AlphaFair, rough: Solution) -> Solution:
    """The solution with rates that keep to floors and capacities, and with its gap and mismatch."""
    extra = np.maximum(rough.rate - problem.floor, 0)
    room = np.maximum(problem.room, 1e-12 * problem.capacity)
    overload = np.maximum(problem.routes @ extra / room, 1)
    rate = problem.floor + extra / of_each(np.maximum, sparse.csr_array(problem.routes.T), overload)
    price = np.maximum(rough.price, 0)
    total = problem.sums @ rate
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        worth = np.sum(problem.weight * utility.value(total))
        slope = problem.weight * utility.slope(total)
        gap = float((_bound(problem, utility, price) - worth) / np.sum(slope * total))
        mismatch = _mismatch(problem, utility, price, total)
    return replace(
        rough, rate=rate, price=price, gap=_or_infinite(gap), mismatch=_or_infinite(mismatch)
    )


def _mismatch(problem: Problem, utility: AlphaFair, price: Array, total: Array) -> float:
    """`Solution.mismatch`; U' of a user with no more than its floors may be below the price."""
    slope = problem.weight * utility.slope(total)
    cheapest = of_each(np.minimum, problem.sums, problem.routes.T @ price)
    least = problem.sums @ problem.floor
    nothing = total - least <= 1e-6 * np.max(total)
    may = nothing & ((least > 0) | (utility.alpha == 0))
    off = np.where(may, np.maximum(slope - cheapest, 0), np.abs(slope - cheapest))
    return float(np.max(off / slope))


def _or_infinite(value: float) -> float:
    return value if value == value else np.inf


def _bound(problem: Problem, utility: AlphaFair, price: Array) -> float:
    """The dual function: an upper bound on the utility of any rates, at any prices."""
    cheapest = of_each(np.minimum, problem.sums, problem.routes.T @ price)
    least = problem.sums @ problem.floor
    if utility.alpha == 0:  # U' is 1 at any rate: no path may be cheaper
        price = price * np.max(np.maximum(problem.weight / cheapest, 1))
        total = least
    else:
        total = np.maximum(utility.demand(cheapest / problem.weight), least)
    users = problem.weight * utility.value(total) - cheapest * (total - least)
    return float(np.sum(users) + price @ problem.room)
