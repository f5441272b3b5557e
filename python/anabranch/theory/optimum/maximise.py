"""Network utility maximisation: the rates that are worth most to all users, and what links cost.

    maximise   sum_u weight_u U(y_u)    where  y = sums x
    subject to routes x <= capacity,  x >= floor

Kelly, Maulloo and Tan, "Rate control for communication networks", 1998; for users with several
paths wVegas' paper, (1). Up to `CONIC_PATHS` paths CVXPY and Clarabel solve it, beyond that the
interior-point method of `interior_point.py`. Whoever solved it, the answer is certified: its rates
keep to the capacities, and the dual function at its prices bounds what any rates could be worth.
"""

import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from anabranch.runner import Progress
from anabranch.scenario import ScenarioError
from anabranch.theory.array import Array
from anabranch.theory.errors import NotConverged
from anabranch.theory.network import Network
from anabranch.theory.optimum.interior_point import interior_point, of_each
from anabranch.theory.optimum.utility import AlphaFair

CONIC_PATHS = 5_000
"""Up to so many paths the conic solver is used; it takes seconds then."""

ACCEPTED_GAP, ACCEPTED_MISMATCH = 1e-5, 1e-3
"""An answer with a larger gap or mismatch is none."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Links, paths and users; all rates in one unit of the caller's choice."""

    capacity: Array
    routes: sparse.csr_array
    """Links by paths: how often a path crosses a link."""
    sums: sparse.csr_array
    """Users by paths: adds up what belongs to a user."""
    weight: Array
    """Of each user's utility."""
    floor: Array
    """The least rate of each path."""
    links: Sequence[str]
    users: Sequence[str]
    """Names, for messages."""

    @classmethod
    def of(
        cls, network: Network, weight: Array | float = 1.0, floor: Array | float = 0.0
    ) -> "Problem":
        """That of a network, in Mbps of goodput."""
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
        """What the floors leave of each link."""
        return np.asarray(self.capacity - self.routes @ self.floor)

    def check(self) -> None:
        """Raise `ScenarioError` where no rates are allowed, or any."""
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
    """The best rates and the prices that say so."""

    rate: Array
    """Of each path."""
    price: Array
    """Of each link: what one more unit of its capacity would be worth."""
    solver: str
    iterations: int
    gap: float = np.inf
    """What better rates could add at most, over what users pay in all (`sum_u w_u U'(y_u) y_u`)."""
    mismatch: float = np.inf
    """Of the worst user: how far U' is from the price of its cheapest path, over U'.

    The gap does not see a user who pays next to nothing of what all pay.
    """

    @property
    def accepted(self) -> bool:
        """Whether it is near enough to the optimum, in sum and for every user."""
        return self.gap <= ACCEPTED_GAP and self.mismatch <= ACCEPTED_MISMATCH


def solve(
    problem: Problem,
    utility: AlphaFair,
    solver: str | None = None,
    progress: Progress | None = None,
) -> Solution:
    """The optimum. `solver`: "clarabel" or "interior-point"; by size, if none is named.

    Raises `ScenarioError` for a problem that is infeasible or unbounded, and `NotConverged` when
    gap or mismatch stay above what is accepted.
    """
    problem.check()
    small = problem.routes.shape[1] <= CONIC_PATHS
    if solver == "clarabel" or (solver is None and small):
        solution = certified(problem, utility, _conic(problem, utility))
        if solver is None and not solution.accepted:
            return solve(problem, utility, "interior-point", progress)
    else:
        rate, price, iterations = interior_point(problem, utility, progress)
        rough = Solution(rate, price, "interior point", iterations)
        solution = certified(problem, utility, rough)
    if not solution.accepted:
        raise NotConverged(
            f"{solution.solver} stopped after {solution.iterations} iterations with a "
            f"relative duality gap of {solution.gap:.1e}; the worst user pays a price that is "
            f"{solution.mismatch:.1e} off",
            solution.gap,
        )
    return solution


def _conic(problem: Problem, utility: AlphaFair) -> Solution:
    import cvxpy as cp  # here, because it takes a second to load

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
        warnings.simplefilter("ignore")  # of a loose answer: the certificate says how loose
        program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    if rate.value is None or limits.dual_value is None:  # none: prices of 0 certify nothing
        return Solution(problem.floor, np.zeros(len(problem.capacity)), "Clarabel", 0)
    iterations = program.solver_stats.num_iters or 0
    return Solution(rate.value, limits.dual_value, "Clarabel", iterations)


def certified(problem: Problem, utility: AlphaFair, rough: Solution) -> Solution:
    """The same with rates that keep to floors and capacities exactly, and with its gap."""
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
    """`Solution.mismatch`; a user who has no more than the floors may have a lower U'."""
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
    """The dual function: no rates are worth more, whatever the prices (Lagrange, (4))."""
    cheapest = of_each(np.minimum, problem.sums, problem.routes.T @ price)
    least = problem.sums @ problem.floor
    if utility.alpha == 0:  # a rate is worth the same everywhere: no path may be cheaper than that
        price = price * np.max(np.maximum(problem.weight / cheapest, 1))
        total = least
    else:
        total = np.maximum(utility.demand(cheapest / problem.weight), least)
    users = problem.weight * utility.value(total) - cheapest * (total - least)
    return float(np.sum(users) + price @ problem.room)
