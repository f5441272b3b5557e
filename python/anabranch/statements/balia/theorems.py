"""Balia's theorems 3.1 to 3.4 and its lemmas, searched for a counterexample on random networks."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares

from anabranch.statements.balia import conditions_of_rules
from anabranch.statements.statement import CONDITION, Statement, verdict
from anabranch.theory.array import Array
from anabranch.theory.guarantees import performance, random_states
from anabranch.theory.guarantees.check import PATHS
from anabranch.theory.guarantees.conditions import asymmetry, numbers, phi_jacobian
from anabranch.theory.guarantees.performance import gain
from anabranch.theory.law import Law, States

# Random networks of users of one rule, their equilibria (6), (7) and trajectories (3), (4).
#
# Peng, Walid, Hwang, Low, section II-A. Rates are packets/s, prices loss probabilities.


RESIDUAL = 1e-8
"""Largest residual of (6) and (7), relative, of a point that counts as an equilibrium."""

NEAR = 1e-3
"""Distance from the equilibrium at which a trajectory has arrived."""

SOFT = 1e-4
"""Softening of a price, as a share of its scale: far less than `NEAR`."""

RESPONSES = 2000.0
"""The longest trajectory, in response times."""


@dataclass(frozen=True, eq=False)
class Net:
    """Links, and users whose paths have one RTT per user."""

    routes: Array
    """H: links by paths, of full row rank."""
    capacity: Array
    """c, packets/s."""
    starts: Array
    """The paths of user s are those from `starts[s]` to `starts[s + 1]`."""
    rtt: Array
    """Round-trip time of each path, s."""

    def states(self, rate: Array) -> States:
        """The users with these rates."""
        idle = np.zeros_like(self.rtt)
        interval = np.full_like(self.rtt, 100.0)
        return States(self.starts, rate * self.rtt, self.rtt, self.rtt, idle, interval)

    def phi(self, law: Law, rate: Array) -> Array:
        """Phi(x)."""
        return law.phi(self.states(rate))

    def price_scale(self, law: Law) -> Array:
        """Scale of each link's price: phi of a single path that has all its capacity at the
        shortest RTT."""
        rtt = np.full_like(self.capacity, self.rtt.min())
        each = np.arange(len(self.capacity) + 1, dtype=np.int64)
        alone = States(each, self.capacity * rtt, rtt, rtt, 0 * rtt, 0 * rtt + 100.0)
        return law.phi(alone)

    @property
    def share(self) -> Array:
        """Even share of its narrowest link, of each path, packets/s."""
        even = self.capacity / self.routes.sum(axis=1)
        return np.asarray(np.where(self.routes > 0, even[:, None], np.inf).min(axis=0))


def draw(dice: np.random.Generator) -> Net:
    """One to four links, one to four users with one to three paths of one or two links each."""
    while True:
        links = int(dice.integers(1, 5))
        sizes = dice.integers(1, 4, int(dice.integers(1, 5)))
        paths = int(sizes.sum())
        routes = np.zeros((links, paths))
        for path in range(paths):
            crossed = dice.choice(links, int(dice.integers(1, min(2, links) + 1)), replace=False)
            routes[crossed, path] = 1.0
        if np.linalg.matrix_rank(routes) == links:
            break
    rtt = np.repeat(10 ** dice.uniform(-2, -0.5, len(sizes)), sizes)
    capacity = 10 ** dice.uniform(2, 4, links)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Net(routes, capacity, starts, rtt)


@dataclass(frozen=True, eq=False)
class Point:
    """Rates and prices."""

    rate: Array
    price: Array


def equilibrium(net: Net, law: Law, dice: np.random.Generator) -> Point | None:
    """A solution of (6) and (7) from a random start, stable or not; None if none was found.

    Each pair `a >= 0, b >= 0, a b = 0` is Fischer's equation `a + b = sqrt(a^2 + b^2)`, solved by
    least squares in the logarithms of the rates.
    """
    scale, paths = net.price_scale(law), len(net.rtt)

    def residual(unknown: Array) -> Array:
        rate, price = net.share * np.exp(unknown[:paths]), scale * unknown[paths:]
        phi = net.phi(law, rate)
        above = (net.routes.T @ price - phi) / phi
        room = 1 - net.routes @ rate / net.capacity
        pairs = _fischer(np.exp(unknown[:paths]), above), _fischer(unknown[paths:], room)
        return np.concatenate(pairs)

    start = np.concatenate([dice.normal(0, 1, paths), np.exp(dice.normal(0, 1, len(scale)))])
    found = least_squares(residual, start, xtol=1e-15, ftol=1e-15, gtol=1e-15, max_nfev=400)
    if np.abs(found.fun).max() > RESIDUAL:
        return None
    return Point(net.share * np.exp(found.x[:paths]), scale * np.maximum(found.x[paths:], 0.0))


def _fischer(a: Array, b: Array) -> Array:
    return np.asarray(a + b - np.hypot(a, b))


def distance(net: Net, law: Law, one: Point, other: Point) -> float:
    """The largest difference of a rate over its path's even share, or of a price over its scale."""
    rates = np.abs(one.rate - other.rate) / net.share
    prices = np.abs(one.price - other.price) / net.price_scale(law)
    return float(max(rates.max(), prices.max()))


