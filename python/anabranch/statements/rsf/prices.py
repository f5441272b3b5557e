"""Section 1 of the RSF paper: sources that react to the sum or the maximum of their links' prices.

Each user has one path, and NewReno's rate at the price that it reacts to, sqrt(2 / p) / tau.
"""

from collections.abc import Callable

import numpy as np

from anabranch.statements.statement import CONDITION, Statement, verdict
from anabranch.theory.array import Array

STEPS, STEP = 2000, 0.1
"""Steps of the prices; a step multiplies a price by exp(STEP) where the load is twice the
capacity."""


def draw(dice: np.random.Generator) -> tuple[Array, Array]:
    """Links by users, and capacities: two to five links, two to six users over up to three."""
    while True:
        links, users = int(dice.integers(2, 6)), int(dice.integers(2, 7))
        routes = np.zeros((links, users))
        for user in range(users):
            crossed = int(dice.integers(1, min(3, links) + 1))
            routes[dice.choice(links, crossed, replace=False), user] = 1.0
        if (routes.sum(axis=1) > 0).all():
            return routes, 10 ** dice.uniform(2, 4, links)


def stationary_rates(
    routes: Array, capacity: Array, rtt: Array, reaction: Callable[[Array], Array]
) -> Array:
    """Rates where prices end that rise while a link's load exceeds its capacity, and fall else.

    `reaction` takes the prices on the paths, links by users, to one for each user.
    """
    even = capacity / routes.sum(axis=1)
    price = 2 / (even * rtt.mean()) ** 2
    for _ in range(STEPS):
        rate = np.sqrt(2 / np.maximum(reaction(routes * price[:, None]), 1e-300)) / rtt
        price = price * np.exp(STEP * (routes @ rate / capacity - 1))
    return np.asarray(rate)


def max_min(routes: Array, capacity: Array, weight: Array) -> Array:
    """Max-min fair rates over their weights, by filling links one after the other."""
    rate, room, free = np.zeros(routes.shape[1]), capacity.copy(), np.ones(routes.shape[1], bool)
    while free.any():
        load = routes[:, free] @ weight[free]
        level = np.where(load > 0, room / np.maximum(load, 1e-300), np.inf)
        full = free & (routes[int(np.argmin(level))] > 0)
        rate[full] = weight[full] * level.min()
        room = np.maximum(room - routes[:, full] @ rate[full], 0.0)
        free &= ~full
    return rate


def largest_price(nets: int = 30, seed: int = 1) -> Statement:
    """Section 1, max-min fairness."""
    dice = np.random.default_rng(seed)
    off: dict[str, list[float]] = {"equal": [], "unequal": [], "weighted": [], "sum": []}
    for _ in range(nets):
        routes, capacity = draw(dice)
        same = np.full(routes.shape[1], 0.1)
        rtt = np.asarray(10 ** dice.uniform(-2, -0.5, routes.shape[1]))
        fair = max_min(routes, capacity, np.ones_like(same))
        largest = stationary_rates(routes, capacity, rtt, _largest)
        off["equal"].append(_off(stationary_rates(routes, capacity, same, _largest), fair))
        off["unequal"].append(_off(largest, fair))
        off["weighted"].append(_off(largest, max_min(routes, capacity, 1 / rtt)))
        off["sum"].append(_off(stationary_rates(routes, capacity, same, _sum), fair))
    equal, unequal = max(off["equal"]), max(off["unequal"])
    return Statement(
        "1, max-min fairness",
        "sources that react to the largest price of their paths achieve max-min fairness",
        CONDITION if equal < NEAR < unequal else verdict(unequal < NEAR),
        f"NewReno's rates at the largest price in {nets} random networks of single-path users are "
        f"the max-min fair ones, to {equal:.0e}, at equal RTTs. At unequal ones they differ by up "
        f"to {unequal:.0%}: they are max-min fair in x tau, to {max(off['weighted']):.0e}. With "
        f"the sum of the prices they differ by up to {max(off['sum']):.0%} at equal RTTs",
        {"networks": nets, "equal": equal, "unequal": unequal, "sum": max(off["sum"])},
        needs="equal RTTs, or the same rate at the same price for all users",
    )


NEAR = 1e-3
"""Relative difference of rates that are the same."""


def _off(rate: Array, fair: Array) -> float:
    return float(np.abs(rate / fair - 1).max())


def _largest(prices: Array) -> Array:
    return np.asarray(prices.max(axis=0))


def _sum(prices: Array) -> Array:
    return np.asarray(prices.sum(axis=0))
