"""The guarantees of a rule: each condition holds at a number of states, or a counterexample."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import differential_evolution

from anabranch.runner import Progress
from anabranch.scenario import rules
from anabranch.theory.array import Array
from anabranch.theory.guarantees import random_states
from anabranch.theory.guarantees.conditions import (
    CHANGE,
    CONDITIONS,
    Test,
    kink,
    phi_jacobian,
    regular,
)
from anabranch.theory.law import Law, States

# States that violate a test: drawn at random, found by an optimiser, rounded.


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


def worst_states(
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


PATHS = range(2, 9)
USERS = 1000
SEED = 1

DRIVEN = ("C2", "C4")
"""Conditions searched by an optimiser, too, where no random state violates them."""


@dataclass(frozen=True)
class Counterexample:
    """One user whose paths violate a condition."""

    window: list[float]
    rtt: list[float]
    queue_delay: list[float]
    loss_probability: list[float]
    why: str

    @classmethod
    def of(cls, test: Test, law: Law, states: States) -> "Counterexample":
        loss = 1.0 / states.loss_interval
        columns = (states.window, states.rtt, states.queue_delay, loss)
        window, rtt, delay, loss_probability = (_short(column) for column in columns)
        return cls(window, rtt, delay, loss_probability, test.why(law, states))

    def states(self) -> States:
        return States.of_user(self.window, self.rtt, self.queue_delay, self.loss_probability)

    @property
    def code(self) -> str:
        """The Python expression of these states, to paste into a test."""
        rest = ""
        if any(self.queue_delay):
            rest += f", queue_delay={self.queue_delay}"
        if any(loss != 0.01 for loss in self.loss_probability):
            rest += f", loss_probability={self.loss_probability}"
        return f"States.of_user({self.window}, {self.rtt}{rest})"

    def as_dict(self) -> dict[str, Any]:
        return {"code": self.code, "why": self.why}


@dataclass(frozen=True)
class Verdict:
    """The verdict on one condition."""

    condition: str
    states: int
    """How many states were tried; 0 if the rule is stationary at none."""
    counterexample: Counterexample | None

    @property
    def holds(self) -> bool:
        return self.states > 0 and self.counterexample is None

    def as_dict(self) -> dict[str, Any]:
        example = self.counterexample
        return {
            "holds": self.holds,
            "states": self.states,
            "counterexample": example.as_dict() if example else None,
        }


@dataclass(frozen=True)
class Guarantees:
    """The verdicts on one rule."""

    rule: str
    paths: Sequence[int]
    rtt_ratio: float
    verdicts: dict[str, Verdict]
    """Verdict of each condition; empty where the conditions do not apply."""
    notes: list[str]
    kinks: bool = False
    """Whether the Jacobian jumps, so that Phi is not continuously differentiable."""
    singular: bool = False
    """Whether the Jacobian has no inverse at any state tried."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "rule": self.rule,
            "paths": list(self.paths),
            "rtt_ratio": self.rtt_ratio,
            "conditions": {name: verdict.as_dict() for name, verdict in self.verdicts.items()},
            "notes": self.notes,
        }


@dataclass(frozen=True)
class Survey:
    """The verdicts on many rules."""

    rules: list[Guarantees]

    def as_dict(self) -> dict[str, Any]:
        return {"rules": [one.as_dict() for one in self.rules]}


