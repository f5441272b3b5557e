"""Whether a rule in Python is one at all: pure, with finite answers of a sensible size."""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from anabranch._core import ScenarioError
from anabranch.rule import Rule

MOST_INCREASE = 10.0
"""Packets per acknowledged packet beyond which an increase is not meant: slow start has 1."""

MOST_DECREASE = 1000.0
"""Windows beyond which a decrease is not meant; rules whose windows are coupled exceed 1."""


@dataclass(frozen=True)
class State:
    """A path as a rule sees it: the attributes of `Path`, in packets and seconds."""

    window: float
    rtt: float
    base_rtt: float
    since_loss: float = 400.0
    between_losses: float = 500.0
    loss_interval: float = 480.0
    peak: float = 30.0
    prior_peak: float = 28.0
    epoch_window: float = 15.0
    age: float = 2.0
    rounds: float = 40.0

    @property
    def round_rtt(self) -> float:
        """As `rtt`."""
        return self.rtt

    @property
    def queue_delay(self) -> float:
        """The RTT without the base RTT, s."""
        return self.rtt - self.base_rtt

    @property
    def rate(self) -> float:
        """`window / rtt`."""
        return self.window / self.rtt


ORDINARY: Sequence[Sequence[State]] = [
    [State(20.0, 0.05, 0.04)],
    [State(10.0, 0.05, 0.04), State(40.0, 0.2, 0.1)],
    [State(2.0, 0.1, 0.1), State(2.0, 0.1, 0.1)],
    [State(100.0, 0.03, 0.01), State(5.0, 0.3, 0.1), State(50.0, 0.08, 0.05)],
]
"""States of one to three paths."""


def random_states(counts: Sequence[int], each: int) -> list[list[State]]:
    """For each number of paths as many random states, always the same."""
    dice = random.Random(9743)
    return [[_random_path(dice) for _ in range(count)] for count in counts for _ in range(each)]


def _random_path(dice: random.Random) -> State:
    window = math.exp(dice.uniform(0, math.log(1e4)))
    base = math.exp(dice.uniform(math.log(1e-3), 0))
    peak = window * dice.choice([0.0, 1 + dice.random()])
    interval = 0.0 if peak == 0 else math.exp(dice.uniform(1, math.log(1e5)))
    return State(
        window=window,
        rtt=base + base * dice.choice([0.0, dice.random()]),
        base_rtt=base,
        since_loss=interval * dice.random(),
        between_losses=interval,
        loss_interval=interval,
        peak=peak,
        prior_peak=peak,
        epoch_window=peak / 2,
        age=10 * dice.random(),
        rounds=100 * dice.random(),
    )


@dataclass(frozen=True)
class Oddity:
    """An answer that is probably not meant."""

    method: str
    says: str
    state: str


class Raised(Exception):
    """A rule raised the exception that is the cause of this one, for this state."""


def oddities(rule: Rule, states: Sequence[Sequence[State]]) -> Iterator[Oddity]:
    """At most one for each method: an impure answer, or else one of a senseless size.

    Raises `ScenarioError` for an answer that is no finite number, `Raised` where the rule raises.
    """
    asked = [(paths, r) for paths in states for r in range(len(paths))]
    for method in ("increase", "decrease"):
        first = [_answer(rule, method, paths, r) for paths, r in asked]
        # The other way round: memory of the calls before shows.
        again = [_answer(rule, method, paths, r) for paths, r in reversed(asked)][::-1]
        for (paths, r), value, other in zip(asked, first, again, strict=True):
            says = _odd(method, paths[r].window, value, other)
            if says:
                yield Oddity(method, says, _words(paths, r))
                break


def problems(rule: Rule) -> list[str]:
    """The oddities in ordinary states, a line each. Raises as `oddities`."""
    name = _name(rule)
    return [f"{name}.{odd.method} {odd.says} ({odd.state})" for odd in oddities(rule, ORDINARY)]


def _odd(method: str, window: float, value: float, other: float) -> str:
    if value != other:
        return f"is {value:g}, then {other:g} for the same paths: a rule must be pure"
    if method == "increase" and not -max(window, 1.0) <= value <= MOST_INCREASE:
        return f"is {value:g} packets per acknowledged packet: is that meant?"
    if method == "decrease" and not 0 <= value <= MOST_DECREASE * window:
        return f"is {value:g} packets: is that meant?"
    return ""


def _answer(rule: Rule, method: str, paths: Sequence[State], r: int) -> float:
    given: Any = paths
    try:
        value = getattr(rule, method)(r, given)
    except Exception as error:
        raise Raised(_words(paths, r)) from error
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise ScenarioError(
            f"{_name(rule)}.{method} is {value!r} for {_words(paths, r)}: expected a finite number "
            "of packets"
        )
    return float(value)


def _name(rule: Rule) -> str:
    return str(getattr(rule, "name", type(rule).__name__))


def _words(paths: Sequence[State], r: int) -> str:
    """A state, to look at or to try: the numbers that most rules read."""
    each = [f"window={path.window:.4g}, rtt={path.rtt:.4g}" for path in paths]
    return f"path {r} of [{'; '.join(each)}]"
