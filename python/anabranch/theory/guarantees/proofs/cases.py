"""A rule as rational functions of the state, one for each case of its comparisons."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from sympy.polys.fields import FracElement

from anabranch import _core
from anabranch.rule.file import in_file, in_one_line, made
from anabranch.scenario import ScenarioError
from anabranch.theory.guarantees.proofs.closure import closed, moving, opened
from anabranch.theory.guarantees.proofs.formula import formula
from anabranch.theory.guarantees.proofs.solvers import UNSATISFIABLE, decide
from anabranch.theory.guarantees.proofs.symbol import (
    AT_LEAST,
    POSITIVE,
    Atom,
    Case,
    Symbol,
    Variables,
    atom,
    paths_of,
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
