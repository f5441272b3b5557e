"""The rent-seeking game of the RSF paper: Nash and normalised equilibria under (7) and (16).

Each path of a connection (6), or each connection (15), is a player who takes the rate lambda_i for
a share of the throughput and pays p per unit of rate. Written in shares u_i = lambda_i / S, the
first order conditions (1 - u_i) / S = p + L / z_i belong to a concave programme in u (as in
Johari and Tsitsiklis, Mathematics of Operations Research 29, 2004), which is solved here. Best
responses verify it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import solve_ivp
from scipy.optimize import brentq, least_squares, minimize_scalar

from anabranch.scenario import ScenarioError
from anabranch.statements.statement import CONDITION, Statement, ours, verdict
from anabranch.theory.array import Array
from anabranch.theory.law import Law, States

# Rosen's diagonal strict concavity for the rent-seeking game of the RSF paper, section 3.
#
# Player i has the marginal utility m_i = (S - lambda_i) / S^2 - p, S being the sum of all lambda.
# G is the Jacobian of z_i m_i, and Rosen's condition asks G + G' to be negative definite. With the
# shares u = lambda / S that is a matter of w 1' + 1 w' - 2 diag(z), where w_i = z_i (2 u_i - 1).


def utilities(rates: ArrayLike, price: float) -> Array:
    """U_i = lambda_i / S - p lambda_i: (6)."""
    rates = np.asarray(rates, dtype=float)
    return np.asarray(rates / rates.sum() - price * rates)


def marginals(rates: ArrayLike, price: float) -> Array:
    """dU_i / dlambda_i: the pseudogradient (10) for z = 1."""
    rates = np.asarray(rates, dtype=float)
    total = rates.sum()
    return np.asarray((total - rates) / total**2 - price)


def jacobian(rates: ArrayLike, weights: ArrayLike) -> Array:
    """G: row i is the gradient of z_i m_i, z_i ((2 lambda_i - S) 1' - S e_i') / S^3."""
    rates, z = np.asarray(rates, dtype=float), np.asarray(weights, dtype=float)
    total = rates.sum()
    rows = (2 * rates - total)[:, None] - total * np.eye(len(rates))
    return np.asarray(z[:, None] * rows / total**3)


def leading_eigenvalue(rates: ArrayLike, weights: ArrayLike) -> float:
    """The largest eigenvalue of (G + G') S^2 / 2, which depends on shares alone; Rosen's condition
    holds at a state where this is below 0."""
    rates = np.asarray(rates, dtype=float)
    g = jacobian(rates / rates.sum(), weights)
    return float(np.linalg.eigvalsh(g + g.T)[-1] / 2)


def condition(first: ArrayLike, second: ArrayLike, weights: ArrayLike) -> float:
    """The left side of (11): above 0 for any two states if the game is diagonally strictly concave.
    The price cancels."""
    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    z = np.asarray(weights, dtype=float)
    return float((a - b) @ (z * (marginals(b, 0.0) - marginals(a, 0.0))))


@dataclass(frozen=True)
class Segments:
    """(11) beside C0, over pairs of random states."""

    definite: int
    """Pairs with G + G' negative definite at 41 points from one state to the other."""
    violating: int
    """The number of these that violate (11)."""
    others: int
    others_violating: int


def segments(pairs: int, seed: int) -> Segments:
    """Random pairs of states of 2 to 5 paths, near and far apart, with weights from 1 to 8."""
    dice, counts = np.random.default_rng(seed), np.zeros((2, 2), dtype=int)
    for _ in range(pairs):
        players = int(dice.integers(2, 6))
        z = np.exp(dice.uniform(0, np.log(8), players))
        first = 10 ** dice.uniform(-2, 1, players)
        second = first * np.exp(dice.normal(0, dice.uniform(0.05, 2), players))
        points = (first + t * (second - first) for t in np.linspace(0, 1, 41))
        definite = max(leading_eigenvalue(point, z) for point in points) < -1e-9
        counts[int(definite), int(condition(first, second, z) <= 0)] += 1
    (_, others_bad), (_, bad) = counts
    return Segments(int(counts[1].sum()), int(bad), int(counts[0].sum()), int(others_bad))


def two_player_edge(weights: Sequence[float]) -> float:
    """With two players the condition holds where |u_1 - u_2| is below this.

    The determinant of w 1' + 1 w' - 2 diag(z) is 4 z1 z2 (1 - d^2) - (z1 - z2)^2 d^2 for
    d = u_1 - u_2; it is 0 where d is the geometric over the arithmetic mean of the weights.
    """
    a, b = weights
    return float(2 * np.sqrt(a * b) / (a + b))


@dataclass(frozen=True)
class Scan:
    """Rosen's condition over random states."""

    game: str
    players: int
    weights: str
    states: int
    holding: int
    worst: float
    """The largest leading eigenvalue found."""
    at: tuple[float, ...]
    """The shares there."""


def scan(players: int, spread: float, states: int, seed: int) -> Scan:
    """Game (6): random shares, from even ones to nearly all on one path; weights from 1 to
    `spread`, all 1 where that is 1."""
    dice = np.random.default_rng(seed)
    found = []
    for _ in range(states):
        shares = _dirichlet(dice, players)
        weights = np.exp(dice.uniform(0.0, np.log(spread), players))
        found.append((leading_eigenvalue(shares, weights), shares))
    label = "1" if spread == 1 else f"1 to {spread:g}"
    return _summary("(6), one connection", players, label, found)


def scan_connections(connections: int, paths: int, states: int, seed: int) -> Scan:
    """Game (15): each connection chooses a rate on every path; weights 1.

    Its utility depends on the sum of its rates alone, so that G is the sums' G, each entry
    repeated for every pair of paths.
    """
    dice = np.random.default_rng(seed)
    found = []
    for _ in range(states):
        shares = _dirichlet(dice, connections)
        g = np.kron(jacobian(shares, np.ones(connections)), np.ones((paths, paths)))
        found.append((float(np.linalg.eigvalsh(g + g.T)[-1] / 2), shares))
    return _summary(f"(15), {paths} paths each", connections, "1", found)


def _dirichlet(dice: np.random.Generator, players: int) -> Array:
    """Dirichlet shares of concentrations 0.05 to 5: mostly one path, or all alike; none is 0."""
    even = np.exp(dice.uniform(np.log(0.05), np.log(5.0)))
    shares = np.maximum(dice.dirichlet(np.full(players, even)), 1e-6)
    return np.asarray(shares / shares.sum())


def _summary(game: str, players: int, weights: str, found: list[tuple[float, Array]]) -> Scan:
    worst, at = max(found, key=lambda pair: pair[0])
    # An eigenvalue that is exactly 0 is computed with a rounding error.
    holding = sum(value < -1e-12 for value, _ in found)
    return Scan(game, players, weights, len(found), holding, worst, tuple(at.tolist()))


@dataclass(frozen=True)
class Equilibrium:
    """An equilibrium of the game under sum lambda <= B."""

    rates: Array
    multiplier: float
    """L: player i pays L / z_i more per unit of rate; 0 where the capacity is not used up."""
    weights: Array
    """Rosen's z."""
    kkt_residual: float
    """Residual of the first order conditions."""
    best_gain: float
    """The largest gain of a player by another rate while the others keep theirs."""


def check(players: int, price: float, capacity: float) -> None:
    """Raise `ScenarioError` for a game without an equilibrium, or values out of range."""
    if not price > 0:
        raise ScenarioError(f"price {price:g}: expected more than 0, or rates grow without bound")
    if not capacity > 0:
        raise ScenarioError(f"capacity {capacity:g}: expected more than 0")
    if players < 2:
        raise ScenarioError(
            f"{players} player: its utility is 1 - p lambda, which every smaller rate improves on, "
            "so that there is no equilibrium; expected two or more"
        )


def equilibrium(
    players: int, price: float, capacity: float, weights: Sequence[float] | None = None
) -> Equilibrium:
    """The normalised equilibrium for weights z, 1 each by default.

    Without the capacity it is the Nash equilibrium, lambda_i = (K - 1) / (K^2 p), for every z.
    """
    check(players, price, capacity)
    z = np.ones(players) if weights is None else np.asarray(weights, dtype=float)
    if z.shape != (players,) or not np.all(z > 0):
        raise ScenarioError(f"weights {list(z)}: expected {players} numbers above 0")
    # The multiplier of sum u = 1 is 1 - u_i = p S: it gives the total.
    shares, level = _shares(np.ones(players), np.zeros(players))
    rates, multiplier = shares * level / price, 0.0
    if level / price > capacity:
        shares, level = _shares(z, np.full(players, price * capacity))
        rates, multiplier = shares * capacity, level / capacity
    residual = _kkt_residual(rates, price, multiplier / z)
    gain = best_gain(rates, price, np.maximum(0.0, capacity - rates.sum()) + rates)
    return Equilibrium(rates, multiplier, z, residual, gain)


def first_order_points(
    players: int, price: float, capacity: float, starts: int, seed: int, shared: bool = True
) -> Array:
    """Solutions of the first order conditions under (7) from random starts, points by players.

    `shared`: one multiplier for all, as of a normalised equilibrium with z = 1; else each player
    has one of its own, any from 0 on, as in (8).
    """
    dice, found = np.random.default_rng(seed), []
    for _ in range(starts):
        own = np.zeros(players) if shared else dice.uniform(0, 0.5, players)

        def residual(unknown: Array, own: Array = own) -> Array:
            rates, extra = np.exp(unknown[:-1]), unknown[-1]
            total = rates.sum()
            # (7) and its multiplier: Fischer's equation for a >= 0, b >= 0, a b = 0.
            a, b = extra * total, 1 - total / capacity
            first_order = (marginals(rates, price) - extra * (1 + own)) * total
            return np.append(first_order, a + b - np.hypot(a, b))

        start = np.append(np.log(capacity / players * 10 ** dice.uniform(-1.5, 1, players)), 0.0)
        solved = least_squares(residual, start, xtol=1e-15, ftol=1e-15, gtol=1e-15)
        if np.abs(solved.fun).max() < 1e-9:
            found.append(np.exp(solved.x[:-1]))
    return np.array(found)


def _shares(z: Array, cost: Array) -> tuple[Array, float]:
    """The shares u >= 0 of sum 1 that maximise sum z (u - u^2 / 2 - cost u); the sum's multiplier.

    The stationarity conditions are `z (1 - cost - u) = multiplier` where u > 0; so the sum of the
    shares falls with the multiplier.
    """

    def shares(multiplier: float) -> Array:
        return np.maximum(0.0, 1 - cost - multiplier / z)

    most = float(np.max(z * (1 - cost)))  # there all shares are 0
    level = brentq(lambda multiplier: shares(multiplier).sum() - 1, -most, most, xtol=1e-15 * most)
    return shares(level), max(0.0, float(level))


def _kkt_residual(rates: Array, price: float, extra: Array) -> float:
    """The violation of m_i = L / z_i where lambda_i > 0, and of m_i <= L / z_i elsewhere, times S
    (dimensionless)."""
    miss = (marginals(rates, price) - extra) * rates.sum()
    # A share below 1e-6 counts as 0.
    return float(np.max(np.where(rates > 1e-6 * rates.sum(), np.abs(miss), np.maximum(0.0, miss))))


def best_gain(rates: ArrayLike, price: float, room: ArrayLike) -> float:
    """The largest gain of a player by another rate from 0 to its `room`, others unchanged."""
    rates, room = np.asarray(rates, dtype=float), np.asarray(room, dtype=float)
    now = utilities(rates, price)
    gains = []
    for i, most in enumerate(room):

        def loss(rate: float, i: int = i) -> float:
            tried = rates.copy()
            tried[i] = rate
            return -float(utilities(tried, price)[i])

        best = minimize_scalar(
            loss, bounds=(0.0, most), method="bounded", options={"xatol": 1e-12 * most}
        )
        gains.append(max(-best.fun, -loss(most)) - now[i])
    return float(max(gains))


@dataclass(frozen=True)
class Split:
    """One equilibrium of (15) under (16): rates of each connection (row) on each path."""

    name: str
    rates: Array
    kkt_residual: float
    best_gain: float


def splits(connections: int, capacities: Sequence[float], price: float) -> list[Split]:
    """Two equilibria of (15) under (16) with the same multipliers: each connection in proportion to
    the paths' capacities, and each on as few paths as it needs.

    A connection's utility depends on the sum of its rates alone, so that all paths that are not
    full have the same price, and full ones the same multiplier.
    """
    for number, capacity in enumerate(capacities, 1):
        if not capacity > 0:
            raise ScenarioError(f"capacity {capacity:g} of path {number}: expected more than 0")
    whole = equilibrium(connections, price, sum(capacities))
    each, left = float(whole.rates[0]), np.array(capacities, dtype=float)
    even = np.tile(each * left / left.sum(), (connections, 1))
    few = np.zeros_like(even)
    for n in range(connections):
        for path in range(len(left)):
            few[n, path] = min(each - few[n].sum(), left[path])
            left[path] -= few[n, path]
    few[few < 1e-9 * each] = 0.0  # rounding
    ways = {"even": even, "few": few}
    return [_split(name, rates, capacities, price, whole) for name, rates in ways.items()]


def _split(
    name: str, rates: Array, capacities: Sequence[float], price: float, whole: Equilibrium
) -> Split:
    sums = rates.sum(axis=1)
    spare = float(sum(capacities) - sums.sum())
    residual = _kkt_residual(sums, price, whole.multiplier / whole.weights)
    overload = float(np.max(rates.sum(axis=0) - capacities))
    return Split(
        name, rates, max(residual, overload), best_gain(sums, price, sums + max(0.0, spare))
    )


def rule_rates(rule: str, rtt_s: Sequence[float], loss: Sequence[float]) -> Array:
    """Stationary rates of a rule without coupling, packets/s: phi_r = p_r.

    Queues are empty; `loss` is random loss.
    """
    law = Law(rule)

    def drift(log_window: float, path: int) -> float:
        states = States.of_user([np.exp(log_window)], [rtt_s[path]], 0.0, [loss[path]])
        return float(law.phi(states)[0] - loss[path])

    windows = [np.exp(brentq(drift, 0.0, 20.0, args=(r,))) for r in range(len(rtt_s))]
    return np.asarray(np.asarray(windows) / np.asarray(rtt_s))


# The RSF paper's fluid model (4): its stationary points, by integration.
#
#     d lambda_i / dt = k_i (phi_i - p_i)
#     d p_i / dt = gamma_i (lambda_i - theta_i)        both from 0
#
# The paper prints p without an index in the first equation, and theta_i, which is the throughput
# of (5), where Balia's (3) and (4), which it generalises, have the capacity. Each reading is
# integrated.


RTT_S = (0.05, 0.15)
CAPACITY = (250.0, 750.0)
"""Packets/s of two paths; the game would give 500 on each."""

RULES = ("rsf-db", "rsf-lb")

PRICE_HAT = 0.1
"""p-hat of (6)."""

NEAR = 0.01
"""Relative distance at which two stationary points are the same."""


@dataclass(frozen=True)
class Ends:
    """The last rates from several random starts: starts by paths, packets/s."""

    rates: Array

    @property
    def spread(self) -> float:
        """The largest relative difference of a path's rate between two starts."""
        return float((np.ptp(self.rates, axis=0) / self.rates.mean(axis=0)).max())

    def off(self, rates: Array) -> float:
        """The largest relative distance from these rates."""
        return float(np.abs(self.rates / rates - 1).max())


def of_rule(rule: str, throughput: Callable[[Array], Array], starts: int, seed: int) -> Ends:
    """(4) with a rule's phi and k, the price of a path being its loss probability.

    `throughput`: theta of the rates. Queues are empty.
    """
    law, rtt = Law(rule), np.array(RTT_S)
    few = 1e-6  # losses, so that no rule has a negative phi
    scale = law.phi(States.of_user(np.array(CAPACITY) * rtt, rtt, loss_probability=few))
    dice = np.random.default_rng(seed)

    def change(_: float, unknown: Array) -> Array:
        rate, price = np.exp(unknown[:2]), scale * np.maximum(unknown[2:], 0.0)
        states = States.of_user(rate * rtt, rtt, 0.0, np.maximum(price, 1e-12))
        increase, decrease = law.evaluate(states)
        # k_i = x_i D_i / tau_i, Balia's (5), and phi_i = I_i / D_i; divided by the rate.
        d_rate = (increase - decrease * price) / rtt
        return np.concatenate([d_rate, 0.05 * _from_0(unknown[2:], rate, throughput(rate))])

    ends = []
    for _ in range(starts):
        first = np.concatenate([np.log(dice.uniform(50.0, 2000.0, 2)), dice.uniform(0.1, 5.0, 2)])
        ends.append(np.exp(_last(change, first, 4000.0)[:2]))
    return Ends(np.array(ends))


def of_game(players: int, capacity: float, starts: int, seed: int) -> Ends:
    """(4) with phi the marginal share of (6), one price for all, p-hat and what (7) adds to it.

    Gains are random.
    """
    dice = np.random.default_rng(seed)
    ends = []
    for _ in range(starts):
        k = 10 ** dice.uniform(-1, 1, players)

        def change(_: float, unknown: Array, k: Array = k) -> Array:
            rate, extra = np.exp(unknown[:-1]), max(float(unknown[-1]), 0.0)
            d_rate = k * (marginals(rate, PRICE_HAT) - extra)
            excess = _from_0(unknown[-1:], rate.sum(), np.array(capacity))
            return np.concatenate([d_rate, 0.1 * excess])

        first = np.append(np.log(dice.uniform(0.1, 10.0, players)), 0.0)
        ends.append(np.exp(_last(change, first, 20_000.0)[:-1]))
    return Ends(np.array(ends))


def _from_0(price: Array, rate: Array | float, bound: Array) -> Array:
    """Relative excess; a price stops slightly below 0, where it counts as 0, without a jump."""
    return np.asarray(np.maximum(rate / bound - 1, -1 - price / 1e-4))


def _last(change: Callable[[float, Array], Array], first: Array, until_s: float) -> Array:
    solved = solve_ivp(change, (0.0, until_s), first, method="LSODA", rtol=1e-8, atol=1e-10)
    if not solved.success:
        raise ArithmeticError(f"equation (4) was not integrated: {solved.message}")
    return np.asarray(solved.y[:, -1])


def statements(starts: int = 6, seed: int = 1) -> list[Statement]:
    """(4) under each reading, and beside the game."""
    capacity = np.array(CAPACITY)
    total = float(capacity.sum())
    at_capacity = {rule: of_rule(rule, lambda _: capacity, starts, seed) for rule in RULES}
    off = max(ends.off(capacity) for ends in at_capacity.values())
    shared = {rule: of_rule(rule, lambda x: total * x / x.sum(), starts, seed) for rule in RULES}
    spread = max(ends.spread for ends in shared.values())
    totals = np.concatenate([ends.rates.sum(axis=1) for ends in shared.values()])
    lowest, highest = (float(f(shared[RULES[0]].rates[:, 0])) for f in (np.min, np.max))
    # A strictly concave V, total * sqrt(u): V(u) / u falls, so that all shares are equal.
    strict = of_rule(RULES[0], lambda x: total * np.sqrt(x / x.sum()), starts, seed)
    games, gap = 0, 0.0
    for players in (2, 3, 5):
        for room in (2.0, 0.5):
            wanted = (players - 1) / players / PRICE_HAT
            found = of_game(players, room * wanted, starts, seed)
            expected = equilibrium(players, PRICE_HAT, room * wanted).rates
            gap, games = max(gap, found.off(expected)), games + starts
    even = total / 2
    return [
        Statement(
            "2, (3) and (4)",
            "(4) has one stationary point, theta_i being the capacity of path i",
            verdict(off < NEAR),
            f"{starts} random starts of {' and '.join(RULES)} on paths of 250 and 750 packets/s "
            f"end at lambda = theta to {off:.1g}; the integration gives stability too",
            {"starts": 2 * starts, "largest_difference": off},
        ),
        Statement(
            "2, (4), with (5)",
            "(4) has one stationary point, theta_i being the throughput (5) as printed",
            CONDITION if spread > NEAR > strict.spread else verdict(spread < NEAR),
            f"lambda_i = V(lambda_i / S) for a linear V = {total:g} u, as in (6), holds for every "
            f"split of {total:g}, and p_i = phi_i follows: {starts} starts of {RULES[0]} end with "
            f"{lowest:.0f} to {highest:.0f} packets/s on the first path (totals {totals.min():.1f} "
            f"to {totals.max():.1f}). With V = {total:g} sqrt(u) all end with "
            f"{strict.rates.min():.1f} to {strict.rates.max():.1f} on each path: V(u) / u is the "
            "same on all paths, and falls with u where V is strictly concave and V(0) >= 0",
            {"starts": 2 * starts, "spread": spread, "spread_strictly_concave": strict.spread},
            needs="V is strictly concave, where the paper has \"concave\" and (6) is linear",
        ),
        Statement(
            "3, before (8)",
            "the equilibrium of (4) is that of the game",
            CONDITION if gap < NEAR else verdict(False),
            f"with it, {games} random starts and gains with 2, 3 and 5 paths, capacity ample or "
            f"half of what is demanded: rates within {gap:.1g} of the equilibrium, "
            "normalised where (7) binds",
            {"starts": games, "largest_difference": gap},
            needs="phi_i of (4), which the paper does not give, is the marginal share of (6), with "
            "one price for all",
        ),
        Statement(
            "3, (4) with (1) and (2)",
            "with phi_i of the paper's own rules the equilibrium of (4) is not that of the game",
            ours(all(ends.off(np.full(2, even)) > NEAR for ends in at_capacity.values())),
            f"(4) ends at 250 and 750 packets/s, the capacities; the game has {even:g} on each",
            {"ratio_of_rates": float(np.mean(at_capacity[RULES[0]].rates[:, 1])
                                     / np.mean(at_capacity[RULES[0]].rates[:, 0]))},
        ),
    ]  # fmt: skip