def check(
    spec: str,
    paths: Sequence[int] = PATHS,
    rtt_ratio: float = 1.0,
    seed: int = SEED,
    users: int = USERS,
) -> Guarantees:
    """Test every condition on one rule. Raises `ScenarioError` for an unknown rule.

    `paths`: the numbers of paths of a user. `rtt_ratio`: longest over shortest RTT, at most.
    `users` are drawn for each number of paths; a slow test tries a part of them.
    """
    law = Law(spec)
    if law.delay_based:
        notes = ["acts once per round trip: it has no increase per packet, hence no phi"]
        return Guarantees(law.name, paths, rtt_ratio, {}, notes)
    drawn = {
        n: random_states.draw(n, users, rtt_ratio, np.random.default_rng([seed, n])) for n in paths
    }
    if not any(random_states.with_prices(law, states).any() for states in drawn.values()):
        notes = ["has no positive phi at any state tried: its increase is no function of the rates"]
        return Guarantees(law.name, paths, rtt_ratio, {}, notes)
    verdicts = {name: _verdict(law, name, drawn, rtt_ratio, seed) for name in CONDITIONS}
    few = _few(drawn)
    kinks = bool((kink(law, few) > CHANGE).any())
    stationary = random_states.pick(few, random_states.with_prices(law, few))
    singular = not regular(phi_jacobian(law, stationary)).any()
    notes = _notes(law, drawn, kinks, singular)
    return Guarantees(law.name, paths, rtt_ratio, verdicts, notes, kinks, singular)


def check_all(
    paths: Sequence[int] = PATHS,
    rtt_ratio: float = 1.0,
    progress: Progress | None = None,
) -> Survey:
    """Every rule of the table, and Balia as its paper prints it, without a cap."""
    names = [rule["name"] for rule in rules()]
    names.insert(names.index("balia") + 1, "balia:cap=inf")
    found = []
    for i, name in enumerate(names):
        if progress:
            progress(i / len(names))
        found.append(check(name, paths, rtt_ratio))
    return Survey(found)


def _verdict(
    law: Law, condition: str, drawn: dict[int, States], rtt_ratio: float, seed: int
) -> Verdict:
    tried = 0
    for test in CONDITIONS[condition][1]:
        for states in drawn.values():
            part = np.arange(max(1, round(test.share * (len(states.starts) - 1))))
            number, bad = violators(test, law, random_states.pick(states, part))
            tried += number
            if bad:
                example = readable(test, law, bad, rtt_ratio)
                return Verdict(condition, tried, Counterexample.of(test, law, example))
    if condition in DRIVEN:
        test = CONDITIONS[condition][1][0]
        violation, worst, number = worst_states(test, law, max(drawn), rtt_ratio, seed)
        tried += number
        if violation > 0:
            example = readable(test, law, worst, rtt_ratio)
            return Verdict(condition, tried, Counterexample.of(test, law, example))
    return Verdict(condition, tried, None)


def _few(drawn: dict[int, States]) -> States:
    """Some of the users with the fewest paths."""
    states = next(iter(drawn.values()))
    return random_states.pick(states, np.arange(min(50, len(states.starts) - 1)))


def _notes(law: Law, drawn: dict[int, States], kinks: bool, singular: bool) -> list[str]:
    """Notes on the verdicts: other arguments of phi, kinks, a singular Jacobian."""
    states = next(iter(drawn.values()))
    notes = []
    for what, others in {
        "the loss interval": _with_rest(states, queue_delay=states.queue_delay),
        "the queueing delay": _with_rest(states, loss_interval=states.loss_interval),
    }.items():
        if not np.allclose(law.phi(states), law.phi(others), rtol=1e-9, atol=0):
            notes.append(f"phi depends on {what} too, which is held while the rates move")
    if kinks:
        notes.append("Phi has kinks: C0 and C2 are judged on either side of them")
    if singular:
        notes.append("the Jacobian is singular: C4's sums are the least z with z' J = 1', if any")
    return notes


def _with_rest(
    states: States, queue_delay: Array | None = None, loss_interval: Array | None = None
) -> States:
    delay = np.zeros_like(states.rtt) if queue_delay is None else queue_delay
    interval = np.full_like(states.rtt, 100.0) if loss_interval is None else loss_interval
    return States(states.starts, states.window, states.rtt, states.rtt - delay, delay, interval)


def _short(column: Array) -> list[float]:
    return [float(f"{value:.6g}") for value in column]
