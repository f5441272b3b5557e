"""The RSF paper's fluid model (4): its stationary points, by integration.

    d lambda_i / dt = k_i (phi_i - p_i)      d p_i / dt = gamma_i (lambda_i - theta_i), both from 0

The paper prints p without an index in the first equation, and theta_i, which is the throughput of
(5), where Balia's (3) and (4), which it generalises, have the capacity. Each reading is integrated.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.integrate import solve_ivp

from anabranch.statements.rsf import rent
from anabranch.statements.rsf.rosen import marginals
from anabranch.statements.statement import CONDITION, Statement, ours, verdict
from anabranch.theory.array import Array
from anabranch.theory.law import Law, States

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
            expected = rent.equilibrium(players, PRICE_HAT, room * wanted).rates
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
