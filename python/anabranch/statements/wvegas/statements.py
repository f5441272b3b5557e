"""Statements of wVegas' paper on its optimum and iterations: a search for a counterexample.

Cao, Xu, Fu, "Delay-based Congestion Control for Multipath TCP", 2012, sections II, III and V-A.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.optimize import minimize

from anabranch.statements.quotes import quoted
from anabranch.statements.statement import CONDITION, Statement, ours, verdict
from anabranch.statements.wvegas import iterations as wvegas
from anabranch.theory.array import Array
from anabranch.theory.optimum.maximise import AlphaFair, Problem, of_each, solve

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


def cheapest_paths_only(users: int = 150) -> Statement:
    """Proposition 1."""
    dice, slope, dear = np.random.default_rng(1), 0.0, 0.0
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


def marginal_gap(problem: Problem, rate: Array, price: Array) -> float:
    """The largest relative difference of U'(y) for U = log and a flow's cheapest path: (7)."""
    cheapest = of_each(np.minimum, problem.sums, np.asarray(problem.routes.T @ price))
    slope = AlphaFair(1.0).slope(problem.sums @ rate)
    return float(np.abs(slope / np.maximum(cheapest, 1e-12) - 1).max())


def most_elsewhere(
    problem: Problem, rate: Array, dice: np.random.Generator, points: int = 50
) -> float:
    """The most that utility per user gains by moving to random feasible rates, some far away."""
    gains, here = [], np.log(problem.sums @ rate)
    for _ in range(points):
        there = rate * np.exp(dice.normal(0, dice.uniform(0.01, 1.0), len(rate)))
        there = there + dice.uniform(0, 0.1) * rate.mean()
        there = there / (problem.routes @ there / problem.capacity).max()
        gains.append(float((np.log(problem.sums @ there) - here).mean()))
    return max(gains)


def congestion_equality(nets: int = 80) -> Statement:
    """Corollary 1: with (7), equal prices are the conditions of Karush, Kuhn and Tucker for (1)."""
    dice, utility = np.random.default_rng(1), AlphaFair(1.0)
    unequal, apart, gain, points = 0.0, 0.0, -np.inf, 50
    for _ in range(nets):
        problem = random_problem(dice)
        best = solve(problem, utility)
        unequal = max(unequal, spread(problem, best.rate, best.price))
        apart = max(apart, marginal_gap(problem, best.rate, best.price))
        gain = max(gain, most_elsewhere(problem, best.rate, dice, points))
    return Statement(
        "II-A, corollary 1",
        "in the model (1), where U_s and with it (7) are given, flows that equalise the congestion "
        "of their paths share resources fairly and efficiently",
        verdict(unequal < 1e-6 and apart < 1e-6 and gain < 1e-9),
        "equal prices of the paths in use, U'(y) = q_1 of (7) and full links wherever there is a "
        "price are the conditions of Karush, Kuhn and Tucker, which suffice because U_s is "
        f"concave. In {nets} random networks with U = log they hold at the optimum to "
        f"{max(unequal, apart):.0e}, and none of {nets * points} random feasible rates has more "
        "utility",
        {"networks": nets, "spread": unequal, "off_by_7": apart, "gain_elsewhere": gain},
    )


def equality_alone(nets: int = 40) -> Statement:
    """Whether equal prices decide how flows share without (7)."""
    dice, utility, unequal, apart = np.random.default_rng(1), AlphaFair(1.0), 0.0, []
    for _ in range(nets):
        problem = random_problem(dice)
        best = solve(problem, utility)
        weighted = replace(problem, weight=np.exp(dice.uniform(-1.5, 1.5, len(problem.users))))
        other = solve(weighted, utility)
        unequal = max(unequal, spread(problem, other.rate, other.price))
        gap = np.log(problem.sums @ best.rate) - np.log(problem.sums @ other.rate)
        apart.append(float(gap.mean()))
    by_hand = two_users_of_one_link()
    return Statement(
        "II-A, equal congestion without (7)",
        'the words "equalise the congestion" alone do not imply a fair split: (7) is needed',
        ours(unequal < 1e-6 and max(apart) > 1e-3),
        "two users of one path each on one link have nothing to equalise at any split, 9:1 "
        f"included, which has {by_hand:.3f} less log utility per user than 5:5. In {nets} random "
        f"networks flows with weights, U_s = w_s log y, equalise their prices as well (to "
        f"{unequal:.0e}); that is the optimum of their own (1), and {np.median(apart):.3f} "
        f"(median) to {max(apart):.3f} of log utility per user away from that of equal weights",
        {"networks": nets, "spread_with_weights": unequal, "largest_apart": max(apart)},
    )


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


def convergence(folder: Path, starts: int = 5, steps: int = 400) -> list[Statement]:
    """Statements on the iterations, on the paper's two networks, from random weights."""
    found = [wvegas.convergence(folder, steps, seed) for seed in range(1, starts + 1)]
    both = [one for networks in found for one in networks]
    first, direct = (
        [float(one.iterations[i].error(one.optimum)[-1]) for one in both] for i in (1, 2)
    )
    kept = max(_sum_of_alpha(one.iterations[1], one) for one in both)
    return [
        Statement(
            "II-B and III-A, convergence",
            "(11) with (12), and algorithm 1 made of them, end at the optimum",
            verdict(max(*direct, *first) < 0.05),
            f"on the networks of figures 2(a) and 1(b) the last rates are within "
            f"{max(direct):.1g} Mbps of the optimum with (11) and (12), {max(first):.1g} Mbps with "
            f'algorithm 1. The steps are ours: the paper says "sufficiently small", and with '
            f"{3 * wvegas.GAMMA:g} instead of {wvegas.GAMMA:g} algorithm 1 does not converge",
            {"off_mbps": max(*direct, *first)},
        ),
        Statement(
            "III-B, the sum of alpha",
            "a flow's alphas add up to alpha_s",
            verdict(kept < 1e-9),
            f"at every step of algorithm 1 in which all paths of a flow have a price, the backlogs "
            f"x_r q_r = alpha_r add up to 1 within {kept:.0e}. Algorithm 3 has a lower bound of 2 "
            "packets for each path besides (erratum e04)",
            {"off": kept},
        ),
    ]


