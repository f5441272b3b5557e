"""A primal-dual interior-point method for large network utility maximisation.

Newton's method on the optimality conditions, with complementarity products that decrease at each
step (Boyd and Vandenberghe, "Convex Optimization", 11.7). The block of each user, a diagonal plus
one rank, is inverted in closed form (Sherman and Morrison), so a Newton step is a positive definite
system in the links' prices. With up to `DENSE_LINKS` links it is factored; beyond that it is solved
by conjugate gradients, because its sparse factors would fill up.
"""

from contextlib import suppress

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import cg

from anabranch.runner import Progress
from anabranch.theory.array import Array
from anabranch.theory.optimum.problem import Problem
from anabranch.theory.optimum.utility import AlphaFair

DENSE_LINKS = 500
MOST_STEPS = 100
MOST_INNER_STEPS = 5_000
TOLERANCE, DENSE_TOLERANCE = 1e-6, 1e-12
"""Tolerances of the residual: the sum of all products, or of all violations, over what users
pay."""
PATIENCE = 5
"""Steps without a smaller residual after which the search stops, once the residual is `SMALL`."""
SMALL = 1e-4


def interior_point(
    problem: Problem, utility: AlphaFair, progress: Progress | None = None
) -> tuple[Array, Array, int]:
    """Rates of the paths, prices of the links, and the number of Newton steps.

    Calls `progress` with the fraction done, 0 to 1, in digits of the residual.
    """
    A, B, weight = problem.routes, problem.sums, problem.weight
    to_paths, to_users = sparse.csr_array(A.T), sparse.csr_array(B.T)
    room = np.maximum(problem.room, 1e-9 * problem.capacity)
    least = B @ problem.floor

    # Start above the floors at half of an equal share of the links.
    x = 0.5 * of_each(np.minimum, to_paths, room / np.maximum(A.sum(axis=1), 1))
    slack = room - A @ x
    paid = float(np.sum(weight * utility.slope(least + B @ x) * (least + B @ x)))
    target = 0.5 * paid / (len(x) + len(slack))
    price, rent = target / slack, target / x
    tolerance = DENSE_TOLERANCE if len(slack) <= DENSE_LINKS else TOLERANCE
    shrink, start, best, best_at = 0.3, 0.0, (np.inf, x, price), 0
    for steps in range(MOST_STEPS + 1):
        total = least + B @ x
        slope = weight * utility.slope(total)
        violation = to_paths @ price - to_users @ slope - rent
        excess = room - A @ x - slack
        products = float(x @ rent + slack @ price)
        paid = float(slope @ total)
        residual = max(products, float(np.abs(violation) @ x), float(np.abs(excess) @ price)) / paid
        if progress:
            start = start or residual
            progress(min(1.0, np.log(residual / start) / np.log(tolerance / start)))
        if residual < best[0]:
            best, best_at = (residual, x, price), steps
        stalled = best[0] < SMALL and steps - best_at >= PATIENCE
        if residual < tolerance or stalled or steps == MOST_STEPS:
            break

        # The Newton step towards products of `target`.
        target = shrink * products / (len(x) + len(slack))
        K = _inverse_per_user(x / rent, weight * utility.curvature(total), B, to_users)
        towards_x = -violation + target / x - rent
        towards_slack = target / price - slack
        schur = sparse.csr_array(A @ K @ to_paths + sparse.diags_array(slack / price))
        d_price = _solve(schur, A @ (K @ towards_x) - excess + towards_slack, residual)
        d_x = K @ (towards_x - to_paths @ d_price)
        d_rent = target / x - rent - rent / x * d_x
        d_slack = towards_slack - slack / price * d_price

        pairs = ((x, d_x), (slack, d_slack), (price, d_price), (rent, d_rent))
        step = min(stays_positive(value, change) for value, change in pairs)
        x, slack = x + step * d_x, slack + step * d_slack
        price, rent = price + step * d_price, rent + step * d_rent
        shrink = next_shrink(step)
    return problem.floor + best[1], best[2], steps


def of_each(take: np.ufunc, groups: sparse.csr_array, values: Array) -> Array:
    """The smallest (`np.minimum`) or largest (`np.maximum`) value of each row's columns."""
    return np.asarray(take.reduceat(values[groups.indices], groups.indptr[:-1]))


def _inverse_per_user(
    diagonal: Array, curvature: Array, B: sparse.csr_array, to_users: sparse.csr_array
) -> sparse.csr_array:
    """The inverse of `1/diagonal + B' curvature B`, a block for each user."""
    D = sparse.diags_array(diagonal)
    rank = sparse.diags_array(curvature / (1 + curvature * (B @ diagonal)))
    return sparse.csr_array(D - D @ to_users @ rank @ B @ D)


def _solve(matrix: sparse.csr_array, right: Array, residual: float) -> Array:
    if len(right) <= DENSE_LINKS:
        with suppress(linalg.LinAlgError):  # not positive definite, by rounding
            return np.asarray(linalg.cho_solve(linalg.cho_factor(matrix.toarray()), right))
    scale = sparse.diags_array(1 / matrix.diagonal())
    rtol = 1e-3 if residual > 1e-3 else 1e-5 if residual > 1e-5 else 1e-6
    solution, _ = cg(matrix, right, rtol=rtol, maxiter=MOST_INNER_STEPS, M=scale)
    return np.asarray(solution)


def stays_positive(value: Array, change: Array) -> float:
    """The longest step, at most 1, that leaves at least a hundredth of each value."""
    falls = change < 0
    return float(np.min(-0.99 * value[falls] / change[falls], initial=1.0))


def next_shrink(step: float) -> float:
    """The factor for the products in the next step: smaller if the last step was long."""
    return 0.05 if step > 0.9 else 0.3 if step > 0.5 else 0.7
