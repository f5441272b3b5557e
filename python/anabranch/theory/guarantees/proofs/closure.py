"""The closure and the interior of a case's region in the rates, with everything else held."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product

from sympy.polys.rings import PolyElement

from anabranch.theory.guarantees.proofs.formula import value
from anabranch.theory.guarantees.proofs.symbol import (
    AT_LEAST,
    POSITIVE,
    UNEQUAL,
    ZERO,
    Atom,
    Case,
    one_sign,
)

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
