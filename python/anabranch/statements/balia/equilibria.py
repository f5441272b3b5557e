"""Balia's theorems 3.1 to 3.4, searched for a counterexample on random users and networks."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from anabranch.statements.balia import networks, orders
from anabranch.statements.balia.networks import Net, Point
from anabranch.statements.statement import CONDITION, Statement, verdict
from anabranch.theory.array import Array
from anabranch.theory.guarantees import performance, random_states
from anabranch.theory.guarantees.conditions import numbers
from anabranch.theory.guarantees.jacobian import asymmetry, phi_jacobian
from anabranch.theory.law import Law, States

SYMMETRIC = ("reno", "ewtcp", "coupled")
"""Rules that satisfy C0 at equal RTTs."""

UNIQUE = ("reno", "ewtcp", "semicoupled", "lia", "generalized")
"""Rules that satisfy C1 to C3 at equal RTTs (table I; `reno` is NewReno on each path)."""

OWN_GAIN = ("reno", "ewtcp", "semicoupled", "lia")
"""Rules whose gain k_r depends on x_r alone, as theorem 3.3 requires."""

NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)


def line_integral(law: Law, first: States, last: States) -> Array:
    """Integral of Phi of each user from the rates of `first` to those of `last`."""
    step = random_states.by_user(first, last.rate - first.rate)
    total = np.zeros(len(step))
    for node, weight in zip(NODES, WEIGHTS, strict=True):
        rate = first.rate + (1 + node) / 2 * (last.rate - first.rate)
        phi = random_states.by_user(first, law.phi(first.with_rate(rate)))
        total += weight / 2 * (phi * step).sum(axis=1)
    return total


def circulation(law: Law, drawn: States) -> Array:
    """Circulation of each user: the integral of Phi around a rectangle of the first two rates, from
    each to its double, over the sum of its four sides' sizes. 0 if Phi is the gradient of a
    utility.
    """
    rate = random_states.by_user(drawn, drawn.rate)
    corners = []
    for first, second in ((1, 1), (2, 1), (2, 2), (1, 2), (1, 1)):
        moved = rate.copy()
        moved[:, 0] *= first
        moved[:, 1] *= second
        corners.append(drawn.with_rate(moved.ravel()))
    sides = np.array([line_integral(law, a, b) for a, b in pairwise(corners)])
    return np.asarray(sides.sum(axis=0) / np.abs(sides).sum(axis=0))


def utility_maximisation(users: int = 500, nets: int = 40, seed: int = 1) -> Statement:
    """Theorem 3.1."""
    tried, exceptions = 0, []
    for name in [*UNIQUE, "coupled", "balia", "balia:cap=inf"]:
        law = Law(name)
        for paths in (2, 3, 5):
            drawn = random_states.draw(paths, users, 1.0, np.random.default_rng([seed, paths]))
            loops = np.abs(circulation(law, drawn)).max() < 1e-9
            symmetric = asymmetry(phi_jacobian(law, drawn)).max() < 1e-9
            tried += users
            if loops != symmetric:
                exceptions.append(name)
    better, points = 0, 0
    for name in SYMMETRIC:
        found = [_gains_elsewhere(Law(name), np.random.default_rng([seed, i])) for i in range(nets)]
        better += sum(bool(gain > 1e-6) for gains in found for gain in gains)
        points += sum(map(len, found))
    own, moved = rising_marginal(3.0), 0.5
    gain = sum(_rising_utility(3.0 + d) - _rising_utility(3.0) for d in (-moved, moved))
    return Statement(
        "III-B, theorem 3.1",
        "a concave utility whose maximum is an equilibrium exists if and only if C0 holds",
        CONDITION if not exceptions and not better and gain > 0 else verdict(False),
        "C0 gives a utility, but not a concave one, for which the Jacobian must also be negative "
        f"semidefinite: one path with phi = 1/x - 3.3/x^2 + 3/x^3, which is positive and rises at "
        f"x = 3. Two such users on a link of 6 are stationary at (3, 3) with the price {own:.4g}, "
        f"but (2.5, 3.5) has {gain:.4g} more utility. For the rules of the table it holds: Phi has "
        f"no circulation exactly where the Jacobian is symmetric, at {tried} users; and none of "
        f"{points} random feasible rates in {len(SYMMETRIC) * nets} networks of "
        f"{', '.join(SYMMETRIC)} has more utility than the equilibrium",
        {"users": tried, "exceptions": len(exceptions), "rates": points, "better": better},
        needs="C0 and a negative semidefinite Jacobian; the printed proof shows that Phi is a "
        "gradient, and not that its utility is concave",
    )


def rising_marginal(rate: float) -> float:
    """A phi of one path that is positive, has C0, and rises between 1.93 and 4.67."""
    return 1 / rate - 3.3 / rate**2 + 3 / rate**3


def _rising_utility(rate: float) -> float:
    """Integral of the rising marginal utility."""
    return float(np.log(rate) + 3.3 / rate - 1.5 / rate**2)


def _gains_elsewhere(law: Law, dice: np.random.Generator, points: int = 20) -> list[float]:
    """The relative gain in utility by moving from an equilibrium to other feasible rates."""
    net = networks.draw(dice)
    at = _first_equilibrium(net, law, dice)
    if at is None:
        return []
    here, gains = net.states(at.rate), []
    users = np.arange(len(net.starts) - 1).repeat(np.diff(net.starts))
    for _ in range(points):
        rate = at.rate * np.exp(dice.normal(0, 0.5, len(at.rate)))
        rate = rate / (net.routes @ rate / net.capacity).max()
        # The sum over users is that over paths, so that users of unequal sizes need no table.
        total, step = 0.0, rate - at.rate
        for node, weight in zip(NODES, WEIGHTS, strict=True):
            phi = law.phi(here.with_rate(at.rate + (1 + node) / 2 * step))
            total += weight / 2 * float(phi @ step)
        size = float(np.bincount(users, law.phi(here) * at.rate).sum())
        gains.append(total / size)
    return gains


def _first_equilibrium(
    net: Net, law: Law, dice: np.random.Generator, starts: int = 10
) -> Point | None:
    for _ in range(starts):
        if (found := networks.equilibrium(net, law, dice)) is not None:
            return found
    return None


def spread_of_equilibria(law: Law, nets: int, starts: int, seed: int) -> tuple[int, float, int]:
    """Networks with at least one equilibrium, the largest distance of two of one network, and how
    many networks have two that differ."""
    having, worst, several = 0, 0.0, 0
    for i in range(nets):
        dice = np.random.default_rng([seed, i])
        net = networks.draw(dice)
        found = [networks.equilibrium(net, law, dice) for _ in range(starts)]
        points = [point for point in found if point is not None]
        apart = [networks.distance(net, law, points[0], other) for other in points[1:]]
        having += bool(points)
        several += max(apart, default=0.0) > networks.NEAR
        worst = max([worst, *apart])
    return having, worst, several


def existence_and_uniqueness(nets: int = 30, starts: int = 4, seed: int = 1) -> Statement:
    """Theorem 3.2."""
    found = {name: spread_of_equilibria(Law(name), nets, starts, seed) for name in UNIQUE}
    without = spread_of_equilibria(Law("balia:cap=inf"), nets // 3, starts, seed)
    having = sum(one[0] for one in found.values())
    worst = max(one[1] for one in found.values())
    several = sum(one[2] for one in found.values())
    total = nets * len(UNIQUE)
    return Statement(
        "III-C, theorem 3.2",
        "C1 implies an equilibrium, C2 and C3 that there is at most one",
        verdict(having == total and several == 0),
        f"{having} of {total} random networks of {', '.join(UNIQUE)} have one, found from {starts} "
        f"random starts each; the largest distance of two in one network is {worst:.1g}. Without "
        f"C2 the search does find several: balia:cap=inf in {without[2]} of {without[0]} networks",
        {"networks": total, "with_one": having, "with_several": several, "largest": worst},
    )


def stability(nets: int = 12, points: int = 200, seed: int = 1) -> Statement:
    """Theorem 3.3: trajectories, and the Lyapunov function's derivative."""
    arrived, rates, started = {}, [], 0
    for name in (*OWN_GAIN, "generalized"):
        law, there = Law(name), 0
        for i in range(nets):
            dice = np.random.default_rng([seed, i])
            net = networks.draw(dice)
            at = _first_equilibrium(net, law, dice)
            if at is None:
                continue
            speed = 10 ** dice.uniform(-1, 0)
            end = networks.trajectory_end(
                net, law, networks.random_point(net, law, dice), at, speed
            )
            there += networks.distance(net, law, end, at) < 1.01 * networks.NEAR
            if name in OWN_GAIN:
                others = (networks.random_point(net, law, dice) for _ in range(points))
                rates += [networks.lyapunov_rate(net, law, other, at) for other in others]
                started += 1
        arrived[name] = there
    stuck = _stays_at_zero()
    reached = sum(arrived[name] for name in OWN_GAIN)
    return Statement(
        "III-C, theorem 3.3",
        "with C1 to C3 and gains k_r(x_r) every trajectory tends to the equilibrium",
        verdict(reached == started and max(rates) <= 1e-9),
        f"{reached} of {started} trajectories of {', '.join(OWN_GAIN)} from random rates and "
        f"prices in random networks arrive; dV/dt is at most {max(rates):.1g} of its terms' sum at "
        f"{len(rates)} states. So do {arrived['generalized']} of {nets} of `generalized`, whose "
        "gain depends on all rates, for which the paper writes that it seems stable. "
        "Starts need rates above 0: " + stuck,
        {"trajectories": started, "arrived": reached, "states": len(rates), "largest": max(rates)},
    )


