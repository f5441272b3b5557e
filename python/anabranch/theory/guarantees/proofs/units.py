"""Units of rate and time in which one rate and one RTT are 1, where a rule has no units itself."""

from collections.abc import Sequence

from sympy import Matrix as ExactMatrix
from sympy.polys.fields import FracElement
from sympy.polys.rings import PolyElement

from anabranch.theory.guarantees.proofs.cases import Piece
from anabranch.theory.guarantees.proofs.matrix import Matrix
from anabranch.theory.guarantees.proofs.symbol import Atom


def with_units(piece: Piece, *groups: Sequence[Atom]) -> tuple[Matrix, list[list[Atom]], bool]:
    """The Jacobian and groups of atoms with as many variables 1 as may be, and whether among them
    are a rate and a time.

    Where phi and the atoms are homogeneous if all rates are multiplied by c, so are the minors of
    the Jacobian, and the sign of each is the same at all c. The same applies to times and to counts
    of packets.
    """
    ones = _ones(piece, [one for group in groups for one in group]) if piece.units else []
    jacobian = [[_with(entry, ones) for entry in row] for row in piece.jacobian]
    units = {id(generator) for generator in ones}
    unitless = all(id(group[-1]) in units for group in (piece.variables.rate, piece.variables.rtt))
    atoms = [[Atom(_set(a.polynomial, ones), a.relation) for a in group] for group in groups]
    return jacobian, atoms, unitless


def _ones(piece: Piece, region: Sequence[Atom]) -> list[FracElement]:
    variables = piece.variables
    groups = [variables.rate, variables.rtt, variables.queue_delay, variables.loss_interval]
    groups += [[root] for root in variables.roots[: len(piece.case.roots)]]
    index = {generator: i for i, generator in enumerate(variables.field.gens)}
    columns = [sorted({index[generator] for generator in group}) for group in groups]
    polynomials = [p for phi in piece.phi for p in (phi.numer, phi.denom)]
    polynomials += [one.polynomial for one in region]
    rows = []
    for polynomial in polynomials:
        degrees = [[sum(powers[i] for i in column) for column in columns] for powers in polynomial]
        rows += [[a - b for a, b in zip(one, degrees[0], strict=True)] for one in degrees[1:]]
    # The entries of a minor are added: they need one degree.
    balance = [_degree(phi, columns) for phi in piece.phi if phi != 0]
    rows += [[a - b for a, b in zip(one, balance[0], strict=True)] for one in balance[1:]]
    used = [any(p[i] for poly in polynomials for p in poly for i in column) for column in columns]
    rows += [[int(i == k) for i in range(len(columns))] for k, one in enumerate(used) if not one]
    weights = ExactMatrix(rows).nullspace() if rows else []
    if not weights:
        return []
    pivots = ExactMatrix([list(weight) for weight in weights]).rref()[1]
    return [groups[i][-1] for i in pivots if i < 4]


def _degree(function: FracElement, columns: Sequence[Sequence[int]]) -> list[int]:
    """The degree of a rational function in each group, if it is homogeneous."""
    above, below = next(iter(function.numer)), next(iter(function.denom))
    return [sum(above[i] - below[i] for i in column) for column in columns]


def _with(function: FracElement, ones: Sequence[FracElement]) -> FracElement:
    field = function.field
    return field(_set(function.numer, ones)) / field(_set(function.denom, ones))


def _set(polynomial: PolyElement, ones: Sequence[FracElement]) -> PolyElement:
    for generator in ones:
        polynomial = polynomial.subs(generator.numer, 1)
    return polynomial
