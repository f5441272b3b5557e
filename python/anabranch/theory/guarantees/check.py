"""The guarantees of a rule: each condition holds at a number of states, or a counterexample."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anabranch.runner import Progress
from anabranch.scenario import rules
from anabranch.theory.array import Array
from anabranch.theory.guarantees import counterexamples, random_states
from anabranch.theory.guarantees.conditions import CONDITIONS, Test
from anabranch.theory.guarantees.jacobian import phi_jacobian, regular
from anabranch.theory.guarantees.smoothness import CHANGE, kink
from anabranch.theory.law import Law, States

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
            number, bad = counterexamples.violators(test, law, random_states.pick(states, part))
            tried += number
            if bad:
                example = counterexamples.readable(test, law, bad, rtt_ratio)
                return Verdict(condition, tried, Counterexample.of(test, law, example))
    if condition in DRIVEN:
        test = CONDITIONS[condition][1][0]
        violation, worst, number = counterexamples.worst(test, law, max(drawn), rtt_ratio, seed)
        tried += number
        if violation > 0:
            example = counterexamples.readable(test, law, worst, rtt_ratio)
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