def _stays_at_zero() -> str:
    """How the drift of an idle path vanishes, for the rules whose gain is 0 at x_r = 0."""
    idle = States.of_user([10, 1e-9], [0.1, 0.1])
    drift = {}
    for name in OWN_GAIN:
        law = Law(name)
        drift[name] = float((performance.gain(law, idle) * (law.phi(idle) - 0.01))[1])
    still = [name for name, value in drift.items() if abs(value) < 1e-3]
    return (
        f"x_r = 0, which the theorem allows, is stationary for {' and '.join(still)}, because "
        "k_r phi_r tends to 0 with x_r; the paper's assumption k_r > 0 excludes these rules there"
    )


def slowest_mode(net: Net, law: Law, at: Point, gamma: float) -> float:
    """The largest real part of an eigenvalue of (10), over the largest size of one.

    Links without a price are left out, as in section III-E.
    """
    states = net.states(at.rate)
    jacobian = law.phi_derivatives(states, "window").toarray() * net.rtt
    active = net.routes[at.price > 1e-6 * net.price_scale(law)]
    system = performance.linearised(jacobian, performance.gain(law, states), active, gamma)
    eigenvalues = np.linalg.eigvals(system)
    return float(eigenvalues.real.max() / np.abs(eigenvalues).max())


def local_stability(nets: int = 40, seed: int = 1) -> Statement:
    """Section III-C for gains that depend on all rates, and theorem 3.5, part 1."""
    worst, tried = {}, 0
    for name in ("generalized", "generalized:eta=2", *UNIQUE):
        law, largest = Law(name), -np.inf
        for i in range(nets):
            dice = np.random.default_rng([seed, i])
            net = networks.draw(dice)
            at = _first_equilibrium(net, law, dice)
            if at is not None:
                tried += 1
                largest = max(largest, slowest_mode(net, law, at, 10 ** dice.uniform(-7, -3)))
        worst[name] = largest
    return Statement(
        "III-C, local stability",
        "with C1 to C3 the equilibrium is locally stable also if a gain depends on all rates",
        verdict(max(worst.values()) < 0),
        f"at the equilibria of {tried} random networks with random gamma every eigenvalue of (10) "
        "has a negative real part; the largest, over the largest size of an eigenvalue: "
        + ", ".join(f"{name} {value:.1g}" for name, value in worst.items())
        + ". The gain of `generalized` depends on all rates; the others are theorem 3.5, part 1",
        {"networks": tried, "largest": max(worst.values())},
    )


