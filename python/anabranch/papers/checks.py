"""The checks that a paper's `claims.toml` may name, a type per kind.

A check compares numbers by inequalities. Each has a margin: the distance from the edge, negative
beyond it. `parts` has them, those of a band together; a number may be an array with a value per
seed, and then the margins are arrays, too.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from anabranch.experiments.case import Case
from anabranch.typed_toml import Tag, Where

Number: TypeAlias = float | NDArray[np.float64]
Known: TypeAlias = Mapping[str, Mapping[str, Number]]
"""Numbers by metric and case."""
Margins: TypeAlias = list[list[Number]]
"""The margins of each part: one, or those of the sides of a band."""


class Missing(Exception):
    """A check needs a number that was neither measured nor published."""


@dataclass
class Numbers:
    """Numbers that a check may compare, and the names that it has asked for."""

    known: Known
    all_known: bool = False
    """Whether a number that is missing is 1, to find the names alone."""
    asked: list[tuple[str, Case]] = field(default_factory=list)

    def __call__(self, metric: str, case: str) -> Number:
        """The number of a case. Raises `Missing`."""
        self.asked.append((metric, Case(case)))
        value = 1.0 if self.all_known else self.known.get(metric, {}).get(case, math.nan)
        if np.ndim(value) == 0 and np.isnan(value):
            raise Missing(f"no number for {metric} of {case}")
        return value


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

    def sides(self, value: Number, unit: Number = 1.0) -> list[Number]:
        """The distances to the edges that there are, which are multiples of a unit."""
        return _within(value, self.min, self.max, unit)

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

    def parts(self, number: Numbers) -> Margins:
        values = [number(self.metric, case) for case in self.cases]
        sign = 1 if self.direction == "increasing" else -1
        return [
            [sign * (after - before) + self.slack_rel * np.abs(before)]
            for before, after in pairwise(values)
        ]

    def because(self, number: Numbers) -> str:
        """The cases with the relation of each to the one before, in line."""
        said = [f"{case} {number(self.metric, case):.3g}" for case in self.cases]
        holds, fails = ("≤", ">") if self.direction == "increasing" else ("≥", "<")
        because = said[0]
        for one, (margin,) in zip(said[1:], self.parts(number), strict=True):
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

    def _both(self, number: Numbers) -> tuple[Number, Number]:
        return number(self.metric, self.num), number(self.den_metric or self.metric, self.den)

    def parts(self, number: Numbers) -> Margins:
        top, bottom = self._both(number)
        if np.ndim(bottom) == 0 and bottom == 0:
            raise Missing(f"{self.den} is 0, so the ratio is undefined")
        sign = np.sign(np.nanmean(bottom))
        return [self.sides(sign * top, sign * bottom)]

    def because(self, number: Numbers) -> str:
        top, bottom = self._both(number)
        names = f"{self.num} / {self.den}"
        if self.den_metric is not None:
            names = f"{self.metric} / {self.den_metric} of {self.num}"
        return f"{names} = {top:.3g} / {bottom:.3g} = {top / bottom:.3g}, {self.in_words}"


@dataclass(frozen=True)
class Range(Band):
    """A case is in the band."""

    kind: ClassVar = "range"
    metric: str
    case: Case

    def parts(self, number: Numbers) -> Margins:
        return [self.sides(number(self.metric, self.case))]

    def because(self, number: Numbers) -> str:
        return f"{self.case} = {number(self.metric, self.case):.3g}, {self.in_words}"


@dataclass(frozen=True)
class Close:
    """A case is near a target, within the larger of the two tolerances."""

    kind: ClassVar = "close"
    metric: str
    case: Case
    target: float
    tol_rel: float = 0.0
    tol_abs: float = 0.0

    def parts(self, number: Numbers) -> Margins:
        tolerance = max(self.tol_rel * abs(self.target), self.tol_abs)
        return [_within(number(self.metric, self.case) - self.target, -tolerance, tolerance)]

    def because(self, number: Numbers) -> str:
        value, target = number(self.metric, self.case), self.target
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

    def parts(self, number: Numbers) -> Margins:
        return [_within(off, -self.tol_rel, self.tol_rel) for off in self._away(number).values()]

    def because(self, number: Numbers) -> str:
        away = self._away(number)
        near = sum(bool(np.abs(off) <= self.tol_rel) for off in away.values())
        each = ", ".join(f"{case} {off:+.0%}" for case, off in away.items())
        return f"{near} of {len(away)} within {self.tol_rel:.0%}: {each}"

    def _away(self, number: Numbers) -> dict[Case, Number]:
        """The relative differences from the printed numbers."""
        named = map(Case, number.known.get(self.metric, {}))
        cases = self.cases or [Case(name.setting) for name in named if name.is_printed]
        if not cases:
            raise Missing(f"no printed number for {self.metric}")
        return {
            one: number(self.metric, one) / number(self.metric, one.printed) - 1 for one in cases
        }


@dataclass(frozen=True)
class Interval:
    """Half the 95 % interval of the mean of every case over its seeds is at most `max`."""

    kind: ClassVar = "interval"
    metric: str
    cases: tuple[Case, ...]
    max: float

    def parts(self, number: Numbers) -> Margins:
        return [[self.max - half] for half in self._halves(number).values()]

    def because(self, number: Numbers) -> str:
        halves = self._halves(number)
        each = ", ".join(f"{case} ± {half:.2g}" for case, half in halves.items())
        return f"{each}, expected at most {self.max:.3g}"

    def _halves(self, number: Numbers) -> dict[Case, float]:
        """Half the interval of each case; 0 for a number that does not vary."""
        values = {case: np.atleast_1d(number(self.metric, case)) for case in self.cases}
        return {case: _half(value) for case, value in values.items()}


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

    def parts(self, number: Numbers) -> Margins:
        near, far = self._distances(number)
        margin = far - near
        # Equal is not nearer: the edge itself does not count.
        return [[margin if np.ndim(margin) or margin else -math.inf]]

    def because(self, number: Numbers) -> str:
        near, far = self._distances(number)
        goal = str(self.target_case)
        if not self.over:
            goal += f" = {number(self.metric, self.target_case):.3g}"
        return f"from {goal}: {self.case} {near:.3g}, {self.other} {far:.3g}"

    def _distances(self, number: Numbers) -> tuple[Number, Number]:
        """The case's and the other's distance from the target."""
        near: Number = 0.0
        far: Number = 0.0
        for part in self.over or ("*",):
            names = (self.case, self.other, self.target_case)
            here, there, goal = (number(self.metric, one.replace("*", part)) for one in names)
            near, far = near + np.abs(here - goal), far + np.abs(there - goal)
        return near, far


@dataclass(frozen=True)
class ByStatement:
    """A statement of `anabranch theory statements` holds."""

    kind: ClassVar = "statement"
    place: str
    """The statement's place in the paper."""


Comparison: TypeAlias = Order | Ratio | Range | Close | Closer | Levels | Interval
"""A check of numbers."""
Check = Annotated[Comparison | ByStatement, Tag("type")]


def needed(check: Comparison, known: Known) -> list[tuple[str, Case]]:
    """The metrics and cases that a check compares, whether they have a number or not."""
    numbers = Numbers(known, all_known=True)
    check.parts(numbers)
    return numbers.asked


def _half(values: NDArray[np.float64]) -> float:
    """Half the 95 % interval of a mean (Student's t); 0 for a single value."""
    n = len(values)
    if n == 1:
        return 0.0
    from scipy.special import stdtrit

    return float(stdtrit(n - 1, 0.975) * values.std(ddof=1) / math.sqrt(n))


def _within(value: Number, low: float, high: float, unit: Number = 1.0) -> list[Number]:
    """The distances to the edges that a band has."""
    edges = ((1, low), (-1, high))
    return [sign * (value - edge * unit) for sign, edge in edges if math.isfinite(edge)]