NEAR_MBPS = 0.05
"""Quite close to the optimal rates of 1.2 to 9 Mbps."""


def algorithm_2_in_20_steps(folder: Path, starts: int = 8, seed: int = 1) -> Statement:
    """Section V-A, figures 3(a) and 4: rates and prices of algorithm 2."""
    dice, rates, prices, hops = np.random.default_rng(seed), [], [], []
    for file, first in (("scenario_fig2a.toml", [wvegas.FEW]), ("scenario_fig1b.toml", [])):
        _, problem = wvegas.of_file(folder / file)
        best = solve(problem, AlphaFair(1.0)).rate
        for sizes in [*first, *dice.uniform(size=(starts, len(best)))]:
            run = wvegas.algorithm_2(problem, wvegas.weights(problem, sizes), 100)
            rates.append(float(run.error(best)[min(20, run.steps)]))
            if first:
                top, bottom = (run.price @ problem.routes.toarray())[:, 1:3].T
                prices.append(np.abs(top / bottom - 1)[[0, min(20, run.steps)]])
            else:
                hops.append(run.rate[-1][[0, 2, 4]].min())
    apart = np.array(prices)
    return Statement(
        "V-A, algorithm 2",
        "rates are close to the optimum after about 20 steps, and the prices of flow 2's paths "
        "tend to be equal",
        verdict(max(rates) < NEAR_MBPS and apart[:, 1].max() < 0.01),
        f"figure 2(a) from the printed and {starts} random first weights, figure 1(b) from "
        f"{starts} random ones: after 20 steps all rates are within {max(rates):.1g} Mbps, and the "
        f"prices of flow 2's paths, {apart[0, 0]:.0%} apart at the printed first weights and up to "
        f"{apart[:, 0].max():.0%} at the others, differ by {apart[:, 1].max():.1g} of it at most. "
        f"One-hop paths end with at least {min(hops):.4f} Mbps",
        {"off_at_20_mbps": max(rates), "prices_apart": float(apart[:, 1].max()),
         "least_mbps": float(min(hops))},
    )  # fmt: skip


