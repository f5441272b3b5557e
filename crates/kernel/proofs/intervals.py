"""A number type of Python: an interval that holds every value that soft floats may give.

A result has the relative error 2^-32 that soft.py proves of each operation, and the rounding of
`float` besides. A comparison that the intervals leave open is answered by the case that is
evaluated, in the same way wherever it occurs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

UNIT = 2.0**-32
SMALLEST, LARGEST = -700, 700
"""Exponents of 2 between which every result must be: soft floats reach from -32737 to 32799."""


class DivisionByZero(Exception):
    """A divisor that may be 0."""


class OutOfRange(Exception):
    """A result that may be saturated."""


class Infeasible(Exception):
    """Answers that exclude each other."""


@dataclass
class Case:
    """Answers to the comparisons that the intervals leave open, by their operands."""

    answers: Sequence[bool]
    asked: list[tuple[str, str]] = field(default_factory=list)

    def less(self, a: "Interval", b: "Interval") -> bool:
        """Whether a < b. The bounds of both become what that leaves. Raises `Infeasible`."""
        if a.high < b.low or a.text == b.text or a.low >= b.high:
            return a.high < b.low
        if (a.text, b.text) not in self.asked:
            self.asked.append((a.text, b.text))
        number = self.asked.index((a.text, b.text))
        answer = self.answers[number] if number < len(self.answers) else True
        low, high = (a, b) if answer else (b, a)
        low.high, high.low = min(low.high, high.high), max(low.low, high.low)
        if low.low > low.high or high.low > high.high:
            raise Infeasible
        return answer


class Interval:
    """A number between two bounds; `text` is the expression that it is."""

    __slots__ = ("case", "high", "low", "text")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, low: float, high: float, text: str, case: Case) -> None:
        self.low, self.high, self.text, self.case = low, high, text, case

    @staticmethod
    def of(other: Any, case: Case) -> "Interval":
        """A number as an interval."""
        if isinstance(other, Interval):
            return other
        near = float(other)
        exact = math.isinf(near) or Fraction(near) == Fraction(other)
        low, high = (near, near) if exact else _widened(near, near)
        return Interval(low, high, str(other), case)

    def _rounded(self, ends: Sequence[float], text: str) -> "Interval":
        low, high = _widened(min(ends), max(ends))
        for end in (low, high):
            if end and not SMALLEST < math.frexp(end)[1] < LARGEST:
                raise OutOfRange(text)
        return Interval(low, high, text, self.case)

    def __add__(self, other: Any) -> "Interval":
        b = self.of(other, self.case)
        return self._rounded([self.low + b.low, self.high + b.high], f"({self.text}+{b.text})")

    def __sub__(self, other: Any) -> "Interval":
        b = self.of(other, self.case)
        return self._rounded([self.low - b.high, self.high - b.low], f"({self.text}-{b.text})")

    def __rsub__(self, other: Any) -> "Interval":
        return self.of(other, self.case) - self

    def __mul__(self, other: Any) -> "Interval":
        b = self.of(other, self.case)
        ends = [x * y for x in (self.low, self.high) for y in (b.low, b.high)]
        return self._rounded(ends, f"({self.text}*{b.text})")

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: Any) -> "Interval":
        b = self.of(other, self.case)
        if b.low <= 0 <= b.high:
            raise DivisionByZero(f"{self.text} / {b.text}")
        ends = [x / y for x in (self.low, self.high) for y in (b.low, b.high)]
        return self._rounded(ends, f"({self.text}/{b.text})")

    def __rtruediv__(self, other: Any) -> "Interval":
        return self.of(other, self.case) / self

    def __lt__(self, other: Any) -> bool:
        return self.case.less(self, self.of(other, self.case))

    def __gt__(self, other: Any) -> bool:
        return self.case.less(self.of(other, self.case), self)

    def __ge__(self, other: Any) -> bool:
        return not self < other

    def __le__(self, other: Any) -> bool:
        return not self > other


def _widened(low: float, high: float) -> tuple[float, float]:
    """Bounds of the rounded values; 0 stays 0, because it is exact."""
    low -= abs(low) * 2 * UNIT
    high += abs(high) * 2 * UNIT
    return low, high
