"""The checks that a paper's `claims.toml` may name, a type per kind.

A check compares numbers, `{metric: {case: value}}`, by inequalities. Each has a margin: the
distance from the edge, negative beyond it. `parts` has them, those of a band together; a value may
be an array with a number per seed, and then the margins are arrays, too. A check raises `Missing`
for a case without a number.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Annotated, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from anabranch.papers.case import Case
from anabranch.typed_toml import Tag, Where

Number: TypeAlias = float | NDArray[np.float64]
Numbers: TypeAlias = Mapping[str, Mapping[str, Number]]
Names: TypeAlias = Iterator[tuple[str, Case]]
"""Metrics and cases."""
Margins: TypeAlias = list[list[Number]]
"""The margins of each part: one, or those of the sides of a band."""


class Missing(Exception):
    """A check needs a number that was neither measured nor published."""


@dataclass(frozen=True, kw_only=True)
class Band:
    """The edges of a value, at least one."""

    min: float = -math.inf
    max: float = math.inf

    def validate(self, where: Where) -> None:
        if math.isinf(self.min) and math.isinf(self.max):
            raise where.at("min").error("missing: a band needs min or max")
        if self.min > self.max:
            message = f"expected at most max, {self.max:g}, got {self.min:g}"
            raise where.at("min").error(message)

    @property
    def in_words(self) -> str:
        if math.isinf(self.min):
            return f"expected at most {self.max:.3g}"
        if math.isinf(self.max):
            return f"expected at least {self.min:.3g}"
        return f"expected {self.min:.3g} to {self.max:.3g}"


@dataclass(frozen=True)
class Order:
    """The cases ascend or, with the direction `decreasing`, descend; each may miss the previous one
    by the fraction `slack_rel` of it."""

    kind: ClassVar = "order"
    metric: str
    cases: tuple[Case, ...]
    direction: Literal["increasing", "decreasing"] = "increasing"
    slack_rel: float = 0.0

    def validate(self, where: Where) -> None:
        if len(self.cases) < 2:
            message = f"expected at least two cases, got {len(self.cases)}"
            raise where.at("cases").error(message)

    def needs(self, numbers: Numbers) -> Names:
        yield from ((self.metric, case) for case in self.cases)

    def parts(self, numbers: Numbers) -> Margins:
        values = [_number(numbers, self.metric, case) for case in self.cases]
        sign = 1 if self.direction == "increasing" else -1
        return [
            [sign * (after - before) + self.slack_rel * np.abs(before)]
            for before, after in pairwise(values)
        ]

    def because(self, numbers: Numbers) -> str:
        """The cases with the relation of each to the one before, in line."""
        said = [f"{case} {_number(numbers, self.metric, case):.3g}" for case in self.cases]
        holds, fails = ("≤", ">") if self.direction == "increasing" else ("≥", "<")
        because = said[0]
        for one, (margin,) in zip(said[1:], self.parts(numbers), strict=True):
            because += f" {holds if margin >= 0 else fails} {one}"
        return because + (f", with a slack of {self.slack_rel:.0%}" if self.slack_rel else "")


@dataclass(frozen=True)
class Ratio(Band):
    """The ratio of two cases is in the band; `den_metric` is the metric of `den`, if another."""

    kind: ClassVar = "ratio"
    metric: str
    num: Case
    den: Case
    den_metric: str | None = None

    def needs(self, numbers: Numbers) -> Names:
        yield from ((self.metric, self.num), (self.den_metric or self.metric, self.den))

    def parts(self, numbers: Numbers) -> Margins:
        top, bottom = (_number(numbers, *name) for name in self.needs(numbers))
        if np.ndim(bottom) == 0 and bottom == 0:
            raise Missing(f"{self.den} is 0, so the ratio is undefined")
        sign = np.sign(np.nanmean(bottom))
        edges = [edge for edge in ((1, self.min), (-1, self.max)) if math.isfinite(edge[1])]
        return [[side * sign * (top - edge * bottom) for side, edge in edges]]

    def because(self, numbers: Numbers) -> str:
        top, bottom = (_number(numbers, *name) for name in self.needs(numbers))
        names = f"{self.num} / {self.den}"
        if self.den_metric is not None:
            names = f"{self.metric} / {self.den_metric} of {self.num}"
        return f"{names} = {top:.3g} / {bottom:.3g} = {top / bottom:.3g}, {self.in_words}"


@dataclass(frozen=True)
class One:
    """A check of one case."""

    metric: str
    case: Case

    def needs(self, numbers: Numbers) -> Names:
        yield self.metric, self.case

    def value(self, numbers: Numbers) -> Number:
        return _number(numbers, self.metric, self.case)


@dataclass(frozen=True)
class Range(Band, One):
    """A case is in the band."""

    kind: ClassVar = "range"

    def parts(self, numbers: Numbers) -> Margins:
        return [_within(self.value(numbers), self.min, self.max)]

    def because(self, numbers: Numbers) -> str:
        return f"{self.case} = {self.value(numbers):.3g}, {self.in_words}"


@dataclass(frozen=True)
class Close(One):
    """A case is near a target, within the larger of the two tolerances."""

    kind: ClassVar = "close"
    target: float
    tol_rel: float = 0.0
    tol_abs: float = 0.0

    def parts(self, numbers: Numbers) -> Margins:
        tolerance = max(self.tol_rel * abs(self.target), self.tol_abs)
        return [_within(self.value(numbers) - self.target, -tolerance, tolerance)]

    def because(self, numbers: Numbers) -> str:
        value, target = self.value(numbers), self.target
        away = f", {(value - target) / target:+.1%}" if target else ""
        relative = self.tol_rel * abs(target) >= self.tol_abs
        allowed = f"{self.tol_rel:.0%}" if relative else f"{self.tol_abs:.3g}"
        return f"{self.case} = {value:.3g}, expected {target:.3g} ± {allowed}{away}"


@dataclass(frozen=True)
class Levels:
    """Every case is within `tol_rel` of its printed number; by default all that are printed."""

    kind: ClassVar = "levels"
    metric: str
    tol_rel: float
    cases: tuple[Case, ...] = ()

    def needs(self, numbers: Numbers) -> Names:
        for case in self._compared(numbers):
            yield from ((self.metric, case), (self.metric, case.printed))

    def parts(self, numbers: Numbers) -> Margins:
        away = self._away(numbers).values()
        return [_within(off, -self.tol_rel, self.tol_rel) for off in away]

    def because(self, numbers: Numbers) -> str:
        away = self._away(numbers)
        near = sum(bool(np.abs(off) <= self.tol_rel) for off in away.values())
        each = ", ".join(f"{case} {off:+.0%}" for case, off in away.items())
        return f"{near} of {len(away)} within {self.tol_rel:.0%}: {each}"

    def _compared(self, numbers: Numbers) -> list[Case]:
        named = map(Case, numbers.get(self.metric, {}))
        cases = self.cases or [Case(name.setting) for name in named if name.is_printed]
        if not cases:
            raise Missing(f"no printed number for {self.metric}")
        return list(cases)

    def _away(self, numbers: Numbers) -> dict[Case, Number]:
        """The relative differences from the printed numbers."""
        number = partial(_number, numbers, self.metric)
        return {one: number(one) / number(one.printed) - 1 for one in self._compared(numbers)}


@dataclass(frozen=True)
class Closer:
    """A case is nearer to the target case than another case is.

    With `over`, each of its parts replaces `*` in the case names, and the distances are added up.
    """

    kind: ClassVar = "closer"
    metric: str
    case: Case
    other: Case
    target_case: Case
    over: tuple[str, ...] = ()

    def needs(self, numbers: Numbers) -> Names:
        yield from ((self.metric, case) for cases in self._named() for case in cases)

    def parts(self, numbers: Numbers) -> Margins:
        near, far = self._distances(numbers)
        margin = far - near
        # Equal is not nearer: the edge itself does not count.
        return [[margin if np.ndim(margin) or margin else -math.inf]]

    def because(self, numbers: Numbers) -> str:
        near, far = self._distances(numbers)
        goal = str(self.target_case)
        if not self.over:
            goal += f" = {_number(numbers, self.metric, self.target_case):.3g}"
        return f"from {goal}: {self.case} {near:.3g}, {self.other} {far:.3g}"

    def _named(self) -> Iterator[list[Case]]:
        """Case, other and target for each part."""
        names = (self.case, self.other, self.target_case)
        for part in self.over or ("*",):
            yield [Case(name.replace("*", part)) for name in names]

    def _distances(self, numbers: Numbers) -> tuple[Number, Number]:
        """The case's and the other's distance from the target."""
        near: Number = 0.0
        far: Number = 0.0
        for cases in self._named():
            here, there, goal = (_number(numbers, self.metric, case) for case in cases)
            near, far = near + np.abs(here - goal), far + np.abs(there - goal)
        return near, far


@dataclass(frozen=True)
class ByStatement:
    """A statement of `anabranch theory statements` holds."""

    kind: ClassVar = "statement"
    place: str
    """The statement's place in the paper."""


@dataclass(frozen=True)
class ByHand:
    """Nothing is compared: the claim needs human judgement."""

    kind: ClassVar = "text"
    note: str = ""


Comparison: TypeAlias = Order | Ratio | Range | Close | Closer | Levels
"""A check of numbers."""
Words: TypeAlias = ByStatement | ByHand
"""A check without numbers."""
Check = Annotated[Comparison | Words, Tag("type")]


def _number(numbers: Numbers, metric: str, case: str) -> Number:
    value = numbers.get(metric, {}).get(case, math.nan)
    if np.ndim(value) == 0 and np.isnan(value):
        raise Missing(f"no number for {metric} of {case}")
    return value


def _within(value: Number, low: float, high: float) -> list[Number]:
    """The distances to the edges that a band has."""
    edges = ((low, value - low), (high, high - value))
    return [distance for edge, distance in edges if math.isfinite(edge)]