def first_weights(folder: Path, starts: int = 10, seed: int = 1) -> Statement:
    """Section V-A, first weights over six decades."""
    dice, settled = np.random.default_rng(seed), []
    for file in ("scenario_fig2a.toml", "scenario_fig1b.toml"):
        _, problem = wvegas.of_file(folder / file)
        best = solve(problem, AlphaFair(1.0)).rate
        for sizes in 10 ** dice.uniform(-6, 0, (starts, len(best))):
            run = wvegas.algorithm_2(problem, wvegas.weights(problem, sizes), 400)
            settled.append(run.settled(best, NEAR_MBPS) if run.error(best)[-1] < NEAR_MBPS else 401)
    return Statement(
        "V-A, first weights",
        "initial weights are insignificant for convergence",
        verdict(max(settled) <= 400),
        f"algorithm 2 ends at the optimum on both networks from {2 * starts} weights between 1e-6 "
        f"and 1. They matter for its length: {min(settled)} to {max(settled)} steps until all "
        f"rates stay within {NEAR_MBPS:g} Mbps, in {np.mean(np.array(settled) > 20):.0%} "
        f"more than 20",
        {"starts": 2 * starts, "most_steps": max(settled), "least_steps": min(settled)},
    )


def ring(flows: int = 5) -> Problem:
    """Figure 2(c) with equal links: flow i has a path over link i and one over link i + 1."""
    routes = np.zeros((flows, 2 * flows))
    for flow in range(flows):
        routes[flow, 2 * flow] = routes[(flow + 1) % flows, 2 * flow + 1] = 1.0
    return Problem(
        capacity=np.full(flows, 10.0),
        routes=sparse.csr_array(routes),
        sums=sparse.csr_array(np.repeat(np.eye(flows), 2, axis=1)),
        weight=np.ones(flows),
        floor=np.zeros(2 * flows),
        links=[f"L{i + 1}" for i in range(flows)],
        users=[f"flow{i + 1}" for i in range(flows)],
    )


def position_of_the_equilibrium(starts: int = 10, steps: int = 4000, seed: int = 1) -> Statement:
    """Section III-A, algorithm 1 where several rates are optimal."""
    problem, dice = ring(), np.random.default_rng(seed)
    first = dice.uniform(0.1, 10, (starts, 10))
    priced, free = (
        np.array([wvegas.algorithm_1(problem, steps, RING_STEP, (rate, price)).rate[-1]
                  for rate in first])
        for price in (1 / problem.capacity, 0 * problem.capacity)
    )  # fmt: skip
    off, lost = (np.abs(ends @ problem.sums.T - 10).max(axis=1) for ends in (priced, free))
    apart = float(np.ptp(priced[:, 0]))
    return Statement(
        "III-A, first weights",
        "initial weights do not matter much to convergence, but to the position of an equilibrium "
        "that is not unique",
        verdict(float(off.max()) < NEAR_MBPS and apart > 1),
        "on a ring of five links of 10 Mbps, where every x with 10 - x beside it is optimal, "
        f"algorithm 1 gives each flow 10 Mbps from {starts} random first rates, to "
        f"{off.max():.0e}, with {priced[:, 0].min():.1f} to {priced[:, 0].max():.1f} of it on flow "
        f"1's first path (gamma {RING_STEP:g}). First prices matter: from 0 rates overshoot, paths "
        f"whose weight falls to 0 stay closed, and {int((lost > NEAR_MBPS).sum())} of the {starts} "
        "end elsewhere",
        {"starts": starts, "off_mbps": float(off.max()), "apart_mbps": apart},
    )


RING_STEP = 1e-3
"""gamma of (12) on the ring."""


def fair_at_any_share(problem: Problem) -> Statement:
    """Section I, figure 1(b): x on one-hop paths, which come first, (9 - x)/2 on the others."""
    x = np.linspace(0, 9, 91)
    rate = np.tile(np.stack([x, (9 - x) / 2], axis=1), len(problem.users))
    totals = rate @ problem.sums.T.toarray()
    spare = problem.capacity - rate @ problem.routes.T.toarray()
    unequal, over = float(np.ptp(totals, axis=1).max()), float(-spare.min())
    rises = bool((np.diff(totals[:, 0]) > 0).all())
    return Statement(
        "I, figure 1(b)",
        "with x on each one-hop path and (9 - x)/2 on each two-hop path sharing is always fair, "
        "and most efficient at x = 9",
        verdict(unequal < 1e-9 and over < 1e-9 and rises),
        f"at {len(x)} x from 0 to 9 every link is full, to {np.abs(spare).max():.0e} Mbps, and "
        f"each flow has (9 + x)/2: from {totals[0, 0]:g} to {totals[-1, 0]:g} Mbps",
        {"unequal_mbps": unequal, "over_mbps": over, "most_mbps": float(totals[:, 0].max())},
    )


