"""A number type that keeps formulas: rational functions of the state, and square roots of them.

A rule evaluated in it gives its own `I_r` and `D_r`. A comparison is answered by the case that is
evaluated, so that every case is one rational function without `max` and `min`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Rational
from typing import Any

from sympy import QQ
from sympy.polys.fields import FracElement, FracField
from sympy.polys.rings import PolyElement

MOST_ROOTS = 2
"""Largest number of different square roots in a rule."""

POSITIVE, AT_LEAST, ZERO, UNEQUAL = ">", ">=", "=", "distinct"
"""Relations of a polynomial to 0."""


class Variables:
    """The variables of the states of one user, all positive; rates are in packets/s, times in s."""

    def __init__(self, paths: int, equal_rtts: bool, parameters: Sequence[str] = ()) -> None:
        numbers = range(1, paths + 1)
        rtts = ["t"] * paths if equal_rtts else [f"t{r}" for r in numbers]
        groups = {
            "x": [f"x{r}" for r in numbers],
            "t": rtts,
            "q": [f"q{r}" for r in numbers],
            "l": [f"l{r}" for r in numbers],
        }
        names = list(dict.fromkeys(name for group in groups.values() for name in group))
        names += parameters
        # Twice as many: two cases that are judged together have roots of their own.
        roots = [f"s{i}" for i in range(1, 2 * MOST_ROOTS + 1)]
        self.paths, self.equal_rtts = paths, equal_rtts
        self.field = FracField(names + roots, QQ)
        self.names = names + roots
        of = dict(zip(self.names, self.field.gens, strict=True))
        self.rate = [of[name] for name in groups["x"]]
        self.rtt = [of[name] for name in groups["t"]]
        self.queue_delay = [of[name] for name in groups["q"]]
        self.loss_interval = [of[name] for name in groups["l"]]
        self.parameters = [of[name] for name in parameters]
        self.roots = [of[name] for name in roots]


@dataclass(frozen=True)
class Atom:
    """A polynomial in a relation to 0."""

    polynomial: PolyElement
    relation: str

    def negated(self) -> "Atom":
        """The opposite of an assumption."""
        opposite = {POSITIVE: AT_LEAST, AT_LEAST: POSITIVE}
        if self.relation in opposite:
            return Atom(-self.polynomial, opposite[self.relation])
        return Atom(self.polynomial, ZERO if self.relation == UNEQUAL else UNEQUAL)

    def holds(self, value: Fraction) -> bool:
        """Whether it does, for this value of its polynomial."""
        return {
            POSITIVE: value > 0,
            AT_LEAST: value >= 0,
            ZERO: value == 0,
            UNEQUAL: value != 0,
        }[self.relation]


def atom(function: FracElement, relation: str) -> Atom:
    """A rational function in a relation to 0, where its denominator is not 0."""
    if relation in (ZERO, UNEQUAL):
        return Atom(_stripped(function.numer), relation)
    return Atom(_stripped(function.numer) * _stripped(function.denom), relation)


def _stripped(polynomial: PolyElement) -> PolyElement:
    """A polynomial of the same sign at positive values, without factors that are positive there."""
    if polynomial == 0:
        return polynomial
    constant, factors = polynomial.factor_list()
    kept = polynomial.ring(1 if constant > 0 else -1)
    for factor, power in factors:
        sign = one_sign(factor)
        kept *= (sign or factor) ** power
    return kept


def one_sign(polynomial: PolyElement) -> int:
    """1 or -1 where all coefficients have that sign, as it has at positive values; else 0."""
    signs = {1 if c > 0 else -1 for c in polynomial.values()}
    return signs.pop() if len(signs) == 1 else 0


@dataclass
class Case:
    """Answers to the comparisons of a rule, and what they assume."""

    variables: Variables
    answers: Sequence[bool]
    """Answers to the first comparisons; later ones are answered with yes."""
    assumed: list[Atom] = field(default_factory=list)
    roots: list[FracElement] = field(default_factory=list)
    """Radicands of the square roots, in the order of the variables s1, s2, ..."""
    divisors: list[PolyElement] = field(default_factory=list)
    """Divisors of the rule that may be 0."""

    def holds(self, difference: FracElement, relation: str) -> bool:
        """Answer whether the difference has this relation to 0."""
        asked = atom(difference, relation)
        sign = one_sign(difference.numer) * one_sign(difference.denom)
        if difference == 0 or sign:
            return asked.holds(Fraction(sign))
        for known in self.assumed:
            if asked in (known, known.negated()):
                return asked == known
        number = len(self.assumed)
        answer = self.answers[number] if number < len(self.answers) else True
        self.assumed.append(asked if answer else asked.negated())
        return answer

    def root(self, radicand: FracElement) -> FracElement:
        """The square root of a number."""
        if radicand == 0:
            return radicand
        if radicand not in self.roots:
            if len(self.roots) == MOST_ROOTS:
                raise ValueError(f"the rule has more than {MOST_ROOTS} different square roots")
            self.roots.append(radicand)
        return self.variables.roots[self.roots.index(radicand)]

    def derivative(self, function: FracElement, variable: FracElement) -> FracElement:
        """The partial derivative of a function, square roots included."""
        total = function.diff(variable)
        for root, radicand in zip(self.variables.roots, self.roots, strict=False):
            if (slope := function.diff(root)) != 0:  # a radicand may have earlier roots
                total += slope * self.derivative(radicand, variable) / (2 * root)
        return total

    def quotient(self, one: FracElement, other: FracElement) -> FracElement:
        """One number by another; what is then cancelled is remembered, as the rule does divide."""
        divisor = other.numer
        if divisor != 0 and not one_sign(divisor) and divisor not in self.divisors:
            self.divisors.append(divisor)
        return one / other

    def equations(self) -> list[Atom]:
        """The square of each root is its radicand."""
        pairs = zip(self.variables.roots, self.roots, strict=False)
        return [atom(root * root - radicand, ZERO) for root, radicand in pairs]


class Symbol:
    """A number of a case, with the operators of Python."""

    __slots__ = ("case", "value")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: FracElement, case: Case) -> None:
        self.value, self.case = value, case

    def _other(self, other: Any) -> FracElement | None:
        if isinstance(other, Symbol):
            return other.value
        exact = exactly(other)
        return None if exact is None else self.case.variables.field(exact)

    def _new(self, value: FracElement) -> "Symbol":
        return Symbol(value, self.case)

    def __add__(self, other: Any) -> "Symbol":
        found = self._other(other)
        return NotImplemented if found is None else self._new(self.value + found)

    def __sub__(self, other: Any) -> "Symbol":
        found = self._other(other)
        return NotImplemented if found is None else self._new(self.value - found)

    def __rsub__(self, other: Any) -> "Symbol":
        return (-self).__add__(other)

    def __mul__(self, other: Any) -> "Symbol":
        found = self._other(other)
        return NotImplemented if found is None else self._new(self.value * found)

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: Any) -> "Symbol":
        found = self._other(other)
        return NotImplemented if found is None else self._new(self.case.quotient(self.value, found))

    def __rtruediv__(self, other: Any) -> "Symbol":
        found = self._other(other)
        return NotImplemented if found is None else self._new(self.case.quotient(found, self.value))

    def __neg__(self) -> "Symbol":
        return self._new(-self.value)

    def __abs__(self) -> "Symbol":
        return self if self >= 0 else -self

    def __pow__(self, power: Any) -> "Symbol":
        exact = exactly(power)
        if exact is None or exact.denominator > 2:
            raise TypeError(f"a power of {power} is no rational function: use whole numbers or 0.5")
        base = self.value if exact.denominator == 1 else self.case.root(self.value)
        raised = self._new(base ** abs(exact.numerator))
        return 1 / raised if exact < 0 else raised

    def _compare(self, other: Any, relation: str, swapped: bool = False) -> bool:
        if isinstance(other, float) and abs(other) == float("inf"):
            return relation != ZERO and (other > 0) == swapped
        found = self._other(other)
        if found is None:
            raise TypeError(f"expected a number to compare with, got {other!r}")
        difference = found - self.value if swapped else self.value - found
        return self.case.holds(difference, relation)

    def __ge__(self, other: Any) -> bool:
        return self._compare(other, AT_LEAST)

    def __gt__(self, other: Any) -> bool:
        return self._compare(other, POSITIVE)

    def __le__(self, other: Any) -> bool:
        return self._compare(other, AT_LEAST, swapped=True)

    def __lt__(self, other: Any) -> bool:
        return self._compare(other, POSITIVE, swapped=True)

    def __eq__(self, other: object) -> bool:
        return self._compare(other, ZERO)

    def __bool__(self) -> bool:
        return self._compare(0, UNEQUAL)

    def __float__(self) -> float:
        raise TypeError(
            "this number is a formula: use + - * /, comparisons, min, max, sum and ** 0.5, and no "
            "function of the module math"
        )


def exactly(number: Any) -> Fraction | None:
    """A number as a fraction: a float as the shortest decimal number that reads as it."""
    if isinstance(number, float):
        return Fraction(repr(number))
    return Fraction(number) if isinstance(number, Rational) else None


@dataclass(frozen=True)
class StatePath:
    """A path with these numbers, for a rule in Rust or Python; the RTT includes queueing."""

    window: Any
    rtt: Any
    queue_delay: Any
    loss_interval: Any
    base_rtt: Any
    peak: Any = Fraction(0)
    prior_peak: Any = Fraction(0)
    epoch_window: Any = Fraction(0)
    age: Any = Fraction(0)
    rounds: Any = Fraction(0)

    @property
    def round_rtt(self) -> Any:
        return self.rtt

    @property
    def since_loss(self) -> Any:
        return self.loss_interval

    @property
    def between_losses(self) -> Any:
        return self.loss_interval

    @property
    def rate(self) -> Any:
        return self.window / self.rtt


def paths_of(case: Case) -> Iterator[StatePath]:
    """The paths of one user, in symbols: the window is the rate times the RTT."""
    v = case.variables
    columns = zip(v.rate, v.rtt, v.queue_delay, v.loss_interval, strict=True)
    for rate, rtt, delay, interval in columns:
        numbers = (rate * rtt, rtt, delay, interval, rtt - delay)
        yield StatePath(*(Symbol(number, case) for number in numbers))


# Small matrices of rational functions.


Matrix = Sequence[Sequence[FracElement]]


def determinant(matrix: Matrix) -> FracElement:
    """Expansion along the first row."""
    if len(matrix) == 1:
        return matrix[0][0]
    terms = [
        (-1) ** k * entry * determinant(_without(matrix, 0, k))
        for k, entry in enumerate(matrix[0])
        if entry != 0
    ]
    return sum(terms, matrix[0][0].field.zero)


def adjugate(matrix: Matrix) -> tuple[Matrix, FracElement]:
    """The inverse times the determinant, and the determinant."""
    n = len(matrix)
    if n == 1:
        return [[matrix[0][0].field.one]], matrix[0][0]
    minors = [[determinant(_without(matrix, k, r)) for k in range(n)] for r in range(n)]
    signed = [[(-1) ** (r + k) * minors[r][k] for k in range(n)] for r in range(n)]
    return signed, determinant(matrix)


def total(matrix: Matrix) -> FracElement:
    """The sum of all entries."""
    return sum((entry for row in matrix for entry in row), matrix[0][0].field.zero)


def _without(matrix: Matrix, row: int, column: int) -> Matrix:
    return [
        [entry for k, entry in enumerate(entries) if k != column]
        for r, entries in enumerate(matrix)
        if r != row
    ]