def lyapunov_rate(net: Net, law: Law, here: Point, at: Point) -> float:
    """dV/dt of (21) at `here`, for the equilibrium `at`; 1/s, relative to its terms' size."""
    drift = net.phi(law, here.rate) - net.routes.T @ here.price
    excess = net.routes @ here.rate - net.capacity
    excess = np.where(here.price > 0, excess, np.maximum(excess, 0.0))
    terms = np.concatenate([(here.rate - at.rate) * drift, (here.price - at.price) * excess])
    return float(terms.sum() / np.abs(terms).sum())


def trajectory_end(net: Net, law: Law, start: Point, at: Point, speed: float) -> Point:
    """Where (3) and (4) lead from there: within `NEAR` of `at`, or after `RESPONSES` times.

    Time is in units of the window of the largest path times its RTT, in which a rate responds.
    `speed`: by how much of its scale a link's price rises in one, if its load is twice its
    capacity; gamma_l of (4) follows.
    """
    scale, paths = net.price_scale(law), len(net.rtt)
    response = float((at.rate * net.rtt**2).max())

    def point(unknown: Array) -> Point:
        price = scale * np.maximum(unknown[paths:], 0.0)
        log_rate = np.clip(unknown[:paths], -100.0, 100.0)  # a step that is too long is rejected
        return Point(net.share * np.exp(log_rate), price)

    def change(_: float, unknown: Array) -> Array:
        here = point(unknown)
        states = net.states(here.rate)
        drift = gain(law, states) * (law.phi(states) - net.routes.T @ here.price) / here.rate
        excess = net.routes @ here.rate / net.capacity - 1
        # Below 0, where the price is 0, the unknown stops within `SOFT`: no jump for the solver.
        rising = np.maximum(excess, -1 - unknown[paths:] / SOFT)
        return np.concatenate([response * drift, speed * rising])

    def arrived(_: float, unknown: Array) -> float:
        return distance(net, law, point(unknown), at) - NEAR

    arrived.terminal = True  # type: ignore[attr-defined]
    first = np.concatenate([np.log(start.rate / net.share), start.price / scale])
    solved = solve_ivp(
        change, (0.0, RESPONSES), first, method="LSODA", rtol=1e-6, atol=1e-8, events=arrived
    )
    return point(solved.y[:, -1])


def random_point(net: Net, law: Law, dice: np.random.Generator) -> Point:
    """Rates up to a hundred times the even share or less, prices likewise; some prices are 0."""
    spread = np.log(100.0)
    rate = net.share * np.exp(dice.uniform(-spread, spread, len(net.rtt)))
    price = net.price_scale(law) * np.exp(dice.uniform(-spread, spread, len(net.capacity)))
    return Point(rate, np.where(dice.random(len(price)) < 0.2, 0.0, price))


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


def _gains_elsewhere(law: Law, dice: np.random.Generator) -> list[float]:
    """The relative gain in utility by moving from an equilibrium to other feasible rates."""
    net = draw(dice)
    at = _first_equilibrium(net, law, dice)
    if at is None:
        return []
    here, gains = net.states(at.rate), []
    users = np.arange(len(net.starts) - 1).repeat(np.diff(net.starts))
    for _ in range(20):
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


