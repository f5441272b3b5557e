"""The rent-seeking game of the RSF paper: Nash and normalised equilibria under (7) and (16).

Each path of a connection (6), or each connection (15), is a player who takes the rate lambda_i for
a share of the throughput and pays p per unit of rate. Written in shares u_i = lambda_i / S, the
first order conditions (1 - u_i) / S = p + L / z_i belong to a concave programme in u (as in
Johari and Tsitsiklis, Mathematics of Operations Research 29, 2004), which is solved here. Best
responses verify it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq, minimize_scalar

from anabranch.scenario import ScenarioError
from anabranch.statements.rsf.rosen import marginals, utilities
from anabranch.theory.array import Array
from anabranch.theory.law import Law, States


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

    @property
    def binds(self) -> bool:
        """Whether the whole capacity is used."""
        return self.multiplier > 0


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
