"""A number type of Python that holds every value that the kernel's soft floats may give.

A result has the relative error 2^-32 that `make prove-soft` proves of each operation. A comparison
that the bounds leave open is answered by the case that is evaluated, the same way wherever it
occurs; `max` and `min` need no answer. Own code, because the libraries of intervals (mpmath.iv,
python-flint) have neither cases nor what `monomial` has, which is what gives useful bounds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from bounds.monomial import (
    ONE,
    Bounds,
    Monomial,
    Quantity,
    Ranges,
    Term,
    inverse,
    plus,
    product,
    times,
)

UNIT = 2.0**-32
ROUNDED = (1 - UNIT, 1 + UNIT)
EXACTLY_1 = (1.0, 1.0)
MANTISSA = 2**32


class DivisionByZero(Exception):
    """A divisor that may be 0."""


class Infeasible(Exception):
    """Answers that exclude each other."""


@dataclass
class Case:
    """Answers to the comparisons that the bounds leave open."""

    answers: Sequence[bool] = ()
    """Answers to the first of them; later ones are answered with yes."""
    asked: list[tuple[int, int]] = field(default_factory=list)
    ranges: Ranges = field(default_factory=Ranges)
    exponents: Bounds = (math.inf, -math.inf)
    """Exponents of 2 between which the results are."""
    _same: dict[object, int] = field(default_factory=dict)

    def input(self, name: str, low: float, high: float, least: float = 0.0) -> "Number":
        """A number between two bounds; `least` is its smallest magnitude where it is not 0."""
        if low == high:
            return self.constant(low)
        monomial = self.ranges.quantity(Quantity("input", name), (low, high))
        return Number(self, EXACTLY_1, monomial, least or max(low, 0.0), ("input", name))

    def constant(self, value: Any) -> "Number":
        """A number of the rule's text, rounded where a soft float needs it."""
        exact = Fraction(value)
        near = float(exact)
        fits = exact.denominator == 1 and abs(exact.numerator) < MANTISSA
        factor = (near, near) if fits else times((near, near), ROUNDED)
        return Number(self, factor, ONE, _magnitude(factor), ("constant", exact))

    def name(self, operation: object) -> int:
        """The same number for the same operation on the same numbers."""
        return self._same.setdefault(operation, len(self._same))

    def note(self, bounds: Bounds) -> None:
        """Enclose the exponents of a result."""
        low, high = self.exponents
        for end in bounds:
            if end:
                exponent = math.frexp(end)[1]
                low, high = min(low, exponent - 1), max(high, exponent)
        self.exponents = low, high

    def less(self, a: "Number", b: "Number") -> bool:
        """Whether a < b. Both become what the answer leaves. Raises `Infeasible`."""
        (a_low, a_high), (b_low, b_high) = a.bounds, b.bounds
        if a.key == b.key or a_low >= b_high:
            return False
        if a_high < b_low:
            return True
        if (a.key, b.key) not in self.asked:
            self.asked.append((a.key, b.key))
        number = self.asked.index((a.key, b.key))
        answer = self.answers[number] if number < len(self.answers) else True
        low, high = (a, b) if answer else (b, a)
        low.narrow(-math.inf, min(low.bounds[1], high.bounds[1]))
        high.narrow(max(low.bounds[0], high.bounds[0]), math.inf)
        if low.factor[0] > 0 and high.factor[0] > 0:
            self.ranges.at_most(low.term, high.term)
        if answer and not low.bounds[0] < 0 and high.least:
            high.narrow(high.least, math.inf)
        return answer


