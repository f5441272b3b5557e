"""Bounds of a rule's increase, decrease and change per round trip, over all cases and states."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from anabranch import _core
from anabranch.rule import in_file, in_one_line, made
from anabranch.scenario import ScenarioError, rules
from bounds.monomial import Bounds, OutOfRange
from bounds.number import Case, DivisionByZero, Infeasible, Number
from bounds.states import DELAY_BASED, LOSS_BASED, MEMORY, memories, memory_ranges, states

TIMEOUT_S = 60.0
"""Time for one rule and number of paths, s."""

NONE: Bounds = (math.inf, -math.inf)


@dataclass
class RuleBounds:
    """Bounds of one rule over all states of connections of one size."""

    rule: str
    paths: int
    per_round: bool
    """Whether it acts once per round trip: `change` is then of one, else of a packet."""
    by_window: bool = True
    """Whether the increase is that of windows and RTTs, not of the time since the last loss."""
    change: Bounds = NONE
    """Change of the window, packets."""
    change_of_window: Bounds = NONE
    """The change times the window for a packet, relative to the window for a round trip."""
    decrease_of_window: Bounds = NONE
    """The decrease at a loss, relative to the window."""
    exponents: Bounds = NONE
    """Exponents of 2 between which every result of an operation is, where it is not 0."""
    cases: int = 0
    seconds: float = 0.0
    failure: str = ""
    """Event that may happen and must not, or the reason why there are no bounds."""

    def as_dict(self) -> dict[str, Any]:
        found = asdict(self)
        for name in ("change", "change_of_window", "decrease_of_window", "exponents"):
            known = not self.failure and found[name] != NONE
            found[name] = list(found[name]) if known else None
        found["seconds"] = round(self.seconds, 2)
        return found | {"proved": self.proved}

    @property
    def proved(self) -> bool:
        """Whether no divisor is 0, all results are within the format and a loss leaves a part of
        the window, and no more than it was."""
        low, high = self.decrease_of_window
        return not self.failure and low >= 0 and high < 1


def bounds(text: str, paths: int, timeout_s: float = TIMEOUT_S) -> RuleBounds:
    """Bounds over all states of this number of paths. Raises `ScenarioError` for no such rule."""
    evaluate, name, law = _evaluated(text)
    per_round = law is not None and law.delay_based
    found = RuleBounds(name, paths, per_round, by_window=law is None or law.fluid)
    start = time.monotonic()
    try:
        for case, numbers in _cases(evaluate, paths, per_round):
            _note(found, case, numbers)
            if time.monotonic() - start > timeout_s:
                found.failure = f"not finished after {timeout_s:g} s and {found.cases} cases"
                break
    except (DivisionByZero, OutOfRange) as error:
        found.failure = str(error)
    except TypeError as error:
        raise ScenarioError(f"{name}: {error}") from None
    found.seconds = time.monotonic() - start
    return found


@dataclass
class _Numbers:
    """Results of a rule in one case."""

    window: Number
    change: Number
    decrease: Number
    memory: Sequence[Number] = ()


_Evaluated = Callable[[Case, int, dict[str, Bounds]], _Numbers]
"""A rule in one case, for a number of paths and ranges of its memory."""


def _evaluated(text: str) -> tuple[_Evaluated, str, _core.Law | None]:
    """A rule of the table or FILE.py:CLASS, its name, and the law of the first."""
    if place := in_file(text):
        written = made(*place)

        def in_python(case: Case, paths: int, _memory: dict[str, Bounds]) -> _Numbers:
            own: list[Any] = list(states(case, paths, LOSS_BASED))
            try:
                results = written.increase(0, own), written.decrease(0, own)
            except (DivisionByZero, OutOfRange, Infeasible):
                raise
            except Exception as error:
                raise ScenarioError(f"{place[0]}: {in_one_line(error, place[0])}") from None
            increase, decrease = (_number(case, one) for one in results)
            return _Numbers(own[0].window, increase, decrease)

        return in_python, place[1], None
    law = _core.Law(text)
    if any(rule["by_rate"] and rule["name"] == law.name.partition(":")[0] for rule in rules()):
        raise ScenarioError(f"{law.name} acts on delivery rates, which no kernel program has")

    def per_packet(case: Case, paths: int, _memory: dict[str, Bounds]) -> _Numbers:
        own = states(case, paths, LOSS_BASED)
        ((increase, decrease),) = law.evaluate_in(own, 1)
        return _Numbers(own[0].window, _number(case, increase), _number(case, decrease))

    def per_round(case: Case, paths: int, memory: dict[str, Bounds]) -> _Numbers:
        own = states(case, paths, DELAY_BASED)
        change, after = law.end_round_in(own, memories(case, paths, memory))
        ((_, decrease),) = law.evaluate_in(own, 1)
        kept = [_number(case, one) for one in after]
        return _Numbers(own[0].window, _number(case, change), _number(case, decrease), kept)

    return (per_round if law.delay_based else per_packet), law.name, law


def _number(case: Case, number: Any) -> Number:
    return number if isinstance(number, Number) else case.constant(number)


def _cases(evaluate: _Evaluated, paths: int, per_round: bool) -> Iterator[tuple[Case, _Numbers]]:
    """Every case of the rule's comparisons that may occur."""
    for memory in memory_ranges() if per_round else [{}]:
        waiting: list[list[bool]] = [[]]
        while waiting:
            answers = waiting.pop()
            case = Case(answers)
            with suppress(Infeasible):
                yield case, evaluate(case, paths, memory)
            for number in range(len(answers), len(case.asked)):
                waiting.append([*answers, *[True] * (number - len(answers)), False])


def _note(found: RuleBounds, case: Case, numbers: _Numbers) -> None:
    """Enclose the results of a case, too. Raises `OutOfRange`."""
    found.cases += 1
    found.change = _hull(found.change, numbers.change.best)
    if found.per_round:
        found.change_of_window = _hull(found.change_of_window, numbers.change.over(numbers.window))
    elif found.by_window:
        found.change_of_window = _hull(found.change_of_window, numbers.change.times(numbers.window))
    found.decrease_of_window = _hull(
        found.decrease_of_window, numbers.decrease.over(numbers.window)
    )
    found.exponents = _hull(found.exponents, case.exponents)
    for number, (name, ranges) in zip(numbers.memory, MEMORY.items(), strict=False):
        low, high = number.best
        least = min((a for a, _ in ranges if a), default=0.0)
        if low < 0 or high > ranges[-1][1] or (high and number.least < least):
            raise OutOfRange(f"{name} of the memory may become {low:.6g} to {high:.6g}")


def _hull(a: Bounds, b: Bounds) -> Bounds:
    return min(a[0], b[0]), max(a[1], b[1])
