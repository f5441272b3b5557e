"""The iterations of wVegas' paper for the optimum.

Cao, Xu, Fu, "Delay-based Congestion Control for Multipath TCP", 2012, sections II and III. They are
centralised, without packets: all rates in Mbps, prices of links by (12), `alpha_s` = 1 for every
flow. The rule for packets, algorithm 3, is `wvegas` in the table of rules.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from anabranch.scenario import load
from anabranch.theory.array import Array
from anabranch.theory.errors import NotConverged
from anabranch.theory.network import Network
from anabranch.theory.optimum.maximise import Problem, of_each, solve
from anabranch.theory.optimum.optimum import PROPORTIONAL

Step = tuple[Array, Array]
"""Rates of paths and prices of links."""

GAMMA = 0.01
"""Step of the links' prices, (12). The paper says "sufficiently small"; at 0.03 it diverges."""

THETA = 3.0
"""Step of the rates in (11), Mbps squared: the paper says "positive"; at 10 it oscillates."""

WITHOUT_HEADERS = {"tcp.header_bytes": 0}
"""The paper's optima share whole capacities; its simulated packets have headers."""

NO_PRICE_STEP = 1.0
"""Increment of the rate of a path without a price, Mbps: (21)."""

WEIGHT_CHANGE = 1e-7
"""Algorithm 2 stops when no weight changes by more: "predetermined threshold" in its line 4."""

LEAST_WEIGHT = 1e-9
"""Smaller weights would be below the solver's residual."""


FEW = np.array([1, 0.05, 0.95, 1, 1])
"""First weights in figure 3(a): flow 2-1 has much less than flow 2-2."""


@dataclass(frozen=True, eq=False)
class Iteration:
    """The steps of an algorithm."""

    name: str
    rate: Array
    """Steps by paths, Mbps."""
    price: Array
    """Steps by links."""

    @property
    def steps(self) -> int:
        return len(self.rate) - 1

    def error(self, optimum: Array) -> Array:
        """The largest error of a path at each step, Mbps."""
        return np.asarray(np.max(np.abs(self.rate - optimum), axis=1))

    def settled(self, optimum: Array, within_mbps: float) -> int:
        """The first step from which all errors stay within `within_mbps`; raises `NotConverged`."""
        outside = np.flatnonzero(~(self.error(optimum) <= within_mbps))
        first = int(outside[-1]) + 1 if len(outside) else 0
        if first > self.steps:
            last = self.error(optimum)[-1]
            raise NotConverged(
                f"{self.name}: after {self.steps} steps a path is {last:.3g} Mbps from the optimum",
                float(last),
            )
        return first


def approximate(problem: Problem, steps: int, theta: float, gamma: float) -> Iteration:
    """The approximate iterative algorithm, (11) and (12)."""

    def run() -> Iterator[Step]:
        rate, price = equal_shares(problem), np.zeros(len(problem.capacity))
        while True:
            yield rate, price
            slope = problem.sums.T @ PROPORTIONAL.slope(problem.sums @ rate)
            rate = np.maximum(rate + theta * (slope - problem.routes.T @ price), 0)
            price = _next_price(problem, rate, price, gamma)  # prices follow from the new rates

    return _collect("(11) and (12)", run(), steps)


def best_responses(problem: Problem, steps: int, gamma: float) -> Iteration:
    """(6) with the optimal solutions of (3) for U = log, by (7) and (8): a flow sends 1/q over its
    cheapest path, the first of equals. Prices start at those of a link with one path."""

    def run() -> Iterator[Step]:
        price = 1 / problem.capacity
        to_users = sparse.csr_array(problem.sums.T)
        while True:
            q = np.asarray(problem.routes.T @ price)
            cheapest = to_users @ of_each(np.minimum, problem.sums, q)
            uses = q <= cheapest
            # The first of equals: as many before it as before its user's first path.
            before = np.cumsum(uses) - uses
            first = to_users @ of_each(np.minimum, problem.sums, before)
            rate = np.where(uses & (before == first), 1 / np.maximum(q, LEAST_WEIGHT), 0.0)
            yield rate, price
            price = np.maximum(_next_price(problem, rate, price, gamma), LEAST_WEIGHT)

    return _collect("(6) with best responses", run(), steps)


def algorithm_1(problem: Problem, steps: int, gamma: float, start: Step | None = None) -> Iteration:
    """The weight adjustment algorithm: a rate is its weight over its price, (19) to (21).

    `start`: by default equal shares of the links, and prices of 0.
    """

    def run() -> Iterator[Step]:
        rate, price = start or (equal_shares(problem), np.zeros(len(problem.capacity)))
        while True:
            yield rate, price
            weight = _shares_of_users(problem, rate)
            price = _next_price(problem, rate, price, gamma)
            q = np.asarray(problem.routes.T @ price)
            priced = q > 0
            rate = np.where(priced, weight / np.where(priced, q, 1), rate + NO_PRICE_STEP)

    return _collect("algorithm 1", run(), steps)


