"""Cases that differ only in the numbering of the paths: one of each such kind has to be judged."""

from collections.abc import Sequence
from itertools import permutations

from sympy.polys.fields import FracElement
from sympy.polys.rings import PolyElement

from anabranch.theory.guarantees.proofs.cases import Piece
from anabranch.theory.guarantees.proofs.symbol import AT_LEAST, POSITIVE, Variables


def representatives(pieces: Sequence[Piece]) -> list[Piece]:
    """Cases of which no other is a renumbering; regions count with their boundaries."""
    kept: list[Piece] = []
    known: set[object] = set()
    for piece in pieces:
        if _key(piece, tuple(piece.numbers)) not in known:
            kept.append(piece)
            known |= {_key(piece, order) for order in permutations(piece.numbers)}
    return kept


def _key(piece: Piece, order: tuple[int, ...]) -> object:
    """The case with path r as path order[r]: its boundary, increases and decreases."""
    where = _places(piece.variables, order)
    region = frozenset(
        (_moved(one.polynomial, where), AT_LEAST if one.relation == POSITIVE else one.relation)
        for one in piece.region
    )
    back = sorted(piece.numbers, key=lambda r: order[r])
    functions = [
        _moved_function(column[r], where)
        for column in (piece.increase, piece.decrease)
        for r in back
    ]
    return region, tuple(functions), tuple(_moved_function(f, where) for f in piece.case.roots)


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
