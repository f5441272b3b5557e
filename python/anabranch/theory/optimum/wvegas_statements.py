"""wVegas' proposition 1 and corollary 1, searched for a counterexample.

Cao, Xu, Fu, "Delay-based Congestion Control for Multipath TCP", 2012, section II-A.
"""

from dataclasses import replace

import numpy as np
from scipy import sparse
from scipy.optimize import minimize

from anabranch.theory.array import Array
from anabranch.theory.optimum.interior_point import of_each
from anabranch.theory.optimum.maximise import solve
from anabranch.theory.optimum.problem import Problem
from anabranch.theory.optimum.utility import AlphaFair
from anabranch.theory.statement import FALSE, Statement, verdict

ALPHAS = (0.5, 1.0, 2.0, 3.0)

USED = 1e-4
"""A path is in use above this part of its user's rate."""


def best_rates(utility: AlphaFair, price: Array, start: Array) -> Array:
    """The rates that maximise (3), by a quasi-Newton search that knows nothing of (7) and (8)."""

    def loss(rate: Array) -> tuple[float, Array]:
        total = np.asarray(max(rate.sum(), 1e-9))
        value = float(utility.value(total) - price @ rate)
        return -value, price - utility.slope(total)

    bounds = [(0.0, None)] * len(price)
    options = {"ftol": 1e-15, "gtol": 1e-12, "maxiter": 5000}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(found.x)


def cheapest_paths_only(users: int = 150, seed: int = 1) -> Statement:
    """Proposition 1."""
    dice, slope, dear = np.random.default_rng(seed), 0.0, 0.0
    for _ in range(users):
        paths, utility = int(dice.integers(1, 7)), AlphaFair(float(dice.choice(ALPHAS)))
        price = dice.uniform(0.2, 2.0, paths)
        price[dice.random(paths) < 0.4] = price.min()
        rate = best_rates(utility, price, dice.uniform(0.1, 5.0, paths))
        total, cheapest = rate.sum(), price == price.min()
        slope = max(slope, float(abs(utility.slope(total) / price.min() - 1)))
        # A path dearer by a thousandth is cheap for a search that stops at rounding errors.
        dear = max(dear, float((rate[~cheapest & (price > 1.001 * price.min())] / total).sum()))
    free = [float(best_rates(AlphaFair(1.0), np.array([q, 1.0]), np.ones(2)).sum())
            for q in (1e-2, 1e-4, 1e-6)]  # fmt: skip
    return Statement(
        "II-A, proposition 1",
        "given prices, a flow's best rates have U'(sum x) = q_1 and use its cheapest paths only",
        verdict(slope < 1e-4 and dear < 1e-3),
        f"{users} random flows of 1 to 6 paths, alpha-fair utilities: U' differs by at most "
        f"{slope:.0e} from the lowest price, dearer paths get at most {dear:.0e} of the rate. It "
        'needs q_1 > 0, which "given lambda >= 0" does not say: at q_1 = 0 (3) has no maximum; '
        f"for U = log the best total is {', '.join(f'{total:.3g}' for total in free)} at q_1 = "
        "1e-2, 1e-4, 1e-6",
        {"flows": users, "slope_off": slope, "rate_of_dearer_paths": dear},
    )


def random_problem(dice: np.random.Generator) -> Problem:
    """Two to six links, two to six users with one to three paths of one to three links."""
    links = int(dice.integers(2, 7))
    sizes = dice.integers(1, 4, int(dice.integers(2, 7)))
    routes = np.zeros((links, int(sizes.sum())))
    for path in range(routes.shape[1]):
        crossed = int(dice.integers(1, min(3, links) + 1))
        routes[dice.choice(links, crossed, replace=False), path] = 1.0
    return Problem(
        capacity=10 ** dice.uniform(0, 2, links),
        routes=sparse.csr_array(routes),
        sums=sparse.csr_array(np.repeat(np.eye(len(sizes)), sizes, axis=1)),
        weight=np.ones(len(sizes)),
        floor=np.zeros(routes.shape[1]),
        links=[f"link {i}" for i in range(links)],
        users=[f"flow {i}" for i in range(len(sizes))],
    )


def spread(problem: Problem, rate: Array, price: Array) -> float:
    """The largest relative excess of the price of a path in use over its user's cheapest."""
    path_price = np.asarray(problem.routes.T @ price)
    user = np.asarray(problem.sums.T @ np.arange(len(problem.users))).astype(int)
    lowest = of_each(np.minimum, problem.sums, path_price)[user]
    used = rate > USED * (problem.sums @ rate)[user]
    return float(((path_price - lowest) / np.maximum(lowest, 1e-12))[used].max())


def congestion_equality(nets: int = 80, seed: int = 1) -> Statement:
    """Corollary 1: equal prices at the optimum, and whether equal prices make one."""
    dice, utility, widest = np.random.default_rng(seed), AlphaFair(1.0), 0.0
    equal, wasted, missing = 0.0, 0.0, []
    for _ in range(nets):
        problem = random_problem(dice)
        best = solve(problem, utility)
        widest = max(widest, spread(problem, best.rate, best.price))
        # Users with other weights equalise their prices just as well.
        weighted = replace(problem, weight=np.exp(dice.uniform(-1.5, 1.5, len(problem.users))))
        other = solve(weighted, utility)
        equal = max(equal, spread(problem, other.rate, other.price))
        full = (problem.routes @ other.rate) / problem.capacity
        idle = np.where(other.price > 1e-6 * other.price.max(), 1 - full, 0.0)
        wasted = max(wasted, float(idle.max()))
        gap = np.log(problem.sums @ best.rate) - np.log(problem.sums @ other.rate)
        missing.append(float(gap.mean()))
    by_hand = two_users_of_one_link()
    return Statement(
        "II-A, corollary 1",
        "if every flow equalises the congestion of its paths, resources are shared fairly and "
        "efficiently",
        FALSE if max(missing) > 1e-3 and equal < 1e-2 else verdict(widest < 1e-2),
        f"equal congestion is necessary: at the optima of {nets} random networks prices of paths "
        f"in use differ by at most {widest:.0e}. It gives efficiency: with random weights of the "
        f"users prices are as equal ({equal:.0e}), and links with a price are full to "
        f"{wasted:.0e}. It does not give fairness: those equilibria miss {np.median(missing):.3f} "
        f"(median) to {max(missing):.3f} of utility per user. By hand: two users of one path on "
        f"one link have nothing to equalise at any split, so 9:1, which misses {by_hand:.3f} per "
        "user, is equal too. Fairness needs U'(y) = q, the same U for all, as in (11)",
        {"networks": nets, "spread_at_optimum": widest, "spread_with_weights": equal,
         "largest_missing": max(missing)},
    )  # fmt: skip


def two_users_of_one_link() -> float:
    """The mean of log(best / rate) of two users of one path each on a link, split 9 to 1."""
    problem = Problem(
        capacity=np.array([10.0]),
        routes=sparse.csr_array(np.ones((1, 2))),
        sums=sparse.csr_array(np.eye(2)),
        weight=np.ones(2),
        floor=np.zeros(2),
        links=["link"],
        users=["one", "other"],
    )
    best = solve(problem, AlphaFair(1.0))
    return float(np.log(best.rate / np.array([9.0, 1.0])).mean())


def statements(quick: bool = False) -> list[Statement]:
    """The paper's two; `quick` with fewer flows and networks."""
    if quick:
        return [cheapest_paths_only(users=30), congestion_equality(nets=15)]
    return [cheapest_paths_only(), congestion_equality()]
