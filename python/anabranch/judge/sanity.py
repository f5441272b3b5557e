"""Item zero: whether a rule in Python is one at all, before anything runs.

Its answers must be finite numbers, the same for the same state, and such that a window stays one.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from anabranch._core import Path, expected_one_of
from anabranch.judge.subject import Subject
from anabranch.rule_file import raised_in
from anabranch.scenario import ScenarioError

PATHS = (1, 2, 3, 8)
STATES = 60
"""States for each number of paths."""
MOST_INCREASE = 1.0
"""Packets per acknowledged packet: slow start, the fastest growth of a window, adds one."""


@dataclass(frozen=True)
class State:
    """A path as a rule sees it (`anabranch.Path`): packets and seconds."""

    window: float
    rtt: float
    base_rtt: float
    round_rtt: float
    queue_delay: float
    since_loss: float
    between_losses: float
    loss_interval: float
    peak: float
    prior_peak: float
    epoch_window: float
    age: float

    @property
    def rate(self) -> float:
        """`window / rtt`, packets/s."""
        return self.window / self.rtt


@dataclass(frozen=True)
class Oddity:
    """What is wrong with a rule that answers: the item fails, and the rest runs nevertheless."""

    says: str
    state: str


def check(subject: Subject) -> Oddity | None:
    """The first oddity of a rule in Python; None if there is none, and for a rule of the table.

    Raises `ScenarioError` where an answer is no finite number, and where the rule raises.
    """
    if subject.written is None:
        return None
    asked = [(r, paths) for paths in _states() for r in range(len(paths))]
    first = [_answers(subject, r, paths) for r, paths in asked]
    # The other way round: memory of the calls before shows.
    again = [_answers(subject, r, paths) for r, paths in reversed(asked)][::-1]
    for (r, paths), one, other in zip(asked, first, again, strict=True):
        for method, a, b in zip(("increase", "decrease"), one, other, strict=True):
            if a != b:
                return Oddity(
                    f"{method} gives {a:g} and then {b:g} for the same state", words(r, paths)
                )
    for (r, paths), (increase, decrease) in zip(asked, first, strict=True):
        window = paths[r].window
        if increase > MOST_INCREASE:
            says = f"increase gives {increase:g}: faster than slow start, which adds 1"
            return Oddity(says, words(r, paths))
        if increase < -window:
            return Oddity(f"increase gives {increase:g}: more than the window is", words(r, paths))
        if decrease > window:
            return Oddity(f"decrease gives {decrease:g}: more than the window is", words(r, paths))
    return None


def words(r: int, paths: Sequence[State]) -> str:
    """A state, to look at or to try: the numbers that most rules read."""
    each = [f"window={p.window:.4g}, rtt={p.rtt:.4g}" for p in paths]
    return f"path {r} of [{'; '.join(each)}]"


def _states() -> Iterator[list[State]]:
    dice = random.Random(9743)
    for count in PATHS:
        for _ in range(STATES):
            yield [_path(dice) for _ in range(count)]


def _path(dice: random.Random) -> State:
    window = math.exp(dice.uniform(0, math.log(1e4)))
    base = math.exp(dice.uniform(math.log(1e-3), 0))
    queue = base * dice.choice([0.0, dice.random()])
    peak = window * dice.choice([0.0, 1 + dice.random()])
    interval = 0.0 if peak == 0 else math.exp(dice.uniform(1, math.log(1e5)))
    return State(
        window=window,
        rtt=base + queue,
        base_rtt=base,
        round_rtt=base + queue,
        queue_delay=queue,
        since_loss=interval * dice.random(),
        between_losses=interval,
        loss_interval=interval,
        peak=peak,
        prior_peak=peak,
        epoch_window=peak / 2,
        age=10 * dice.random(),
    )


def _answers(subject: Subject, r: int, paths: list[State]) -> tuple[float, float]:
    rule = subject.written
    assert rule is not None
    given: Any = paths
    increase, decrease = (
        _finite(subject, name, r, paths, getattr(rule, name), given)
        for name in ("increase", "decrease")
    )
    return increase, decrease


def _finite(
    subject: Subject, name: str, r: int, paths: list[State], method: Any, given: Any
) -> float:
    try:
        found = method(r, given)
    except AttributeError as error:
        if not isinstance(error.obj, State):
            raise failed(subject, error) from error
        known = [key for key in dir(Path) if not key.startswith("_")]
        what = f"a path has no {error.name}: {expected_one_of(str(error.name), known)}"
        raise ScenarioError(f"{_place(subject, error)}: {what}") from error
    except Exception as error:
        raise failed(subject, error, words(r, paths)) from error
    if not isinstance(found, int | float) or not math.isfinite(found):
        raise ScenarioError(
            f"{subject.text}: {name} gives {found!r} for {words(r, paths)}: expected a finite "
            "number of packets"
        )
    return float(found)


def failed(subject: Subject, error: Exception, state: str = "") -> ScenarioError:
    """The error of a rule that raised one: its place, and the state."""
    where = f" (for {state})" if state else ""
    return ScenarioError(f"{_place(subject, error)}: {type(error).__name__}: {error}{where}")


def _place(subject: Subject, error: Exception) -> str:
    return raised_in(error, subject.file) if subject.file else subject.text
