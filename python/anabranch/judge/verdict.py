"""The verdict on an item, from the numbers that were measured at its points."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from anabranch.judge.entries import Item, Measure
from anabranch.judge.networks import Network

HOLDS, FAILS, NOT_TESTED = "holds", "fails", "not tested"


@dataclass(frozen=True)
class Number:
    """A measure at a point: the mean over the seeds, beside its bound."""

    measure: Measure
    network: Network
    seeds: Mapping[int, float]
    references: Mapping[str, Mapping[int, float]]

    @property
    def value(self) -> float:
        """The mean; NaN where a run had nothing to measure, such as no file that ended."""
        return fmean(self.seeds.values())

    @property
    def means(self) -> dict[str, float]:
        """The means of the references, by rule."""
        return {name: fmean(values.values()) for name, values in self.references.items()}

    @property
    def bound(self) -> float:
        """The bound at this point."""
        return self.measure.bound(self.means)

    @property
    def margin(self) -> float:
        """How far it is from the bound: 1 at the bound, below 1 beyond it."""
        return _margin(self.measure, self.value, self.bound)

    @property
    def holds(self) -> bool:
        """Whether it is within the bound."""
        return self.margin >= 1

    def margin_of(self, seed: int) -> float:
        """The margin with this seed alone."""
        own = {name: values.get(seed, math.nan) for name, values in self.references.items()}
        return _margin(self.measure, self.seeds[seed], self.measure.bound(own))

    @property
    def counterexample_seeds(self) -> list[int]:
        """The seed that alone crosses the bound by most; all of them, if none does alone."""
        worst = min(self.seeds, key=self.margin_of)
        return [worst] if self.margin_of(worst) < 1 else list(self.seeds)

    @property
    def in_words(self) -> str:
        """The number and its bound, such as "0.031 > 0.020 (2 x reno's 0.010)"."""
        form = f".{self.measure.digits}f"
        if math.isnan(self.value):
            return "nothing was measured, as where no file ended"
        sign = (
            ("<" if self.measure.lower else ">")
            if not self.holds
            else (">=" if self.measure.lower else "<=")
        )
        text = f"{self.value:{form}} {sign} {self.bound:{form}}"
        if self.measure.is_relative and self.means:
            factor = self.measure.at_least_of_reference or self.measure.at_most_of_reference
            chosen = min if self.measure.lower else max
            name = chosen(self.means, key=lambda one: self.means[one])
            product = (factor or 0) * self.means[name]
            if math.isclose(product, self.bound):
                text += f" ({factor:g} x {name}'s {self.means[name]:{form}})"
        return text

    def as_dict(self) -> dict[str, Any]:
        return {
            "measure": self.measure.label,
            "quantity": self.measure.quantity,
            "point": self.network.label,
            "value": _plain(self.value),
            "bound": _plain(self.bound),
            "rule": self.measure.in_words,
            "why": self.measure.why,
            "holds": self.holds,
            "seeds": {str(seed): _plain(value) for seed, value in self.seeds.items()},
            "references": {name: _plain(value) for name, value in self.means.items()},
        }


def _margin(measure: Measure, value: float, bound: float) -> float:
    if math.isnan(bound):  # the reference has nothing to measure either
        return math.inf
    if math.isnan(value):
        return 0.0
    if measure.lower:
        return value / bound if bound > 0 else math.inf
    if value <= 0:
        return math.inf
    return max(bound, 0.0) / value


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class Verdict:
    """Answer to an item."""

    name: str
    item: Item
    result: str
    """"holds", "fails" or "not tested"."""
    says: str
    """The number that decides, the reason, or the state, in a few words."""
    numbers: Sequence[Number] = ()
    """All that was measured."""
    state: str = ""
    """The counterexample of a check that is no run."""
    notes: Sequence[str] = field(default_factory=tuple)

    @property
    def worst(self) -> Number | None:
        """The number that is nearest to its bound, or farthest beyond it."""
        return min(self.numbers, key=lambda one: one.margin, default=None)

    @property
    def counterexample(self) -> Number | None:
        """The first number beyond its bound, at the smallest point where there is one."""
        return next((one for one in self.numbers if not one.holds), None)

    def as_dict(self) -> dict[str, Any]:
        found, worst = self.counterexample, self.worst
        return {
            "item": self.name,
            "section": self.item.section,
            "level": self.item.level,
            "title": self.item.title,
            "question": self.item.question,
            "result": self.result,
            "says": self.says,
            "state": self.state or None,
            "worst": worst.as_dict() if worst else None,
            "counterexample": found.as_dict() if found else None,
            "numbers": [one.as_dict() for one in self.numbers],
            "notes": list(self.notes),
        }


def of_numbers(name: str, item: Item, numbers: Sequence[Number]) -> Verdict:
    """Holds if every number is within its bound; the smallest point beyond it says why not."""
    verdict = Verdict(name, item, HOLDS, "", numbers)
    shown = verdict.counterexample or verdict.worst
    assert shown is not None
    result = HOLDS if verdict.counterexample is None else FAILS
    point = f"{shown.network.label}: " if len(item.points) != 1 else ""
    says = f"{point}{shown.measure.label}: {shown.in_words}"
    worst = verdict.worst
    if result == FAILS and worst is not None and worst is not shown:
        label = "" if worst.measure is shown.measure else f"{worst.measure.label} "
        says += f"; worst at {worst.network.label}: {label}{worst.in_words}"
    return Verdict(name, item, result, says, numbers)


def not_tested(name: str, item: Item, why: str) -> Verdict:
    """An item without an answer."""
    return Verdict(name, item, NOT_TESTED, why)