FAMILY: Sequence[str] = ("1", "2", "inf")
"""Norms of (12), each at least the next: phi falls in this order, and with beta."""

RTT_RATIO = 1.1
"""Within it (12) satisfies C2 and C4 for up to 8 paths; `similar_rtts` prints the limits."""


def friendliness(pairs: int = 60, seed: int = 1) -> Statement:
    """Theorem 3.4, on pairs of (12)."""
    dice, broken, least = np.random.default_rng(seed), 0, np.inf
    for _ in range(pairs):
        norms = np.sort(dice.integers(0, len(FAMILY), 2))
        betas = np.sort(dice.uniform(0.02, 1.0, 2))[::-1]
        rtts = 10 ** dice.uniform(-2, -0.5) * RTT_RATIO ** dice.random(int(dice.integers(2, 9)))
        reno_rtt = 10 ** dice.uniform(-2, -0.5)
        larger, smaller = (
            performance.share_of_bottleneck(
                f"generalized:beta={beta:.4f}:norm={FAMILY[norm]}", rtts.tolist(), reno_rtt
            )
            for beta, norm in zip(betas, norms, strict=True)
        )
        least = min(least, larger - smaller)
        broken += larger < smaller - 1e-4  # rates_at gives a total to a thousandth at worst
    steps = [*((f"generalized:beta=1:norm={a}", f"generalized:beta=1:norm={b}")
               for a, b in pairwise(FAMILY)),
             ("generalized:beta=0.6", "generalized:beta=0.2")]  # fmt: skip
    ordered = [orders.compare(orders.phi_at_least(*pair), pair[0], RTT_RATIO) for pair in steps]
    premise = all(example is None for _, example in ordered)
    unequal = [performance.share_of_bottleneck(n, [0.02, 0.1]) for n in ("semicoupled", "lia")]
    return Statement(
        "III-D, theorem 3.4",
        "of two rules with C1 to C4 the one with the smaller Phi is friendlier",
        verdict(premise and not broken),
        f"{pairs} pairs of (12) with 2 to 8 paths whose RTTs differ by up to 10 %, in figure 1's "
        f"network: the one with the larger Phi never has less (smallest difference "
        f"{least:.0e} of the link, where both have the same). The "
        f"printed proof mixes both Phi and needs C4 of the mixture, which C4 of both does not "
        f"give; but C1 and C4 of the rule with the larger Phi suffice: the other's rates are its "
        f"own at prices Phi(x) >= p, and C4 gives it more at p. Where Phi is not ordered nor are "
        f"the shares: semicoupled and lia have {numbers(np.array(unequal))} with RTTs of 20 and "
        f"100 ms",
        {"pairs": pairs, "broken": broken, "least_difference": float(least)},
    )
