"""The range of a condition: up to how many paths, and up to which ratio of RTTs, it holds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import differential_evolution

from anabranch.theory.array import Array
from anabranch.theory.guarantees import counterexamples, random_states
from anabranch.theory.guarantees.conditions import CONDITIONS
from anabranch.theory.law import Law, States

WIDEST_RATIO = 100.0
"""The largest RTT ratio that is tried."""

BISECTIONS = 16


@dataclass(frozen=True)
class Margin:
    """The worst state found for one number of paths."""

    paths: int
    violation: float
    """C2's largest eigenvalue, scaled; at least 0 where the condition is violated."""
    states: States


def margins(spec: str, paths: Sequence[int], seed: int = 1) -> list[Margin]:
    """How close the worst states come to violating C2 at equal RTTs, for each number of paths.

    The worst state of differential evolution, or the one with all rates but one at the smallest
    allowed: the vertex of theorem 4.1's proof.
    """
    law, test = Law(spec), CONDITIONS["C2"][1][0]
    found = []
    for n in paths:
        violation, states, _ = counterexamples.worst(test, law, n, 1.0, seed, generations=200)
        corner = vertex(n)
        at_corner = float(test.violation(law, corner)[0])
        best = (at_corner, corner) if at_corner > violation else (violation, states)
        found.append(Margin(n, *best))
    return found


def vertex(paths: int) -> States:
    """Equal RTTs, and one path ten thousand times as fast as each other."""
    rate = np.full((1, paths), random_states.SLOWEST_RATE)
    rate[0, 0] *= 10**counterexamples.DECADES
    rtt = np.full_like(rate, random_states.SHORTEST_RTT)
    return random_states.plain(rate * rtt, rtt)


@dataclass(frozen=True)
class RatioLimit:
    """The smallest RTT ratio found at which a condition is violated."""

    paths: int
    ratio: float
    """Infinite where none up to `WIDEST_RATIO` violates it."""
    states: States


def ratio_limit(spec: str, condition: str, paths: int, seed: int = 1) -> RatioLimit:
    """The smallest ratio of RTTs at which the condition's first test fails.

    Differential evolution over rates and over the places of the RTTs between the shortest and the
    longest; what it minimises is the ratio at which that user begins to violate the test.
    """
    law, test = Law(spec), CONDITIONS[condition][1][0]

    def states(columns: Array, log_ratio: Array) -> States:
        rate = random_states.SLOWEST_RATE * 10 ** columns[:paths].T
        place = columns[paths:].T
        place = place - place.min(axis=1, keepdims=True)
        place = place / np.maximum(place.max(axis=1, keepdims=True), 1e-9)
        rtt = random_states.SHORTEST_RTT * np.exp(log_ratio[:, None] * place)
        return random_states.plain(rate * rtt, rtt)

    def least(columns: Array) -> Array:
        """The log ratio from which the test fails, by bisection; more than the widest if none."""
        low = np.zeros(columns.shape[1])
        high = np.full(columns.shape[1], np.log(WIDEST_RATIO))
        at_widest = test.violation(law, states(columns, high))
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            fails = test.violation(law, states(columns, middle)) > 0
            low, high = np.where(fails, low, middle), np.where(fails, middle, high)
        return np.where(at_widest > 0, high, np.log(WIDEST_RATIO) + 1 - np.minimum(at_widest, 0))

    found = differential_evolution(
        least,
        [(0.0, counterexamples.DECADES)] * paths + [(0.0, 1.0)] * paths,
        vectorized=True,
        updating="deferred",
        polish=False,
        popsize=10,
        maxiter=counterexamples.GENERATIONS,
        seed=np.random.default_rng(seed),  # rng since SciPy 1.15, which takes both
    )
    best = found.x[:, None]
    if found.fun > np.log(WIDEST_RATIO):
        return RatioLimit(paths, float("inf"), states(best, np.array([np.log(WIDEST_RATIO)])))
    return RatioLimit(paths, float(np.exp(found.fun)), states(best, np.array([found.fun])))