class Number:
    """A number of a case: a factor between two bounds, times a monomial."""

    __slots__ = ("case", "factor", "key", "least", "monomial")
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self, case: Case, factor: Bounds, monomial: Monomial, least: float, operation: object
    ) -> None:
        self.case, self.factor, self.monomial, self.least = case, factor, monomial, least
        self.key = case.name(operation)
        if not self.is_zero:
            case.ranges.check(monomial, self.bounds)
        case.note(self.bounds)

    @property
    def bounds(self) -> Bounds:
        """Bounds of the value."""
        return times(self.factor, self.case.ranges.range(self.monomial))

    @property
    def best(self) -> Bounds:
        """Bounds of the value that take longer."""
        return self.case.ranges.bounds(self.term)

    @property
    def term(self) -> Term:
        """The factor and the monomial."""
        return Term(self.factor, self.monomial)

    def over(self, other: "Number") -> Bounds:
        """Bounds of the exact quotient by an input that is not 0."""
        return self._with(other, -1)

    def times(self, other: "Number") -> Bounds:
        """Bounds of the exact product with an input."""
        return self._with(other, 1)

    def _with(self, other: "Number", power: int) -> Bounds:
        term = Term(self.factor, product(self.monomial, other.monomial, power))
        return self.case.ranges.bounds(term)

    @property
    def is_zero(self) -> bool:
        """Whether it is 0."""
        return self.factor == (0.0, 0.0)

    def narrow(self, low: float, high: float) -> None:
        """Note that the value is within these bounds. Raises `Infeasible`."""
        if self.bounds[0] > high or self.bounds[1] < low:
            raise Infeasible
        factor = self.factor
        if factor[1] < 0:
            factor, low, high = (-factor[1], -factor[0]), -high, -low
        if factor[0] > 0 and self.monomial != ONE:
            self.case.ranges.narrow(self.monomial, times((low, high), inverse(factor)))

    def _of(self, other: Any) -> "Number":
        return other if isinstance(other, Number) else self.case.constant(other)

    def _new(self, factor: Bounds, monomial: Monomial, least: float, *by: object) -> "Number":
        return Number(self.case, times(factor, ROUNDED), monomial, least, by)

    def __add__(self, other: Any) -> "Number":
        b = self._of(other)
        if self.is_zero or b.is_zero:
            return b if self.is_zero else self
        terms = _collected([*_terms(self), *_terms(b)])
        # Two soft floats of which neither is 0 differ by a unit in the last place of one, or not.
        least = min(_magnitude(self.bounds), _magnitude(b.bounds)) * UNIT / 2
        by = ("+", *sorted([self.key, b.key]))
        if len(terms) == 1:
            return self._new(terms[0].factor, terms[0].monomial, least, *by)
        return self._new(EXACTLY_1, self._sum(terms, self.case.name(by)), least, *by)

    def _sum(self, terms: tuple[Term, ...], key: int) -> Monomial:
        """The quantity that is this sum."""
        ranges = self.case.ranges
        within = (0.0, 0.0)
        for term in terms:
            within = plus(within, times(term.factor, ranges.range(term.monomial)))
        if within[0] < 0 and ranges.sum_is_at_least_0(terms):
            within = (0.0, within[1])
        return ranges.quantity(Quantity("sum", str(key), terms), within)

    def __neg__(self) -> "Number":
        factor = (-self.factor[1], -self.factor[0])
        return Number(self.case, factor, self.monomial, self.least, ("-", self.key))

    def __sub__(self, other: Any) -> "Number":
        b = self._of(other)
        return self.case.constant(0) if self.key == b.key else self + -b

    def __rsub__(self, other: Any) -> "Number":
        return self._of(other) - self

    def __mul__(self, other: Any) -> "Number":
        b = self._of(other)
        if self.is_zero or b.is_zero:
            return self.case.constant(0)
        by = ("*", *sorted([self.key, b.key]))
        monomial = product(self.monomial, b.monomial)
        least = self.least * b.least / 2
        return self._new(times(self.factor, b.factor), monomial, least, *by)

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: Any) -> "Number":
        b = self._of(other)
        low, high = b.bounds
        if low <= 0 <= high:
            low, high = b.best
            b.narrow(low, high)
        if low <= 0 <= high:
            text = self.case.ranges.text(b.monomial)
            raise DivisionByZero(f"the divisor {text} may be 0" if text else "a divisor is 0")
        if self.is_zero:
            return self
        monomial = product(self.monomial, b.monomial, -1)
        least = self.least / max(abs(low), abs(high)) / 2
        return self._new(
            times(self.factor, inverse(b.factor)), monomial, least, "/", self.key, b.key
        )

    def __rtruediv__(self, other: Any) -> "Number":
        return self._of(other) / self

    def __pow__(self, power: Any) -> "Number":
        if not isinstance(power, int) or power < 1:
            raise TypeError(f"a power of {power}: the kernel's programs have whole powers only")
        result = self
        for _ in range(power - 1):
            result = result * self
        return result

    def maximum(self, other: Any) -> "Number":
        """The larger of the two."""
        return self._extreme(other, "max")

    def minimum(self, other: Any) -> "Number":
        """The smaller of the two."""
        return self._extreme(other, "min")

    def _extreme(self, other: Any, kind: Any) -> "Number":
        if isinstance(other, float) and math.isinf(other):
            return self if kind == "min" else self._of(other)
        b = self._of(other)
        larger, smaller = (self, b) if self.bounds[0] >= b.bounds[1] else (b, self)
        if self.key == b.key or larger.bounds[0] >= smaller.bounds[1]:
            return larger if kind == "max" else smaller
        choose = max if kind == "max" else min
        low, high = (choose(ends) for ends in zip(self.bounds, b.bounds, strict=True))
        terms = tuple(sorted({*_options(self, kind), *_options(b, kind)}, key=repr))
        by = (kind, *sorted([self.key, b.key]))
        one = Quantity(kind, str(self.case.name(by)), terms)
        monomial = self.case.ranges.quantity(one, (low, high))
        return Number(self.case, EXACTLY_1, monomial, min(self.least, b.least), by)

    def __lt__(self, other: Any) -> bool:
        return self.case.less(self, self._of(other))

    def __gt__(self, other: Any) -> bool:
        return self.case.less(self._of(other), self)

    def __ge__(self, other: Any) -> bool:
        return not self < other

    def __le__(self, other: Any) -> bool:
        return not self > other

    def __eq__(self, other: object) -> bool:
        return not self < other and not self > other

    def __float__(self) -> float:
        raise TypeError(
            "this number has bounds: use + - * /, comparisons, min, max, sum and whole powers"
        )


