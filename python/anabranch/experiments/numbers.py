"""A number beside its bound, and the answer to an item from all of its numbers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

import numpy as np

from anabranch.experiments.decision import (
    FAILS,
    HOLDS,
    RATE,
    UNDECIDED,
    Array,
    Looks,
    Margin,
    Parts,
    decided,
    undecided_in_words,
)
from anabranch.experiments.networks import Network
from anabranch.experiments.suite import Bound, Item, Measure
from anabranch.formats import finite

NOT_TESTED = "not tested"
RESULTS = (HOLDS, FAILS, UNDECIDED, NOT_TESTED)


@dataclass(frozen=True, eq=False)
class Number:
    """A measure in a case with a rule: the mean over the seeds, beside its bound."""

    measure: Measure
    bound: Bound
    network: Network
    rule: str
    seeds: Mapping[int, float]
    references: Mapping[str, Mapping[int, float]]
    looks: Looks
    each: bool = False
    """Whether it has to keep the bound to each reference, not to any."""
    certain: bool = False
    """Whether nothing is random."""
    among: int = 1
    """How many numbers the item has, all of which have to be inside."""

    @property
    def value(self) -> float:
        """The mean; NaN where no run had something to measure, such as a file that ended."""
        return _mean(self.seeds)

    @property
    def means(self) -> dict[str, float]:
        """The means of the references, by name."""
        return {name: _mean(values) for name, values in self.references.items()}

    @cached_property
    def margins(self) -> Parts:
        """The margins, of the same seeds."""
        ours = _by_seed(self.seeds, self.seeds)
        sides: list[Margin | Parts] = []
        for sign, factor, plain in self.bound.sides:
            parts: list[Margin | Parts] = []
            if factor is not None:
                for values in self.references.values():
                    limit = factor * _by_seed(values, self.seeds)
                    parts.append(self._margin(sign, ours, limit))
            if self.each and parts:
                parts = [Parts.all(parts)]
            if plain is not None:
                parts.append(self._margin(sign, ours, np.full_like(ours, plain)))
            if parts:
                sides.append(Parts(parts, 1))
        return Parts.all(sides, exclusive=True)

    def _margin(self, sign: int, ours: Array, limit: Array) -> Margin:
        with np.errstate(invalid="ignore"):
            away = sign * (ours - limit)
        away[np.isnan(ours) & ~np.isnan(limit)] = -math.inf
        away[~np.isnan(ours) & np.isnan(limit)] = math.inf
        there = limit[np.isfinite(limit)]
        scale = abs(float(there.mean())) if len(there) else 0.0
        return Margin(away, self.looks, scale, self.certain)

    @property
    def result(self) -> str:
        """Whether it is inside its bound, as one of the item's numbers."""
        if self.margins.on(1, RATE):
            return HOLDS
        return FAILS if self.margins.on(-1, RATE / self.among) else UNDECIDED

    @property
    def needs_more(self) -> bool:
        """Whether more seeds may decide it."""
        if self.result != UNDECIDED or self.certain:
            return False
        return not all(one.hopeless for one in self.margins.margins())

    @property
    def limit(self) -> tuple[int, float]:
        """The side of the bound that is nearest (1 from below, -1 from above), and where it is."""
        return self._limit(self.value, self.means)

    @property
    def margin(self) -> float:
        """How far it is from the bound: 1 at the bound, below 1 beyond it."""
        return _ratio(self.value, *self.limit)

    def margin_of(self, seed: int) -> float:
        """The margin with this seed alone."""
        own = {name: values.get(seed, math.nan) for name, values in self.references.items()}
        return _ratio(self.seeds[seed], *self._limit(self.seeds[seed], own))

    def _limit(self, value: float, references: Mapping[str, float]) -> tuple[int, float]:
        found = []
        for sign, factor, plain in self.bound.sides:
            limits = [] if plain is None else [plain]
            if factor is not None and references:
                # Several standards: the more lenient counts.
                lenient = (sign > 0) != self.each
                of = min(references.values()) if lenient else max(references.values())
                limits.append(factor * of)
            if limits:
                found.append((sign, min(limits) if sign > 0 else max(limits)))
        return min(found, key=lambda one: _ratio(value, *one))

    @property
    def in_words(self) -> str:
        """The number and its bound, such as "0.031 > 0.020 (2 x reno's 0.010)"."""
        form = f".{self.measure.digits}f"
        if math.isnan(self.value):
            return "nothing was measured, as where no file ended"
        side, limit = self.limit
        inside = self.margin >= 1
        sign = (">=" if side > 0 else "<=") if inside else ("<" if side > 0 else ">")
        text = f"{self.value:{form}} {sign} {limit:{form}}"
        factor = self.bound.at_least_of if side > 0 else self.bound.at_most_of
        if factor is not None and self.means:
            away = {name: abs(factor * mean - limit) for name, mean in self.means.items()}
            name = min(away, key=lambda one: away[one])
            if math.isclose(factor * self.means[name], limit):
                text += f" ({factor:g} x {name}'s {self.means[name]:{form}})"
        return text

    def as_dict(self) -> dict[str, Any]:
        return {
            "measure": self.measure.label,
            "quantity": self.measure.quantity,
            "case": self.network.label,
            "value": finite(self.value),
            "bound": finite(self.limit[1]),
            "rule": self.bound.in_words,
            "why": self.bound.why,
            "result": self.result,
            "holds": self.margin >= 1,
            "seeds": {str(seed): finite(value) for seed, value in self.seeds.items()},
            "references": {name: finite(value) for name, value in self.means.items()},
        }