def _first_equilibrium(net: Net, law: Law, dice: np.random.Generator) -> Point | None:
    for _ in range(10):
        if (found := equilibrium(net, law, dice)) is not None:
            return found
    return None


def spread_of_equilibria(law: Law, nets: int, starts: int, seed: int) -> tuple[int, float, int]:
    """Networks with at least one equilibrium, the largest distance of two of one network, and how
    many networks have two that differ."""
    having, worst, several = 0, 0.0, 0
    for i in range(nets):
        dice = np.random.default_rng([seed, i])
        net = draw(dice)
        found = [equilibrium(net, law, dice) for _ in range(starts)]
        points = [point for point in found if point is not None]
        apart = [distance(net, law, points[0], other) for other in points[1:]]
        having += bool(points)
        several += max(apart, default=0.0) > NEAR
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
            net = draw(dice)
            at = _first_equilibrium(net, law, dice)
            if at is None:
                continue
            speed = 10 ** dice.uniform(-1, 0)
            end = trajectory_end(net, law, random_point(net, law, dice), at, speed)
            there += distance(net, law, end, at) < 1.01 * NEAR
            if name in OWN_GAIN:
                others = (random_point(net, law, dice) for _ in range(points))
                rates += [lyapunov_rate(net, law, other, at) for other in others]
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


def local_system(net: Net, law: Law, at: Point) -> tuple[Array, Array, Array]:
    """dPhi/dx, K and H of (10) at an equilibrium.

    Links without a price are left out, as in section III-E.
    """
    states = net.states(at.rate)
    jacobian = law.phi_derivatives(states, "window").toarray() * net.rtt
    active = net.routes[at.price > 1e-6 * net.price_scale(law)]
    return jacobian, performance.gain(law, states), active


def slowest_mode(net: Net, law: Law, at: Point, gamma: float) -> float:
    """The largest real part of an eigenvalue of (10), over the largest size of one."""
    eigenvalues = np.linalg.eigvals(performance.linearised(*local_system(net, law, at), gamma))
    return float(eigenvalues.real.max() / np.abs(eigenvalues).max())


def below_the_bound(nets: int = 20, seed: int = 1) -> Statement:
    """Theorem 3.5, the inequality of part 1 and that of part 2."""
    excess, bounds, tried = [], [], 0
    for name in UNIQUE:
        law = Law(name)
        for i in range(nets):
            dice = np.random.default_rng([seed, i])
            net, gamma = draw(dice), 10 ** dice.uniform(-7, -3)
            at = _first_equilibrium(net, law, dice)
            if at is None:
                continue
            jacobian, gains, active = local_system(net, law, at)
            system = performance.linearised(jacobian, gains, active, gamma)
            size = float(np.abs(np.linalg.eigvals(system)).max())
            # A gain that is twice as large: part 2.
            for k in (gains, 2 * gains):
                bounds.append(
                    performance.bound_of_theorem_3_5(jacobian, k, len(active), gamma) / size
                )
            excess.append(performance.abscissa(system) / size - bounds[-2])
            tried += 1
    rises = max(more - less for less, more in zip(bounds[::2], bounds[1::2], strict=True))
    return Statement(
        "III-E, theorem 3.5",
        "the real parts of the eigenvalues are at most a bound, which is at most 0, and which does "
        "not rise with K; a smaller one makes a rule more responsive",
        verdict(max(excess) < 0 and max(bounds) < 1e-9 and rises < 1e-9),
        f"at the equilibria of {tried} random networks of {', '.join(UNIQUE)} with random gamma "
        f"the largest real part is at least {-max(excess):.1g} below the bound, relative to the "
        f"largest size of an eigenvalue. But the bound is 0 in all of them (to "
        f"{max(map(abs, bounds)):.0e}), because z = (0, p) gives 0 for every rule: by this "
        "definition each is as responsive as any other",
        {"networks": tried, "excess": max(excess), "largest_bound": max(map(abs, bounds))},
    )


def local_stability(nets: int = 40, seed: int = 1) -> Statement:
    """Section III-C for gains that depend on all rates, and theorem 3.5, part 1."""
    worst, tried = {}, 0
    for name in ("generalized", "generalized:eta=2", *UNIQUE):
        law, largest = Law(name), -np.inf
        for i in range(nets):
            dice = np.random.default_rng([seed, i])
            net = draw(dice)
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
    ordered = [
        conditions_of_rules.compare(conditions_of_rules.phi_at_least(*pair), pair[0], RTT_RATIO)
        for pair in steps
    ]
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


