"""States that violate a test: drawn at random, found by an optimiser, rounded."""

import numpy as np
from scipy.optimize import differential_evolution

from anabranch.theory.array import Array
from anabranch.theory.guarantees import random_states
from anabranch.theory.guarantees.conditions import Test
from anabranch.theory.law import Law, States

DECADES = 4.0
"""Largest ratio of the rates of a user in the optimiser's search, in powers of ten."""

GENERATIONS = 60


def violators(test: Test, law: Law, drawn: States) -> tuple[int, States | None]:
    """How many of the users drawn were tried, and those that violate the test."""
    states = drawn
    if test.positive:
        states = random_states.pick(drawn, random_states.with_prices(law, drawn))
    tried = len(states.starts) - 1
    if tried == 0:
        return 0, None
    bad = test.violation(law, states) > 0
    return tried, random_states.pick(states, bad) if bad.any() else None


def worst(
    test: Test, law: Law, paths: int, rtt_ratio: float, seed: int, generations: int = GENERATIONS
) -> tuple[float, States, int]:
    """The largest violation that differential evolution finds, where, and how many states it tried.

    Over rates `DECADES` apart and, beyond a ratio of 1, RTTs within it.
    """
    unequal = rtt_ratio > 1

    def states(columns: Array) -> States:
        rate = random_states.SLOWEST_RATE * 10 ** columns[:paths].T
        place = columns[paths:].T if unequal else np.zeros_like(rate)
        rtt = random_states.SHORTEST_RTT * rtt_ratio**place
        return random_states.plain(rate * rtt, rtt)

    tried = 0

    def shortfall(columns: Array) -> Array:
        nonlocal tried
        here = states(columns)
        tried += columns.shape[1]
        violation = test.violation(law, here)
        return -np.where(random_states.with_prices(law, here), violation, -10.0)

    bounds = [(0.0, DECADES)] * paths + [(0.0, 1.0)] * (paths if unequal else 0)
    found = differential_evolution(
        shortfall,
        bounds,
        vectorized=True,
        updating="deferred",
        polish=False,
        popsize=10,
        maxiter=generations,
        tol=0.0,
        seed=np.random.default_rng(seed),  # rng since SciPy 1.15, which takes both
    )
    return -float(found.fun), states(found.x[:, None]), tried


def readable(test: Test, law: Law, bad: States, rtt_ratio: float) -> States:
    """The largest violation among these, at as few digits as possible.

    Losses and queues are omitted where the test is violated without them. Rates that tie only
    through rounding are avoided, because Phi may have a kink there.
    """
    for rest in (random_states.Rest.NONE, random_states.Rest.LOSSES, random_states.Rest.ALL):
        for digits in (1, 2, 3):
            states = random_states.rounded(bad, digits, rest)
            good = random_states.rtt_ratio(states) <= rtt_ratio
            good &= random_states.distinct(random_states.by_user(states, states.rate))
            if test.positive:
                good &= random_states.with_prices(law, states)
            if good.any():
                states = random_states.pick(states, good)
                violation = test.violation(law, states)
                if violation.max() > 0:
                    return random_states.pick(states, np.array([violation.argmax()]))
    return random_states.pick(bad, np.array([test.violation(law, bad).argmax()]))
