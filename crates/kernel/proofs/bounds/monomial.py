"""Products of powers of quantities, and bounds of them from what the quantities are made of.

Interval arithmetic alone loses that a rate is a part of the total rate. Here each number is a
factor times a monomial, and a sum, a maximum or a minimum is a quantity that knows its terms: so
`x_1^2 / (x_1 + x_2)^2` is at most 1, whatever the ranges are.
"""

import math
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

Bounds = tuple[float, float]

Monomial = tuple[tuple[int, int], ...]
"""Numbers of quantities with their powers, not 0, in the order of the numbers."""

ONE: Monomial = ()
EXPONENTS = 1000
"""Every number must be 0 or within 2^-1000 to 2^1000; soft floats reach 2^-32737 and 2^32799."""
MOST_STEPS, FEW_STEPS = 300, 8
"""Substitutions of one bound, of a result and of a sum on the way, beyond which the product of the
ranges remains."""


class OutOfRange(Exception):
    """A number that may be beyond what the bounds are made for."""


@dataclass(frozen=True)
class Term:
    """Factors between two bounds, times a monomial."""

    factor: Bounds
    monomial: Monomial


@dataclass(frozen=True)
class Quantity:
    """An input, or a sum, maximum or minimum of terms."""

    kind: Literal["input", "sum", "max", "min"]
    name: str
    """Name of an input; the operation of another, because its terms alone are not exact."""
    terms: tuple[Term, ...] = ()


def product(a: Monomial, b: Monomial, power: int = 1) -> Monomial:
    """a b^power."""
    powers = dict(a)
    for quantity, exponent in b:
        powers[quantity] = powers.get(quantity, 0) + power * exponent
    return tuple(sorted((quantity, e) for quantity, e in powers.items() if e))


def down(x: float) -> float:
    """The next number below; 0, which is exact, stays."""
    return math.nextafter(x, -math.inf) if x else x


def up(x: float) -> float:
    """The next number above; 0 stays."""
    return math.nextafter(x, math.inf) if x else x


def times(a: Bounds, b: Bounds) -> Bounds:
    """Bounds of the products."""
    if (1.0, 1.0) in (a, b):
        return b if a == (1.0, 1.0) else a
    ends = [x * y if x and y else 0.0 for x in a for y in b]
    return down(min(ends)), up(max(ends))


def plus(a: Bounds, b: Bounds) -> Bounds:
    """Bounds of the sums."""
    if (0.0, 0.0) in (a, b):
        return b if a == (0.0, 0.0) else a
    return down(a[0] + b[0]), up(a[1] + b[1])


def inverse(a: Bounds) -> Bounds:
    """Bounds of 1/a, infinite where a may be 0."""
    if a == (1.0, 1.0):
        return a
    if a[0] <= 0 <= a[1]:
        return (down(1 / a[1]) if a[0] == 0 < a[1] else -math.inf), math.inf
    return down(1 / a[1]), up(1 / a[0])