# Balia's lemmas 3.1, B.1, B.2, G.1 and G.2, searched for a counterexample.


MOST_PATHS = 8
"""m of lemma G.2."""


def reduction(decrease: Array, loss: Array, packets: Array) -> tuple[float, float]:
    """Lemma 3.1: the expected reduction given a loss anywhere, exact, and its leading term.

    Of each set: what it loses, the loss probability of a packet, how many packets it has.
    """
    hit = -np.expm1(packets * np.log1p(-loss))
    anywhere = -np.expm1(float(packets @ np.log1p(-loss)))
    exact = float(decrease @ hit) / anywhere
    return exact, float(decrease @ (loss * packets) / (loss @ packets))


def losses_are_rare(trials: int = 2000, seed: int = 1) -> Statement:
    """Lemma 3.1: the size of its remainder."""
    dice, slopes, last = np.random.default_rng(seed), [], 0.0
    for _ in range(trials):
        sets = int(dice.integers(2, 9))
        decrease, packets = dice.uniform(0.1, 10, sets), dice.integers(1, 100, sets).astype(float)
        loss = 10 ** dice.uniform(-1, 0, sets)
        errors = []
        for q in (1e-6 * loss, 1e-7 * loss):
            exact, leading = reduction(decrease, q, packets)
            errors.append(abs(exact - leading) / float(q.sum()))
        slopes.append(errors[1] / errors[0])
        last = max(last, abs(exact - leading) / leading)
    two = np.ones(2)
    exact, leading = reduction(two, 1e-6 * two, two)
    return Statement(
        "III-F, lemma 3.1",
        "the expected reduction at a loss is sum d q |A| / sum q |A| + o(sum q)",
        verdict(float(np.median(slopes)) < 0.5),
        "the remainder is of the order of sum q, not smaller: two sets of one packet, d = 1 and "
        f"loss q each, lose 2/(2 - q) = 1 + q/2 + ..., so that remainder / sum q is "
        f"{(exact - leading) / 2e-6:.4f} for every small q. In {trials} random cases a tenth of q "
        f"leaves that ratio at {np.median(slopes):.3f} times its size (median). The first term is "
        f"the limit, within {last:.1g} of it for q up to 1e-7, so that (11) is right to order 0",
        {"trials": trials, "ratio_of_remainders": float(np.median(slopes))},
    )


def largest_product(law: Law, paths: Sequence[int], pairs: int, seed: int) -> float:
    """The largest `(x - y)'(Phi(x) - Phi(y))` of random users at equal RTTs, over its terms' sum
    of sizes."""
    worst = -np.inf
    for n in paths:
        dice = np.random.default_rng([seed, n])
        first = random_states.draw(n, pairs, 1.0, dice)
        other = random_states.draw(n, pairs, 1.0, dice)
        near = first.rate * np.exp(0.3 * dice.standard_normal(len(first.rate)))
        for rate in (other.rate, near):
            step = first.rate - rate
            terms = step * (law.phi(first) - law.phi(first.with_rate(rate)))
            by_user = random_states.by_user(first, terms)
            worst = max(worst, float((by_user.sum(axis=1) / np.abs(by_user).sum(axis=1)).max()))
    return worst


def falls_along_every_line(pairs: int = 1000, seed: int = 1) -> Statement:
    """Lemma B.1."""
    worst = {name: largest_product(Law(name), PATHS, pairs, seed) for name in UNIQUE}
    broken = largest_product(Law("balia:cap=inf"), PATHS, pairs, seed)
    total = 2 * pairs * len(PATHS) * len(UNIQUE)
    return Statement(
        "appendix B, lemma B.1",
        "where the Jacobian's symmetric part is negative definite (x - y)'(Phi(x) - Phi(y)) < 0",
        verdict(max(worst.values()) < 0),
        f"at {total} pairs of random rates of 2 to 8 paths of {', '.join(UNIQUE)}, kinks between "
        f"them included; the largest product is {max(worst.values()):.2g} of its terms' sizes. "
        f"With balia:cap=inf, which violates C2, it reaches {broken:.2g}",
        {"pairs": total, "largest": max(worst.values())},
    )