def algorithm_2(problem: Problem, weight: Array, steps: int) -> Iteration:
    """The weight allocation problem: the optimum for given weights (22), then new weights (24)."""

    def run() -> Iterator[Step]:
        k = weight
        while True:
            rate, price = _weighted(problem, k)
            yield rate, price
            new = _shares_of_users(problem, rate)
            if np.max(np.abs(new - k)) < WEIGHT_CHANGE:
                return
            k = new

    return _collect("algorithm 2", run(), steps)


@dataclass(frozen=True, eq=False)
class Convergence:
    """The iterations on one network, and the solver's optimum."""

    name: str
    labels: Sequence[str]
    """Labels of the paths."""
    optimum: Array
    """Optimum of each path, Mbps, from the solver."""
    routes: sparse.csr_array
    iterations: Sequence[Iteration]
    within_mbps: float = 0.05

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "network": self.name,
            "paths": list(self.labels),
            "optimum_mbps": self.optimum.tolist(),
            "iterations": [
                {
                    "algorithm": it.name,
                    "steps": it.steps,
                    "rate_mbps": it.rate[-1].tolist(),
                    "settled_step": it.settled(self.optimum, self.within_mbps),
                    "error_mbps": float(it.error(self.optimum)[-1]),
                }
                for it in self.iterations
            ],
        }


def convergence(folder: Path, steps: int, seed: int) -> list[Convergence]:
    """The three iterations on the networks of the paper's figures 3(a) and 4.

    `folder` is the paper's, which has the two scenarios.

    Algorithm 2 starts as in the paper: in figure 3(a) flow 2-1 has "much less" weight than 2-2, in
    figure 4 all weights are random. Raises `NotConverged`.
    """
    few = FEW
    random = np.random.default_rng(seed).uniform(size=6)
    fig2a, fig1b = folder / "scenario_fig2a.toml", folder / "scenario_fig1b.toml"
    return [
        _converge("figure 3(a), the network of figure 2(a)", fig2a, few, steps),
        _converge("figure 4, the triangle of figure 1(b)", fig1b, random, steps),
    ]


def _converge(name: str, file: Path, weight: Array, steps: int) -> Convergence:
    network, problem = of_file(file)
    weight = weights(problem, weight)
    iterations = [
        algorithm_2(problem, weight, steps),
        algorithm_1(problem, steps, GAMMA),
        approximate(problem, steps, THETA, GAMMA),
    ]
    best = solve(problem, PROPORTIONAL).rate
    made = Convergence(name, _labels(network), best, problem.routes, iterations)
    for iteration in iterations:
        iteration.settled(best, made.within_mbps)
    return made


def of_file(file: Path) -> tuple[Network, Problem]:
    """The network of a scenario, and its optimum as a problem, without headers."""
    network = Network.of(load(file, WITHOUT_HEADERS))
    return network, Problem.of(network)


def weights(problem: Problem, sizes: Array) -> Array:
    """k in proportion to these: the weights of a flow add up to 1."""
    return np.asarray(sizes / (problem.sums.T @ (problem.sums @ sizes)))


def _labels(network: Network) -> list[str]:
    """flow1, or flow2-1 and flow2-2 where a user has several paths."""
    sizes = np.diff(network.starts)
    return [
        flow if size == 1 else f"{flow}-{path + 1}"
        for flow, size in zip(network.flows, sizes, strict=True)
        for path in range(size)
    ]


def equal_shares(problem: Problem) -> Array:
    """The start of the iterations: an equal share of each link for each path that crosses it."""
    share = problem.capacity / np.maximum(problem.routes.sum(axis=1), 1)
    return of_each(np.minimum, sparse.csr_array(problem.routes.T), share)


def _weighted(problem: Problem, weight: Array) -> Step:
    """(22): every path is a separate user with its weight."""
    paths = len(weight)
    alone = Problem(
        capacity=problem.capacity,
        routes=problem.routes,
        sums=sparse.eye_array(paths, format="csr"),
        weight=np.maximum(weight, LEAST_WEIGHT),
        floor=np.zeros(paths),
        links=problem.links,
        users=[f"path {path}" for path in range(paths)],
    )
    solution = solve(alone, PROPORTIONAL)
    return solution.rate, solution.price


def _next_price(problem: Problem, rate: Array, price: Array, gamma: float) -> Array:
    """(12)."""
    return np.asarray(np.maximum(price - gamma * (problem.capacity - problem.routes @ rate), 0))


def _shares_of_users(problem: Problem, rate: Array) -> Array:
    """k_r = x_r / y_s, (20)."""
    return weights(problem, rate)


def _collect(name: str, run: Iterator[Step], steps: int) -> Iteration:
    with np.errstate(all="ignore"):  # `settled` reports an iteration that diverges
        taken = list(islice(run, steps + 1))
    rate, price = (np.array(column) for column in zip(*taken, strict=True))
    return Iteration(name, rate, price)
