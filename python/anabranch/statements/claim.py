"""A statement of a paper as formulas over the reals: implications, and examples in numbers."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sympy import QQ
from sympy.polys.fields import FracElement, FracField

from anabranch.statements.quotes import QUOTES
from anabranch.theory.guarantees.proofs.formula import formula, satisfied
from anabranch.theory.guarantees.proofs.solvers import (
    SATISFIABLE,
    SOLVERS,
    UNKNOWN,
    UNSATISFIABLE,
    decide,
)
from anabranch.theory.guarantees.proofs.symbol import (
    AT_LEAST,
    POSITIVE,
    UNEQUAL,
    ZERO,
    Atom,
    atom,
)

LONGEST = 160
"""Characters of a formula that are printed."""


def reals(names: str) -> list[FracElement]:
    """Positive real variables with these names, for rational functions."""
    return list(FracField(names.split(), QQ).gens)


def above(one: FracElement, other: Any = 0) -> Atom:
    """one > other."""
    return atom(one - other, POSITIVE)


def at_least(one: FracElement, other: Any = 0) -> Atom:
    """one >= other."""
    return atom(one - other, AT_LEAST)


def equal(one: FracElement, other: Any = 0) -> Atom:
    """one = other."""
    return atom(one - other, ZERO)


@dataclass(frozen=True)
class Implication:
    """All assumptions imply one of the conclusions, for all positive numbers."""

    says: str
    assumed: Sequence[Atom]
    concluded: Sequence[Atom]

    @property
    def negation(self) -> list[Atom]:
        """Formulas that have no solution together if the implication holds."""
        return [*self.assumed, *(one.negated() for one in self.concluded)]

    @property
    def text(self) -> str:
        """The implication as a formula."""
        left, right = (
            " and ".join(map(_text, self.assumed)),
            " or ".join(map(_text, self.concluded)),
        )
        return f"{left} => {right}" if left else right


@dataclass(frozen=True)
class Exists:
    """There are positive numbers at which all of these hold."""

    says: str
    atoms: Sequence[Atom]

    @property
    def text(self) -> str:
        """The conditions as a formula."""
        return " and ".join(map(_text, self.atoms))


@dataclass(frozen=True)
class Never:
    """None of these conjunctions has a solution in positive numbers."""

    says: str
    conjunctions: Sequence[Sequence[Atom]]

    @property
    def text(self) -> str:
        """How many there are, and the largest."""
        terms = max(len(one.polynomial) for atoms in self.conjunctions for one in atoms)
        count = len(self.conjunctions)
        return f"{count} formulas from the code of the rule, of up to {terms} terms"


Formulas = Implication | Exists | Never


@dataclass(frozen=True)
class Claim:
    """A printed statement with its proof, and the part of it that is left to the reader."""

    place: str
    """Where the paper states it: a key of `theory.quotes`."""
    parts: Sequence[Formulas]
    left: str = ""
    """Parts of the statement that the formulas do not contain."""


@dataclass(frozen=True)
class Part:
    """The verdict on one formula."""

    says: str
    formula: str
    result: str
    """"proved", "refuted" or "unknown"."""
    by: Mapping[str, str]
    """Result of each solver; empty for an example, which is checked exactly."""
    seconds: float
    example: Mapping[str, str]
    """Rational numbers of an example."""


@dataclass(frozen=True)
class Proof:
    """A printed statement with the verdicts on its formulas."""

    paper: str
    place: str
    printed: str
    left: str
    parts: Sequence[Part]

    def as_dict(self) -> dict[str, Any]:
        parts = [{**vars(one), "by": dict(one.by), "example": dict(one.example)}
                 for one in self.parts]  # fmt: skip
        return {
            "paper": self.paper,
            "place": self.place,
            "printed": self.printed,
            "left": self.left,
            "parts": parts,
        }


def proof(paper: str, claim: Claim, timeout_s: float) -> Proof:
    """Decide a claim's formulas. Raises `LookupError` for a place without printed words."""
    parts = [_part(one, timeout_s) for one in claim.parts]
    return Proof(paper, claim.place, QUOTES[paper][claim.place], claim.left, parts)


def _part(one: Formulas, timeout_s: float) -> Part:
    start = time.monotonic()
    if isinstance(one, Never):
        answers = [decide(formula(atoms), timeout_s) for atoms in one.conjunctions]
        results = {answer.result for answer in answers}
        result = {frozenset({UNSATISFIABLE}): "proved"}.get(
            frozenset(results), "refuted" if SATISFIABLE in results else UNKNOWN
        )
        by = {
            name: UNSATISFIABLE if all(a.by[name] == UNSATISFIABLE for a in answers) else UNKNOWN
            for name in SOLVERS
        }
        return Part(one.says, one.text, result, by, time.monotonic() - start, {})
    implied = isinstance(one, Implication)
    atoms = one.negation if isinstance(one, Implication) else list(one.atoms)
    asked = formula(atoms)
    answer = decide(asked, timeout_s)
    solution: dict[str, Fraction | int] = {**asked.ones, **(answer.solution or {})}
    example: dict[str, str] = {}
    result = UNKNOWN
    if answer.result == UNSATISFIABLE:
        result = "proved" if implied else "refuted"
    elif answer.result == SATISFIABLE:
        near = _exact(atoms, solution)
        if near is not None:
            example = {name: str(number) for name, number in near.items()}
            result = "refuted" if implied else "proved"
    return Part(one.says, one.text, result, answer.by, time.monotonic() - start, example)


def _exact(
    atoms: Sequence[Atom], solution: Mapping[str, Fraction | int]
) -> dict[str, Fraction] | None:
    """Short rational numbers near a solution at which all holds, exactly."""
    for most in (1, 2, 4, 10, 100, 10_000, 10**12):
        at = {name: Fraction(number).limit_denominator(most) for name, number in solution.items()}
        if all(number > 0 for number in at.values()) and satisfied(atoms, at):
            return at
    at = {name: Fraction(number) for name, number in solution.items()}
    return at if satisfied(atoms, at) else None


def _text(one: Atom) -> str:
    words = {POSITIVE: "> 0", AT_LEAST: ">= 0", ZERO: "= 0", UNEQUAL: "!= 0"}[one.relation]
    polynomial = str(one.polynomial.as_expr()).replace("**", "^")
    if len(polynomial) > LONGEST:
        polynomial = f"(polynomial of {len(one.polynomial)} terms)"
    return f"{polynomial} {words}"