def _mean(values: Mapping[int, float]) -> float:
    there = [value for value in values.values() if not math.isnan(value)]
    return fmean(there) if there else math.nan


def _by_seed(values: Mapping[int, float], seeds: Mapping[int, float]) -> Array:
    return np.array([values.get(seed, math.nan) for seed in seeds], dtype=float)


def _ratio(value: float, side: int, limit: float) -> float:
    if math.isnan(limit):  # the reference has nothing to measure either
        return math.inf
    if math.isnan(value):
        return 0.0
    if side > 0:
        return value / limit if limit > 0 else math.inf
    return math.inf if value <= 0 else max(limit, 0.0) / value


@dataclass(frozen=True, eq=False)
class Answer:
    """Answer to an item for a rule."""

    name: str
    item: Item
    rule: str
    result: str
    """One of `RESULTS`."""
    says: str
    """The number that decides, the reason, or the state, in a few words."""
    numbers: Sequence[Number] = ()
    """All that was decided."""
    searched: Sequence[Number] = ()
    """The numbers by which a search chose its cases."""
    state: str = ""
    """The counterexample of a check that is no run."""

    @property
    def worst(self) -> Number | None:
        """The number that is nearest to its bound, or farthest beyond it."""
        return min(self.numbers, key=lambda one: one.margin, default=None)

    @property
    def counterexample(self) -> Number | None:
        """The first number beyond its bound, at the smallest case where there is one."""
        return next((one for one in self.numbers if one.result == FAILS), None)

    def as_dict(self) -> dict[str, Any]:
        found, worst = self.counterexample, self.worst
        return {
            "item": self.name,
            "rule": self.rule,
            "section": self.item.section,
            "level": self.item.level,
            "title": self.item.title,
            "question": self.item.text,
            "result": self.result,
            "cannot_fail": self.item.cannot_fail or None,
            "says": self.says,
            "state": self.state or None,
            "worst": worst.as_dict() if worst else None,
            "counterexample": found.as_dict() if found else None,
            "numbers": [one.as_dict() for one in self.numbers],
            "searched": [one.as_dict() for one in self.searched],
        }

    @classmethod
    def of(
        cls,
        name: str,
        item: Item,
        rule: str,
        numbers: Sequence[Number],
        searched: Sequence[Number] = (),
    ) -> "Answer":
        """Holds if every number is inside; the smallest case beyond its bound says why not."""
        result = decided(Parts.all([one.margins for one in numbers]))
        kind = [one for one in numbers if one.result == result] or list(numbers)
        worst = min(kind, key=lambda one: one.margin)
        shown = kind[0] if result == FAILS else worst
        several = len(item.cases) != 1
        case = f"{shown.network.label}: " if several else ""
        says = f"{case}{shown.measure.label}: {shown.in_words}"
        if result == UNDECIDED:
            says += f"; {undecided_in_words(shown.margins)}"
        if result == FAILS and worst is not shown:
            label = "" if worst.measure is shown.measure else f"{worst.measure.label} "
            says += f"; worst at {worst.network.label}: {label}{worst.in_words}"
        return cls(name, item, rule, result, says, numbers, searched)
