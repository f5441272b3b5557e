"""A rule as rational functions of the state, one for each case of its comparisons."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Protocol

from sympy.polys.fields import FracElement
from sympy.polys.rings import PolyElement

from anabranch import _core
from anabranch.rule import in_file, in_one_line, made
from anabranch.scenario import ScenarioError
from anabranch.theory.guarantees.proofs.formula import formula, value
from anabranch.theory.guarantees.proofs.solvers import UNSATISFIABLE, decide
from anabranch.theory.guarantees.proofs.symbol import (
    AT_LEAST,
    POSITIVE,
    UNEQUAL,
    ZERO,
    Atom,
    Case,
    Symbol,
    Variables,
    atom,
    one_sign,
    paths_of,
)

# The closure and the interior of a case's region in the rates, with everything else held.


STEPS = (-2, -1, 0, 1, 2)
"""Relative changes of each rate that together make the directions which are tried."""


def moving(case: Case) -> set[int]:
    """The places of the variables that change with the rates: these, and roots of them."""
    gens = case.variables.field.gens
    found = {gens.index(rate) for rate in case.variables.rate}
    for root, radicand in zip(case.variables.roots, case.roots, strict=False):
        if _involves(radicand.numer, found) or _involves(radicand.denom, found):
            found.add(gens.index(root))
    return found


def closed(atoms: Sequence[Atom], moves: set[int]) -> list[Atom]:
    """Necessary where states of the region with other rates, and all else the same, come near."""
    return [kept for one in atoms for kept in _closed(one, moves)]


def _closed(one: Atom, moves: set[int]) -> Iterator[Atom]:
    if one.relation not in (POSITIVE, UNEQUAL) or not _involves(one.polynomial, moves):
        yield one
        return
    if one.relation == POSITIVE:
        yield Atom(one.polynomial, AT_LEAST)
    # A factor without a rate is not 0 anywhere near.
    for factor, _ in one.polynomial.factor_list()[1]:
        if not _involves(factor, moves) and not one_sign(factor):
            yield Atom(factor, UNEQUAL)


def opened(atoms: Sequence[Atom], moves: set[int]) -> list[Atom] | None:
    """The interior of the region in the rates; None where an equation of rates leaves none."""
    kept = []
    for one in atoms:
        if one.relation in (AT_LEAST, ZERO) and _varies(one.polynomial, moves):
            if one.relation == ZERO:
                return None
            one = Atom(one.polynomial, POSITIVE)
        kept.append(one)
    return kept


def reached(case: Case, atoms: Sequence[Atom], at: Mapping[str, Fraction]) -> bool:
    """Whether the region has this state, or states on a ray of rates that begins at it.

    The polynomials along the ray are known exactly. A region with a square root of rates is taken
    as reached.
    """
    gens = case.variables.field.gens
    rates = [gens.index(rate) for rate in case.variables.rate]
    roots = moving(case) - set(rates)
    if any(_involves(one.polynomial, roots) for one in atoms):
        return True
    return any(
        all(_on_ray(one, at, dict(zip(rates, steps, strict=True))) for one in atoms)
        for steps in sorted(product(STEPS, repeat=len(rates)), key=lambda s: sum(map(abs, s)))
    )


def _on_ray(one: Atom, at: Mapping[str, Fraction], steps: Mapping[int, int]) -> bool:
    """Whether it holds next to the state: by the first term that is not 0, in the distance."""
    total: list[Fraction] = []
    for powers, coefficient in one.polynomial.items():
        term = [value(one.polynomial.ring.from_dict({powers: coefficient}), at)]
        for place, step in steps.items():
            for _ in range(powers[place]):
                term = [
                    a + step * b
                    for a, b in zip([*term, Fraction(0)], [Fraction(0), *term], strict=True)
                ]
        total += [Fraction(0)] * (len(term) - len(total))
        for i, number in enumerate(term):
            total[i] += number
    return one.holds(next((number for number in total if number), Fraction(0)))


def _involves(polynomial: PolyElement, places: set[int]) -> bool:
    return any(powers[i] for powers in polynomial for i in places)


def _varies(polynomial: PolyElement, moves: set[int]) -> bool:
    """Whether it is no constant of the rates, whatever is held: a coefficient is never 0."""
    if not _involves(polynomial, moves):
        return False
    parts: dict[tuple[int, ...], dict[tuple[int, ...], object]] = {}
    for powers, coefficient in polynomial.items():
        own = tuple(powers[i] for i in sorted(moves))
        rest = tuple(0 if i in moves else power for i, power in enumerate(powers))
        parts.setdefault(own, {})[rest] = coefficient
    return any(
        any(own) and one_sign(polynomial.ring.from_dict(part)) for own, part in parts.items()
    )


FEASIBLE_S = 0.3
"""Time for each solver to show that a case does not occur; kept if it does not finish."""

MOST_CASES = 100
"""Most cases of a rule for one number of paths."""


class TooManyCases(Exception):
    """A rule has more than `MOST_CASES` cases."""


class NoFormula(ScenarioError):
    """A rule that cannot be evaluated in symbols, and why."""


class Evaluated(Protocol):
    """`I_r` and `D_r` of every path of one user, in the numbers of its paths."""

    def __call__(self, paths: Sequence[Any]) -> list[tuple[Any, Any]]: ...


@dataclass(frozen=True)
class ProvedRule:
    """A rule of the table, or one written in Python."""

    name: str
    evaluate: Evaluated
    written: Any = None
    """The Python object, for a rule that is not in the table."""
    place: Path | None = None
    """The file of that object."""

    @classmethod
    def of(cls, text: str) -> "ProvedRule":
        """A specification such as "balia:cap=inf", or FILE.py:CLASS. Raises `ScenarioError`."""
        if place := in_file(text):
            name, written = place[1], made(*place)
            return cls(name, lambda paths: _evaluated(written, paths), written, place[0])
        law = _core.Law(text)
        if law.delay_based:
            raise ScenarioError(
                f"{law.name} acts once per round trip: it has no increase per packet, hence no phi"
            )
        if not law.fluid:
            raise ScenarioError(
                f"{law.name} has no phi of the rates: it follows the time since the last loss, or "
                "delivery rates"
            )
        return cls(law.name, law.evaluate_in)


def _evaluated(rule: Any, paths: Sequence[Any]) -> list[tuple[Any, Any]]:
    return [(rule.increase(r, paths), rule.decrease(r, paths)) for r in range(len(paths))]


@dataclass(frozen=True, eq=False)
class Piece:
    """The rule in one case. Derivatives are in the rates, with the RTTs held."""

    case: Case
    increase: Sequence[FracElement]
    decrease: Sequence[FracElement]
    units: bool = True
    """Whether a rate and an RTT may be set to 1, where the rule has no units."""

    @property
    def variables(self) -> Variables:
        return self.case.variables

    @cached_property
    def region(self) -> list[Atom]:
        """Assumptions of the case; a queue's delay is less than the RTT, of which it is a part."""
        v = self.variables
        functions = [*self.increase, *self.decrease]
        used = [*(one.polynomial for one in self.case.assumed), *self.case.divisors]
        used += [part for function in functions for part in (function.numer, function.denom)]
        parts = [
            atom(rtt - delay, POSITIVE)
            for rtt, delay in zip(v.rtt, v.queue_delay, strict=True)
            if any(polynomial.degree(delay.numer) > 0 for polynomial in used)
        ]
        return [*self.case.assumed, *self.case.equations(), *parts]

    @property
    def numbers(self) -> range:
        """The numbers of the paths, from 0."""
        return range(self.variables.paths)

    @cached_property
    def moving(self) -> set[int]:
        """The variables that change with the rates."""
        return moving(self.case)

    @cached_property
    def closed(self) -> list[Atom]:
        """The region with its boundary in the rates."""
        return closed(self.region, self.moving)

    @cached_property
    def interior(self) -> list[Atom] | None:
        """The region without its boundary in the rates; None where it is a boundary itself."""
        inner = opened(self.case.assumed, self.moving)
        if inner is None or not _occurs(self.case, inner):
            return None
        return [*inner, *self.region[len(self.case.assumed) :]]

    def before_root(self, number: int) -> list[Atom]:
        """The region as far as it does not need a root, or a later one."""
        return _before_root(self.case, self.region, number)

    @property
    def divides_by_0(self) -> bool:
        """Whether the rule has no value in this case."""
        return not self.increase

    @property
    def has_phi(self) -> bool:
        """Whether phi exists: the rule has values, and no decrease is 0 throughout."""
        return not self.divides_by_0 and all(one != 0 for one in self.decrease)

    @cached_property
    def phi(self) -> list[FracElement]:
        """I_r / D_r."""
        return [i / d for i, d in zip(self.increase, self.decrease, strict=True)]

    @cached_property
    def jacobian(self) -> list[list[FracElement]]:
        """dphi_r/dx_k."""
        derivative, rate = self.case.derivative, self.variables.rate
        return [[derivative(phi, x) for x in rate] for phi in self.phi]


