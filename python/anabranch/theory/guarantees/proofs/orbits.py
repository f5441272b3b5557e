"""Cases that differ only in the numbering of the paths: one of each such kind has to be judged."""

from collections.abc import Sequence
from itertools import permutations

from sympy.polys.fields import FracElement
from sympy.polys.rings import PolyElement

from anabranch.theory.guarantees.proofs.cases import Piece
from anabranch.theory.guarantees.proofs.symbol import MOST_ROOTS, Atom, Variables


def representatives(pieces: Sequence[Piece], exact: bool = False) -> list[Piece]:
    """Cases of which no other is a renumbering.

    `exact`: regions count as they are, else with their boundaries.
    """
    kept: list[Piece] = []
    known: set[object] = set()
    for piece in pieces:
        if _key(piece, tuple(piece.numbers), exact) not in known:
            kept.append(piece)
            known |= {_key(piece, order, exact) for order in permutations(piece.numbers)}
    return kept


def _key(piece: Piece, order: tuple[int, ...], exact: bool) -> object:
    """The case with path r as path order[r]: its region, increases and decreases."""
    where = _places(piece.variables, order)
    region = frozenset(
        (_moved(one.polynomial, where), one.relation)
        for one in (piece.region if exact else piece.closed)
    )
    back = sorted(piece.numbers, key=lambda r: order[r])
    functions = [
        _moved_function(column[r], where)
        for column in (piece.increase, piece.decrease)
        for r in (back if column else ())
    ]
    roots = tuple(_moved_function(f, where) for f in piece.case.roots)
    divisors = frozenset(_moved(divisor, where) for divisor in piece.case.divisors)
    return region, tuple(functions), roots, divisors if exact else None


def _places(variables: Variables, order: tuple[int, ...]) -> list[int]:
    """The place of each variable after the renumbering."""
    gens = variables.field.gens
    where = list(range(len(gens)))
    groups = [variables.rate, variables.queue_delay, variables.loss_interval]
    if not variables.equal_rtts:
        groups.append(variables.rtt)
    for group in groups:
        for r, generator in enumerate(group):
            where[gens.index(generator)] = gens.index(group[order[r]])
    return where


def apart(one: Piece, other: Piece) -> tuple[list[Atom], list[FracElement]]:
    """Closed region and phi of the other case, with its own names of roots where they differ."""
    roots, others = one.case.roots, other.case.roots
    if all(a == b for a, b in zip(roots, others, strict=False)):
        return list(other.closed), list(other.phi)
    variables = other.variables
    gens = variables.field.gens
    where = list(range(len(gens)))
    for number in range(MOST_ROOTS):
        first, second = (gens.index(variables.roots[number + n]) for n in (0, MOST_ROOTS))
        where[first], where[second] = second, first
    region = [Atom(_moved(a.polynomial, where), a.relation) for a in other.closed]
    return region, [_moved_function(phi, where) for phi in other.phi]


def _moved(polynomial: PolyElement, where: Sequence[int]) -> PolyElement:
    moved = {}
    for powers, coefficient in polynomial.items():
        new = [0] * len(powers)
        for i, power in enumerate(powers):
            new[where[i]] = power
        moved[tuple(new)] = coefficient
    return polynomial.ring.from_dict(moved)


def _moved_function(function: FracElement, where: Sequence[int]) -> FracElement:
    field = function.field
    return field(_moved(function.numer, where)) / field(_moved(function.denom, where))
