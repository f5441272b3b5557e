"""Network utility maximisation: the rates of the largest total utility, and the links' prices.

    maximise   sum_u weight_u U(y_u)    where  y = sums x
    subject to routes x <= capacity,  x >= floor

Kelly, Maulloo and Tan, "Rate control for communication networks", 1998; for users with several
paths wVegas' paper, (1). The interior-point method below solves it, and its answer is certified:
its rates keep to the capacities, and the dual function at its prices is a bound on the utility of
any rates. In the tests CVXPY with Clarabel is the oracle.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import cg

from anabranch.runner import Progress
from anabranch.scenario import ScenarioError
from anabranch.theory.array import Array
from anabranch.theory.errors import NotConverged
from anabranch.theory.network import Network

# Network utility maximisation: the problem, and a solution with its certificate.


ACCEPTED_GAP, ACCEPTED_MISMATCH = 1e-5, 1e-3
"""The largest gap and mismatch of an answer that is accepted."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Links, paths and users; all rates in one unit of the caller's choice."""

    capacity: Array
    routes: sparse.csr_array
    """Links by paths: how often a path crosses a link."""
    sums: sparse.csr_array
    """Users by paths: the matrix that sums over the paths of a user."""
    weight: Array
    """Weight of each user's utility."""
    floor: Array
    """The least rate of each path."""
    links: Sequence[str]
    users: Sequence[str]
    """Names for messages."""

    @classmethod
    def of(
        cls, network: Network, weight: Array | float = 1.0, floor: Array | float = 0.0
    ) -> "Problem":
        """The problem of a network, in Mbps of goodput; `floor` in Mbps."""
        return cls(
            capacity=network.goodput_mbps(network.capacity),
            routes=network.routes,
            sums=network.sums,
            weight=np.broadcast_to(np.asarray(weight, dtype=float), network.users),
            floor=np.broadcast_to(np.asarray(floor, dtype=float), network.paths),
            links=network.links,
            users=[f"flow {flow}" for flow in network.flows],
        )

    @property
    def room(self) -> Array:
        """Capacity of each link less the floors of its paths."""
        return np.asarray(self.capacity - self.routes @ self.floor)

    def check(self) -> None:
        """Raise `ScenarioError` for a problem that is infeasible or unbounded."""
        over = np.flatnonzero(self.room < -1e-9 * self.capacity)
        if len(over):
            worst = over[np.argmin(self.room[over] / self.capacity[over])]
            least = self.capacity[worst] - self.room[worst]
            raise ScenarioError(
                f"infeasible: the least rates of the paths over link {self.links[worst]} add up to "
                f"{least:.6g}, and it has {self.capacity[worst]:.6g}: "
                "lower the probing, the number of users, or raise its rate"
            )
        free = np.flatnonzero(np.diff(self.routes.tocsc().indptr) == 0)
        if len(free):
            user = self.users[int(self.sums.tocsc().indices[free[0]])]
            raise ScenarioError(
                f"unbounded: a path of {user} crosses no link, so nothing limits its rate"
            )


@dataclass(frozen=True, eq=False)
class Solution:
    """The best rates and the prices that prove it."""

    rate: Array
    """Rate of each path."""
    price: Array
    """Price of each link: the utility of one more unit of its capacity."""
    solver: str
    iterations: int
    gap: float = np.inf
    """Upper bound on the utility that is missing, over what users pay (`sum_u w_u U'(y_u) y_u`)."""
    mismatch: float = np.inf
    """Mismatch of the worst user: |U' - price of its cheapest path| / U'.

    A user that pays a negligible part of what all pay has no effect on the gap.
    """

    @property
    def accepted(self) -> bool:
        """Whether it is close enough to the optimum, in sum and for every user."""
        return self.gap <= ACCEPTED_GAP and self.mismatch <= ACCEPTED_MISMATCH


# Alpha-fair utilities of a user's rate.


@dataclass(frozen=True)
class AlphaFair:
    """`U(y) = y^(1 - alpha) / (1 - alpha)`, and `log y` where alpha is 1.

    Mo and Walrand, "Fair end-to-end window-based congestion control", 2000. alpha = 0
    maximises the total rate, 1 is proportional fairness, 2 is the utility of TCP's square-root
    formula, and a large alpha approximates max-min fairness.
    """

    alpha: float = 1.0

    @classmethod
    def parse(cls, text: str) -> "AlphaFair":
        """Read "log" or "alpha=2"; raises `ScenarioError`."""
        if text == "log":
            return cls(1.0)
        name, _, value = text.partition("=")
        try:
            alpha = float(value) if name == "alpha" else -1.0
        except ValueError:
            alpha = -1.0
        if not 0 <= alpha <= LARGEST_ALPHA:
            raise ScenarioError(
                f"utility {text!r}: expected log, or alpha=A with A from 0 to {LARGEST_ALPHA:g}"
            )
        return cls(alpha)

    def value(self, rate: Array) -> Array:
        """U; -inf at a rate of 0 where alpha >= 1."""
        with np.errstate(divide="ignore"):
            if self.alpha == 1:
                return np.asarray(np.log(rate))
            return np.asarray(rate ** (1 - self.alpha) / (1 - self.alpha))

    def slope(self, rate: Array) -> Array:
        """U', the price at which a user has this rate."""
        return np.asarray(rate**-self.alpha)

    def curvature(self, rate: Array) -> Array:
        """-U''."""
        return np.asarray(self.alpha * rate ** (-self.alpha - 1))

    def demand(self, price: Array) -> Array:
        """The rate at which U' is this price; for alpha > 0."""
        return np.asarray(price ** (-1 / self.alpha))

    def __str__(self) -> str:
        return "log" if self.alpha == 1 else f"alpha={self.alpha:g}"


LARGEST_ALPHA = 8.0
"""Beyond it the slopes of rates a hundredfold apart differ by more than a double resolves."""


# A primal-dual interior-point method for large network utility maximisation.
#
# Newton's method on the optimality conditions, with complementarity products that decrease at each
# step (Boyd and Vandenberghe, "Convex Optimization", 11.7). The block of each user, a diagonal
# plus one rank, is inverted in closed form (Sherman and Morrison), so a Newton step is a positive
# definite system in the links' prices. With up to `DENSE_LINKS` links it is factored; beyond that
# it is solved by conjugate gradients, because its sparse factors would fill up.


DENSE_LINKS = 2000
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
    # Prices at which no path is cheaper than its user's marginal utility: where paths cross many
    # links, steps from other prices are short.
    worth = to_users @ (weight * utility.slope(least + B @ x))
    price = 2 * np.max(worth / (to_paths @ (1 / slack))) / slack
    rent = to_paths @ price - worth
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