def pieces(
    rule: ProvedRule, paths: int, equal_rtts: bool, parameters: Sequence[str] = ()
) -> list[Piece]:
    """Every case that occurs; `parameters` are more variables, which the rule does not have.

    Raises `TooManyCases`.
    """
    variables = Variables(paths, equal_rtts, parameters)
    found: list[Piece] = []
    waiting: list[list[bool]] = [[]]
    while waiting:
        answers = waiting.pop()
        case = Case(variables, answers)
        pairs = _evaluated_in(rule, case)
        for number in range(len(answers), len(case.assumed)):
            other = [*case.assumed[:number], case.assumed[number].negated()]
            if _occurs(case, other):
                waiting.append([*answers, *[True] * (number - len(answers)), False])
        if _occurs(case, case.assumed):
            increase, decrease = zip(*pairs, strict=True) if pairs else ((), ())
            found.append(Piece(case, _values(case, increase), _values(case, decrease)))
        if len(found) + len(waiting) > MOST_CASES:
            raise TooManyCases(f"{rule.name} has more than {MOST_CASES} cases with {paths} paths")
    return found


def _evaluated_in(rule: ProvedRule, case: Case) -> list[tuple[Any, Any]]:
    """The rule's values; none where it divides by 0 throughout the case. Raises `NoFormula`."""
    try:
        return rule.evaluate(list(paths_of(case)))
    except ZeroDivisionError:
        return []
    except Exception as error:  # whatever the code of a rule may raise
        place = rule.place
        words = in_one_line(error, place) if place else f"{type(error).__name__}: {error}"
        where = f"{place}: " if place else ""
        raise NoFormula(f"{where}{rule.name} is no formula: {words}") from None


def _values(case: Case, numbers: Sequence[Any]) -> list[FracElement]:
    return [
        number.value if isinstance(number, Symbol) else case.variables.field(Fraction(number))
        for number in numbers
    ]


def _occurs(case: Case, assumed: Sequence[Atom]) -> bool:
    if not assumed:
        return True
    if not _never([*assumed, *case.equations()]):
        return True
    # Without a state at which its roots exist the rule still takes them.
    atoms = [*assumed, *case.equations()]
    return any(
        not _never([*_before_root(case, atoms, number), atom(-radicand, AT_LEAST)])
        for number, radicand in enumerate(case.roots)
    )


def _before_root(case: Case, atoms: Sequence[Atom], number: int) -> list[Atom]:
    later = case.variables.roots[number:]
    return [
        one for one in atoms if not any(one.polynomial.degree(root.numer) > 0 for root in later)
    ]


def _never(atoms: Sequence[Atom]) -> bool:
    return decide(formula(atoms), FEASIBLE_S).result == UNSATISFIABLE


def pairs_of(found: Sequence[Piece]) -> Iterator[tuple[Piece, Piece]]:
    """Each two cases once."""
    for i, one in enumerate(found):
        for other in found[i + 1 :]:
            yield one, other