def cycle_of_6(folder: Path, steps: int = 20_000) -> list[Statement]:
    """Section II-A, (6) with the solutions of (3), on figure 2(a)."""
    _, problem = wvegas.of_file(folder / "scenario_fig2a.toml")
    best = solve(problem, AlphaFair(1.0))
    run = wvegas.best_responses(problem, steps, STEP_OF_6)
    late = slice(steps // 2, None)
    price = float(np.abs(run.price[late] / best.price - 1).max())
    single = [0, 3, 4]
    one_path = float(np.abs(run.rate[late][:, single] - best.rate[single]).max())
    rate = float(np.abs(run.rate[late] - best.rate).max())
    mean = float(np.abs(run.rate[late].mean(axis=0) - best.rate).max())
    used = (run.rate[:, 1:3] > 0).sum(axis=1)
    flips = int((np.diff((run.rate[late][:, 1] > 0).astype(int)) != 0).sum())
    return [
        Statement(
            "II-A, (6)",
            "(6) with the optimal solutions of (3) converges to the optimal prices, and so to the "
            "optimal rates",
            CONDITION if price < 0.01 and rate > 1 and mean < NEAR_MBPS else verdict(rate < 0.05),
            f"on figure 2(a), gamma {STEP_OF_6:g}: prices stay within {price:.1g} of the optimal "
            f"ones, and rates of flows with one path within {one_path:.1g} Mbps; those of flow 2 "
            f"are up to {rate:.3g} Mbps away, because all of its rate is on one path and flips "
            f"{flips} times in the last {steps // 2} steps. Their averages are within "
            f"{mean:.1g} Mbps",
            {"price_off": price, "rate_off_mbps": rate, "mean_off_mbps": mean},
            needs="one path per flow, or averages of the rates: the solution of (3) is not unique "
            "at equal prices, and jumps there",
        ),
        Statement(
            "II-A, turning off",
            "at each step every flow turns off all its paths except for the least congested ones",
            verdict(bool((used == 1).all()) and flips > 0),
            f"flow 2 sends over one of its two paths in every of {steps} steps, over the first in "
            f"{np.mean(run.rate[late][:, 1] > 0):.0%} of the later ones",
            {"steps": steps, "flips": flips},
        ),
    ]


STEP_OF_6 = 1e-4
"""gamma of (6): "sufficiently small"."""


def _sum_of_alpha(iteration: wvegas.Iteration, one: wvegas.Convergence) -> float:
    """The largest |sum of x_r q_r - 1| of a flow all of whose paths have prices, over the steps.

    A flow is named by its label up to the dash.
    """
    flows = np.unique([label.split("-")[0] for label in one.labels], return_inverse=True)[1]
    off = 0.0
    for rate, price in zip(iteration.rate[1:], iteration.price[1:], strict=True):
        q = np.asarray(one.routes.T @ price)
        priced = np.bincount(flows, q > 0) == np.bincount(flows)
        off = max(off, float(np.abs(np.bincount(flows, rate * q) - 1)[priced].max(initial=0.0)))
    return off


def statements(folder: Path, quick: bool = False) -> list[Statement]:
    """The paper's, in its order; `quick` with fewer flows, networks and starts.

    `folder` is the paper's, which has the two networks.
    """
    most = {"starts": 3} if quick else {}
    nets = 15 if quick else 80
    iterated = convergence(folder, starts=2 if quick else 5)
    return quoted("wvegas", [
        fair_at_any_share(wvegas.of_file(folder / "scenario_fig1b.toml")[1]),
        *cycle_of_6(folder),
        cheapest_paths_only(30 if quick else 150),
        congestion_equality(nets),
        equality_alone(min(nets, 40)),
        iterated[0],
        position_of_the_equilibrium(**most),
        iterated[1],
        algorithm_2_in_20_steps(folder, **most),
        first_weights(folder, **most),
    ])  # fmt: skip