def smallest_share(law: Law, nets: int, seed: int) -> float:
    """The smallest rate of a path at an equilibrium of random networks, over an even share of its
    narrowest link."""
    least = np.inf
    for i in range(nets):
        dice = np.random.default_rng([seed, i])
        net = draw(dice)
        if (at := equilibrium(net, law, dice)) is not None:
            least = min(least, float((at.rate / net.share).min()))
    return least


def every_path_is_used(nets: int = 40, seed: int = 1) -> Statement:
    """Lemma B.2."""
    least = {name: smallest_share(Law(name), nets, seed) for name in UNIQUE}
    without = smallest_share(Law("coupled"), nets, seed)
    return Statement(
        "appendix B, lemma B.2",
        "with C3 all rates are above 0 at an equilibrium",
        verdict(min(least.values()) > 1e-4),
        f"the smallest rates in {nets} random networks, over an even share of the narrowest link, "
        f"are {numbers(np.array(list(least.values())))} for {', '.join(least)}; with `coupled`, "
        f"which violates C3, {without:.1g}",
        {"networks": nets * len(UNIQUE), "smallest": min(least.values())},
    )


def weights_of_lemma_g1(x: Array, p: int) -> Array:
    """a of lemma G.1, for each row of x."""
    power = (x / x.max(axis=1, keepdims=True)) ** p
    return np.asarray(2 * x / x.sum(axis=1, keepdims=True)
                      - power / power.sum(axis=1, keepdims=True))  # fmt: skip


def weights_are_short(trials: int = 2000, seed: int = 1) -> Statement:
    """Lemma G.1."""
    dice, off, longest, tried = np.random.default_rng(seed), 0.0, 0.0, 0
    for m in range(1, 13):
        for p in (1, 2, 3, 10, 100):
            x = 10 ** dice.uniform(-4, 0, (trials, m)) * (dice.random((trials, m)) < 0.9)
            x = x[x.sum(axis=1) > 0]
            a = weights_of_lemma_g1(x, p)
            off = max(off, float(np.abs(a.sum(axis=1) - 1).max()))
            longest = max(longest, float((a**2).sum(axis=1).max()))
            tried += len(x)
    return Statement(
        "appendix G, lemma G.1",
        "a_i = 2 x_i / sum x - x_i^p / sum x^p has sum a = 1 and sum a^2 <= 1",
        verdict(off < 1e-9 and longest <= 1 + 1e-9),
        f"at {tried} random x of 1 to 12 entries, p from 1 to 100: |sum a - 1| is at most "
        f"{off:.0e}, sum a^2 at most {longest:.9f}, with one entry alone",
        {"states": tried, "largest": longest},
    )


def least_form(a: Array) -> Array:
    """The least of lemma G.2's f(z) over |z| = 1, of each row: an eigenvalue of I + [1 a']^+."""
    m = a.shape[1]
    half = (a[:, :, None] + a[:, None, :]) / 2
    return np.asarray(np.linalg.eigvalsh(np.eye(m) + half)[:, 0])


def form_is_positive(trials: int = 5000, seed: int = 1) -> Statement:
    """Lemma G.2."""
    dice, least = np.random.default_rng(seed), {}
    for m in range(1, MOST_PATHS + 3):
        b = dice.standard_normal((trials, m))
        b -= b.mean(axis=1, keepdims=True)
        # Lengths: 1 after 1/m is added, the largest allowed, and random ones below it.
        length = np.linalg.norm(b, axis=1, keepdims=True) if m > 1 else np.ones((trials, 1))
        size = np.sqrt(1 - 1 / m) * np.where(dice.random((trials, 1)) < 0.5, 1, dice.random())
        least[m] = float(least_form(1 / m + size * b / length).min())
    words = ", ".join(f"{m}: {value:.4f}" for m, value in least.items())
    return Statement(
        "appendix G, lemma G.2",
        "|z|^2 + sum z sum a z > 0 for all such a, and z other than 0, with up to 8 entries",
        verdict(min(least[m] for m in range(1, MOST_PATHS + 1)) > 0),
        f"least eigenvalue over {trials} random a for each number of entries: {words}. By hand it "
        "is 1 + (1 - sqrt(m))/2, which is 0 for 9 entries",
        {"states": trials * len(least), "least_with_8": least[MOST_PATHS]},
    )