def _magnitude(bounds: Bounds) -> float:
    """The smallest magnitude between two bounds."""
    low, high = bounds
    return max(low, -high, 0.0)


def _parts(number: Number, kind: str) -> tuple[Term, ...] | None:
    """The terms of a number that is a quantity of this kind."""
    if len(number.monomial) == 1 and number.monomial[0][1] == 1:
        one = number.case.ranges.quantities[number.monomial[0][0]]
        return one.terms if one.kind == kind else None
    return None


def _terms(number: Number) -> list[Term]:
    """The terms of a sum of positive terms; else the number itself."""
    parts = _parts(number, "sum")
    if parts is None or number.factor[0] <= 0 or any(t.factor[0] < 0 for t in parts):
        return [number.term]
    return [Term(times(number.factor, t.factor), t.monomial) for t in parts]


def _options(number: Number, kind: str) -> Sequence[Term]:
    """Arguments of a maximum or minimum."""
    parts = _parts(number, kind)
    if parts is None or number.factor != EXACTLY_1:
        return [number.term]
    return parts


def _collected(terms: Sequence[Term]) -> tuple[Term, ...]:
    """Like terms added; the order does not matter."""
    like: dict[Monomial, Bounds] = {}
    for term in terms:
        like[term.monomial] = plus(like.get(term.monomial, (0.0, 0.0)), term.factor)
    return tuple(Term(factor, monomial) for monomial, factor in sorted(like.items()))