@dataclass
class Ranges:
    """The quantities of one case, with their ranges."""

    quantities: list[Quantity] = field(default_factory=list)
    known: dict[Monomial, Bounds] = field(default_factory=dict)
    """Ranges of inputs, of sums, maxima and minima, and those that comparisons have left."""
    numbers: dict[Quantity, int] = field(default_factory=dict)
    ratios: dict[Monomial, float] = field(default_factory=dict)
    """Largest values of quotients, from comparisons."""
    _ranges: dict[Monomial, Bounds] = field(default_factory=dict)
    _found: dict[tuple[bool, Monomial], float] = field(default_factory=dict)
    _steps: int = 0
    """Substitutions that are left."""

    def quantity(self, one: Quantity, within: Bounds) -> Monomial:
        """The monomial of this quantity alone; the same for the same terms."""
        if one not in self.numbers:
            self.numbers[one] = len(self.quantities)
            self.quantities.append(one)
            self.known[((self.numbers[one], 1),)] = within
        return ((self.numbers[one], 1),)

    def narrow(self, monomial: Monomial, within: Bounds) -> None:
        """Note that a monomial is within these bounds, too."""
        low, high = self.range(monomial)
        low, high = max(low, within[0]), min(high, within[1])
        self.known[monomial] = low, high
        self._ranges.clear()
        negative = [one for one in monomial if self.known[((one[0], 1),)][0] < 0]
        if low > 0 and len(monomial) > 1 and len(negative) == 1 and negative[0][1] == 1:
            self.narrow((negative[0],), (0.0, math.inf))
        one = self.quantities[monomial[0][0]]
        if monomial == ((monomial[0][0], 1),) and one.kind == "sum" and len(one.terms) == 2:
            minus, positive = sorted(one.terms, key=lambda t: t.factor)
            if minus.factor[1] < 0 < positive.factor[0] and low >= 0:
                self.at_most(Term((-minus.factor[1], -minus.factor[0]), minus.monomial), positive)

    def at_most(self, a: Term, b: Term) -> None:
        """Note that a <= b, for factors above 0."""
        if not a.monomial or not b.monomial:
            return  # a constant: the range has it
        if self._is_at_least_0(a.monomial) and self.range(b.monomial)[0] > 0:
            ratio = product(a.monomial, b.monomial, -1)
            bound = up(b.factor[1] / a.factor[0])
            self.ratios[ratio] = min(bound, self.ratios.get(ratio, math.inf))

    def range(self, monomial: Monomial) -> Bounds:
        """Bounds from the ranges of the quantities alone; infinite where a divisor may be 0."""
        if monomial in self._ranges:
            return self._ranges[monomial]
        result = (1.0, 1.0)
        for number, power in monomial:
            one = self.known[((number, 1),)]
            if power < 0:
                one = inverse(one)
            for _ in range(abs(power)):
                result = times(result, one)
        low, high = self.known.get(monomial, (-math.inf, math.inf))
        self._ranges[monomial] = max(result[0], low), min(result[1], high)
        return self._ranges[monomial]

    def check(self, monomial: Monomial, bounds: Bounds) -> None:
        """Raise `OutOfRange` for a number with this monomial that may be too large or small."""
        if max(abs(end) for end in bounds) > 2.0**EXPONENTS:
            raise OutOfRange(f"{self.text(monomial)} may be above 2^{EXPONENTS}")
        positive = all(self.known[((number, 1),)][0] > 0 for number, _ in monomial)
        if positive and min(abs(end) for end in bounds) < 2.0**-EXPONENTS:
            raise OutOfRange(f"{self.text(monomial)} may be below 2^-{EXPONENTS}")

    def bounds(self, term: Term) -> Bounds:
        """Bounds of a term, in which quantities are replaced by what they are made of."""
        found = []
        for bound in (self._lower, self._upper):
            self._steps = MOST_STEPS
            self._found.clear()
            found.append(bound(term))
        return found[0], found[1]

    def sum_is_at_least_0(self, terms: Iterable[Term]) -> bool:
        """Whether a sum is shown to be at least 0, divided by one of its terms."""
        terms = list(terms)
        for by in terms:
            if by.factor[0] < 0 and self.range(by.monomial)[0] > 0:
                self._steps = FEW_STEPS
                parts = [Term(t.factor, product(t.monomial, by.monomial, -1)) for t in terms]
                if self._sum_of(parts, upper=False) >= 0:
                    return True
        return False

    def text(self, monomial: Monomial) -> str:
        """A monomial in words, for messages; the start of a long one."""
        return textwrap.shorten(self._text(monomial, 4), 100, placeholder=" ...")

    def _text(self, monomial: Monomial, depth: int) -> str:
        if not depth:
            return "..."
        return " ".join(
            self._name(number, depth) + (f"^{power}" if power != 1 else "")
            for number, power in monomial
        )

    def _name(self, number: int, depth: int) -> str:
        one = self.quantities[number]
        if one.kind == "input":
            return one.name
        parts = [
            " ".join(filter(None, [f"{t.factor[0]:.6g}", self._text(t.monomial, depth - 1)]))
            for t in one.terms
        ]
        return f"{one.kind}({', '.join(parts)})"

    def _upper(self, term: Term) -> float:
        high = term.factor[1]
        plain = times(term.factor, self.range(term.monomial))[1]
        if high >= 0 and self._is_at_least_0(term.monomial):
            return min(plain, _scaled(high, self._most(term.monomial)))
        if high < 0 and self._is_at_least_0(term.monomial):
            return min(plain, _scaled(high, self._least(term.monomial)))
        return min(plain, self._through_a_difference(term))

    def _lower(self, term: Term) -> float:
        low, high = term.factor
        return -self._upper(Term((-high, -low), term.monomial))

    def _is_at_least_0(self, monomial: Monomial) -> bool:
        return all(self.known[((number, 1),)][0] >= 0 for number, _ in monomial)

    def _sum_of(self, terms: Iterable[Term], upper: bool) -> float:
        """A bound of a sum from those of its terms, of which like ones are added first."""
        like: dict[Monomial, Bounds] = {}
        for term in terms:
            like[term.monomial] = plus(like.get(term.monomial, (0.0, 0.0)), term.factor)
        total = 0.0
        for monomial, factor in like.items():
            one = Term(factor, monomial)
            bound = self._upper(one) if upper else self._lower(one)
            total = plus((total, total), (bound, bound))[1 if upper else 0]
        return total

    def _through_a_difference(self, term: Term) -> float:
        """An upper bound by the terms of the one factor that may be negative."""
        negative = [one for one in term.monomial if self.known[((one[0], 1),)][0] < 0]
        if len(negative) != 1 or negative[0][1] != 1 or term.factor[0] < 0 < term.factor[1]:
            return math.inf
        one = self.quantities[negative[0][0]]
        if one.kind == "input" or not self._step():
            return math.inf
        rest = product(term.monomial, (negative[0],), -1)
        (end,) = self._above(one, rest, term.monomial, upper=term.factor[0] >= 0)
        return times(term.factor, (end, end))[1]

    def _step(self) -> bool:
        self._steps -= 1
        return self._steps >= 0

    def _most(self, monomial: Monomial) -> float:
        return self._extreme(monomial, upper=True)

    def _least(self, monomial: Monomial) -> float:
        return self._extreme(monomial, upper=False)

    def _extreme(self, monomial: Monomial, upper: bool) -> float:
        """The best bound of a product of quantities that are at least 0."""
        key = (upper, monomial)
        if key in self._found:
            return self._found[key]
        best = self.range(monomial)[1 if upper else 0]
        self._found[key] = best  # within the substitutions below
        if not self._step():
            return best
        choose = min if upper else max
        for number, power in monomial:
            one = self.quantities[number]
            if one.kind != "input":
                sign = 1 if power > 0 else -1
                rest = product(monomial, ((number, 1),), -sign)
                found = (self._above if power > 0 else self._below)(one, rest, monomial, upper)
                best = choose([best, *found])
        for ratio, largest in self.ratios.items():
            rest = product(monomial, ratio, -1 if upper else 1)
            if _degree(rest) < _degree(monomial):
                found = (
                    [times((largest, largest), (self._most(rest),) * 2)[1]]
                    if upper
                    else [down(self._least(rest) / largest)]
                )
                best = choose([best, *found])
        self._found[key] = best
        return best

    def _above(self, one: Quantity, rest: Monomial, _whole: Monomial, upper: bool) -> list[float]:
        """Bounds of the quantity times the rest."""
        parts = [Term(t.factor, product(t.monomial, rest)) for t in one.terms]
        parts.sort(key=lambda t: _degree(t.monomial))  # the simple ones first
        if one.kind == "sum":
            return [self._sum_of(parts, upper)]
        choose = max if one.kind == "max" else min
        if upper == (one.kind == "min"):  # each gives a bound: those without quantities at once
            parts = [t for t in parts if not t.monomial] or parts
        return [choose(self._upper(t) if upper else self._lower(t) for t in parts)]

    def _below(self, one: Quantity, rest: Monomial, whole: Monomial, upper: bool) -> list[float]:
        """Bounds of the rest divided by the quantity: a sum is at least each of its terms."""
        if not all(t.factor[0] > 0 and self._is_at_least_0(t.monomial) for t in one.terms):
            return []
        above_0 = [t for t in one.terms if self.range(t.monomial)[0] > 0]
        parts = [Term(inverse(t.factor), product(rest, t.monomial, -1)) for t in above_0]
        if one.kind == "sum":
            parts = [t for t in parts if _degree(t.monomial) < _degree(whole)]
            return [self._upper(t) for t in parts] if upper else []
        if one.kind == "max":
            return [self._upper(t) for t in parts] if upper else []
        if len(above_0) < len(one.terms):
            return []
        return [max(self._upper(t) if upper else self._lower(t) for t in parts)]


def _scaled(factor: float, bound: float) -> float:
    """An upper bound of the product."""
    return factor * bound if abs(factor) == 1 else up(factor * bound)


def _degree(monomial: Monomial) -> int:
    return sum(abs(power) for _, power in monomial)
