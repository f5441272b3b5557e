"""The conditions of a rule as formulas that have a solution exactly where one is violated.

Balia's C0 to C5 are those of `conditions`, at states with positive phi. The goals of RFC 6356,
section 2, are at the fixed point of the fluid model, where the loss probability of a path is phi.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

from sympy import Matrix as ExactMatrix
from sympy.polys.fields import FracElement
from sympy.polys.rings import PolyElement

from anabranch import _core
from anabranch.theory.guarantees.proofs.cases import FEASIBLE_S, Piece, pairs_of
from anabranch.theory.guarantees.proofs.formula import formula
from anabranch.theory.guarantees.proofs.solvers import UNSATISFIABLE, decide
from anabranch.theory.guarantees.proofs.symbol import (
    AT_LEAST,
    MOST_ROOTS,
    POSITIVE,
    UNEQUAL,
    ZERO,
    Atom,
    Matrix,
    StatePath,
    Symbol,
    Variables,
    adjugate,
    atom,
    determinant,
    total,
)

# A violation of a requirement as formulas: one to rule it out, one to find a state of it.


@dataclass(frozen=True)
class Query:
    """A violation of a requirement in one case, or between two."""

    says: str
    """The violation."""
    region: Sequence[Atom]
    """Where, with the boundary, on which another case may be the one that applies."""
    inside: Sequence[Atom] | None
    """Where a violation refutes the requirement. None: there is no such formula, as for a jump,
    which is on a boundary."""
    violation: Sequence[Atom]
    near: Sequence[Piece] = ()
    """Cases that have to apply as near as one likes to a solution of `closed`, with other rates
    and all else the same, for it to refute the requirement. Without one it never does."""
    unitless: bool = False
    """Whether neither rates nor times have a unit, so that one of each is 1."""
    jump: bool = False
    """Whether it is a discontinuity, which derivatives do not show."""

    @property
    def closed(self) -> list[Atom]:
        """Without a solution there is no violation."""
        return [*self.region, *self.violation]

    @property
    def inner(self) -> list[Atom] | None:
        """A solution refutes the requirement."""
        return None if self.inside is None else [*self.inside, *self.violation]


def at_states(
    piece: Piece, says: str, violation: Sequence[Atom], region: Sequence[Atom] | None = None
) -> Query:
    """A violation at single states, where nothing near them matters."""
    where = piece.region if region is None else region
    return Query(says, where, where, violation)


# Cases that differ only in the numbering of the paths: one of each such kind has to be judged.


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


# Units of rate and time in which one rate and one RTT are 1, where a rule has no units itself.


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


@dataclass(frozen=True)
class _Region:
    """Where the derivatives of a case are judged."""

    piece: Piece
    closed: Sequence[Atom]
    inner: Sequence[Atom]
    positive: Sequence[Atom]
    unitless: bool

    def query(self, says: str, violation: Atom) -> Query:
        more = [violation, *self.positive]
        return Query(says, self.closed, self.inner, more, [self.piece], self.unitless)


class Undecidable(Exception):
    """A condition that has no formula here, and why."""


Pieces = Sequence[Piece]


def finite(pieces: Pieces) -> Iterator[Query]:
    """A: 0 < phi_r < infinity."""
    for piece in representatives(pieces, exact=True):
        for number, radicand in enumerate(piece.case.roots):
            region = piece.before_root(number)
            says = "a square root of no positive number"
            yield at_states(piece, says, [_at_most_0(radicand)], region)
        for divisor in piece.case.divisors:
            yield at_states(piece, "the rule divides by 0", [Atom(divisor, ZERO)])
        if piece.divides_by_0:
            yield at_states(piece, "the rule divides by 0", [])
            continue
        for r in piece.numbers:
            says = f"phi_{r + 1} has a pole: the decrease is 0"
            yield at_states(piece, says, [Atom(piece.decrease[r].numer, ZERO)])
            if piece.decrease[r] != 0:
                phi = piece.increase[r] / piece.decrease[r]
                yield at_states(piece, f"phi_{r + 1} <= 0", [_at_most_0(phi)])


def symmetric(pieces: Pieces) -> Iterator[Query]:
    """C0: the Jacobian is symmetric, on either side of a kink; phi is continuous."""
    for piece, jacobian, region in _smooth(pieces):
        for r, k in combinations(piece.numbers, 2):
            says = f"dphi_{r + 1}/dx_{k + 1} is not dphi_{k + 1}/dx_{r + 1}"
            yield region.query(says, atom(jacobian[r][k] - jacobian[k][r], UNEQUAL))
    yield from _continuous(pieces)


def definite(pieces: Pieces) -> Iterator[Query]:
    """C2: the symmetric part of the Jacobian is negative definite, on either side of a kink.

    Sylvester's criterion: leading principal minors of the order k have the sign of (-1)^k.
    """
    for _, jacobian, region in _smooth(pieces):
        n = len(jacobian)
        twice = [[jacobian[r][k] + jacobian[k][r] for k in range(n)] for r in range(n)]
        for size in range(1, n + 1):
            minor = determinant([row[:size] for row in twice[:size]])
            says = f"the leading principal minor of order {size} of [dPhi/dx]^+ has the wrong sign"
            yield region.query(says, _at_most_0(minor if size % 2 == 0 else -minor))
    yield from _continuous(pieces)


def falling(pieces: Pieces) -> Iterator[Query]:
    """C1, the rate through a link falls with its price, and not that rates exist at all prices.

    `1_A' D 1_A <= 0` with `D = J^-1`, for each set of paths A. Raises `Undecidable` after the cases
    that have one.
    """
    singular = False
    for piece, jacobian, region in _smooth(pieces):
        inverse, divisor = adjugate(jacobian)
        if divisor == 0:
            singular = True
            continue
        for subset in _subsets(piece):
            rise = total([[inverse[r][k] for k in subset] for r in subset])
            says = f"the rate through a link of {_names(subset)} rises with its price"
            yield region.query(says, atom(rise / divisor, POSITIVE))
    yield from _continuous(pieces)
    if singular:
        raise Undecidable("in a case the Jacobian has no inverse")


def infinite_at_zero(pieces: Pieces) -> Iterator[Query]:
    """C3: phi_r, where positive, is infinite in the limit x_r = 0, with the other rates held."""
    for piece, r, ends in _ends(pieces, at_zero=True):
        (above, top), (below, bottom) = ends.of(piece.phi[r].numer), ends.of(piece.phi[r].denom)
        says = f"phi_{r + 1} is bounded as x_{r + 1} tends to 0"
        wrong = [Atom(top, ZERO), Atom(bottom, ZERO)] if above < below else [Atom(bottom, UNEQUAL)]
        for one in wrong:
            yield ends.query(says, one)


def total_falls(pieces: Pieces) -> Iterator[Query]:
    """C4: the column sums of the inverse Jacobian are at most 0."""
    for piece, jacobian, region in _smooth(pieces):
        inverse, divisor = adjugate(jacobian)
        if divisor == 0:
            yield from _total_of_rank_one(piece, jacobian, region)
            continue
        for k in piece.numbers:
            rise = total([[row[k]] for row in inverse]) / divisor
            says = f"the total rate rises with the price of path {k + 1}"
            yield region.query(says, atom(rise, POSITIVE))
    yield from _continuous(pieces)


def vanishing(pieces: Pieces) -> Iterator[Query]:
    """C5: phi_r, where positive, tends to 0 as x_r grows with the other rates held."""
    for piece, r, ends in _ends(pieces, at_zero=False):
        (above, top), (below, bottom) = ends.of(piece.phi[r].numer), ends.of(piece.phi[r].denom)
        says = f"phi_{r + 1} does not tend to 0 as x_{r + 1} grows"
        wrong = Atom(bottom, ZERO) if above < below else Atom(top, UNEQUAL)
        yield ends.query(says, wrong)


def increase_of_reno(pieces: Pieces) -> Iterator[Query]:
    """RFC 6356, section 3: a path grows by no more than NewReno would, per acknowledged packet."""
    for piece in representatives(pieces, exact=True):
        for r in piece.numbers:
            window = piece.variables.rate[r] * piece.variables.rtt[r]
            excess = piece.increase[r] - _reno(piece, window)[0]
            yield at_states(piece, f"I_{r + 1} > 1/w_{r + 1}", [atom(excess, POSITIVE)])


def best_path(pieces: Pieces) -> Iterator[Query]:
    """RFC 6356, goal 1: in total at least the rate that one TCP has on any of the paths."""
    for piece in representatives(pieces, exact=True):
        positive = _positive(piece)
        everything = sum(piece.variables.rate, piece.variables.field.zero)
        for r in piece.numbers:
            says = f"one TCP on path {r + 1} has more than all paths together"
            less = atom(-_tcp_excess(piece, r, everything), POSITIVE)
            yield at_states(piece, says, [*positive, less])


def no_harm(pieces: Pieces) -> Iterator[Query]:
    """RFC 6356, goal 2: through a common link at most the rate of one TCP on one of its paths."""
    for piece in representatives(pieces, exact=True):
        positive = _positive(piece)
        for subset in _subsets(piece):
            rate = sum((piece.variables.rate[r] for r in subset), piece.variables.field.zero)
            more = [atom(_tcp_excess(piece, r, rate), POSITIVE) for r in subset]
            says = f"through a link of {_names(subset)} more than one TCP has on any of them"
            yield at_states(piece, says, [*positive, *more])


REQUIREMENTS: Mapping[str, tuple[str, Callable[[Pieces], Iterator[Query]]]] = {
    "A": ("0 < phi_r < infinity at finite rates", finite),
    "C0": ("Phi is continuous, its Jacobian symmetric", symmetric),
    "C1": ("a link's rate falls with its price (the first part of C1)", falling),
    "C2": ("Phi is continuous, the symmetric part of its Jacobian negative definite", definite),
    "C3": ("phi_r is infinite where x_r = 0", infinite_at_zero),
    "C4": ("the total rate falls with each price", total_falls),
    "C5": ("phi_r tends to 0 as x_r grows", vanishing),
    "1/w": ("a path grows by at most 1/w_r per acknowledged packet", increase_of_reno),
    "best": ("all paths have at least the rate of one TCP on the best of them", best_path),
    "harm": ("paths through a common link have at most the rate of one TCP", no_harm),
}
"""Requirements of a rule, a column each. The last three are of RFC 6356, sections 2 and 3."""


def _at_most_0(function: FracElement) -> Atom:
    return atom(-function, AT_LEAST)


def _positive(piece: Piece) -> list[Atom]:
    """A rule is stationary at no state where a phi is not positive."""
    return [atom(phi, POSITIVE) for phi in piece.phi]


def defined(pieces: Pieces) -> bool:
    """Whether the rule has values at all states: it divides by 0 nowhere."""
    return all(
        not piece.divides_by_0
        and all(
            decide(formula([*piece.region, Atom(divisor, ZERO)]), FEASIBLE_S).result
            == UNSATISFIABLE
            for divisor in piece.case.divisors
        )
        for piece in pieces
    )


def stationary(pieces: Pieces) -> bool:
    """Whether every phi is positive at some state; also where no solver denies it in time."""
    return any(
        decide(formula([*piece.region, *_positive(piece)]), FEASIBLE_S).result != UNSATISFIABLE
        for piece in pieces
    )


def _smooth(pieces: Pieces) -> Iterator[tuple[Piece, Matrix, _Region]]:
    """The Jacobian of each case and where it is stationary, in units that remove variables."""
    for piece in representatives(pieces):
        if piece.interior is None:
            continue
        groups = (piece.closed, piece.interior, _positive(piece))
        jacobian, (near, inner, positive), unitless = with_units(piece, *groups)
        yield piece, jacobian, _Region(piece, near, inner, positive, unitless)


def _continuous(pieces: Pieces) -> Iterator[Query]:
    """Phi has a limit at the boundary of each case, which is that of its neighbours.

    Rates change and all else is held: a rule may well change at an RTT.
    """
    for piece in representatives(pieces):
        for r in piece.numbers:
            above, below = (Atom(part, ZERO) for part in (piece.phi[r].numer, piece.phi[r].denom))
            pole = [below, above.negated()]
            yield Query(f"phi_{r + 1} has a pole", piece.closed, None, pole, [piece], jump=True)
            # The limit may exist: not refuted.
            yield Query(f"phi_{r + 1} has no limit", piece.closed, None, [below, above])
    for one, other in pairs_of(pieces):
        # The boundary that they share, so that none of it is left to an interior.
        region, phi = apart(one, other)
        shared = [*one.closed, *region]
        for r in one.numbers:
            defined = [Atom(each.denom, UNEQUAL) for each in (one.phi[r], phi[r])]
            jump = atom(one.phi[r] - phi[r], UNEQUAL)
            says = f"phi_{r + 1} jumps between two cases"
            yield Query(says, shared, None, [*defined, jump], [one, other], jump=True)


def _total_of_rank_one(piece: Piece, jacobian: Matrix, region: _Region) -> Iterator[Query]:
    """C4 for a Jacobian u v', without an inverse: `z' J = 1'` has a solution, at most 0."""
    for r, k in combinations(piece.numbers, 2):
        for i, j in combinations(piece.numbers, 2):
            if jacobian[r][i] * jacobian[k][j] != jacobian[r][j] * jacobian[k][i]:
                raise Undecidable("the Jacobian has no inverse and a rank above 1")
    for r in piece.numbers:
        for k in piece.numbers[1:]:
            says = "the Jacobian has no inverse and prices do not determine the total rate"
            yield region.query(says, atom(jacobian[r][0] - jacobian[r][k], UNEQUAL))
        says = f"the total rate rises with the price of path {r + 1}"
        yield region.query(says, atom(jacobian[r][0], POSITIVE))


def _ends(pieces: Pieces, at_zero: bool) -> Iterator[tuple[Piece, int, "_Ends"]]:
    for piece in representatives(pieces):
        for r in piece.numbers:
            if piece.phi[r] != 0:
                yield piece, r, _Ends(piece, r, at_zero)


class _Ends:
    """Polynomials of a case as one rate tends to 0 or infinity: their leading forms.

    A square root grows with half the degree of its radicand. The rate, of which a power is left as
    a factor, is then set to 1.
    """

    def __init__(self, piece: Piece, r: int, at_zero: bool) -> None:
        variables = piece.variables
        self.field, self.pick = variables.field, min if at_zero else max
        self.weights = {self._index(variables.rate[r]): 2**MOST_ROOTS}
        self.rate = variables.rate[r].numer
        for root, radicand in zip(variables.roots, piece.case.roots, strict=False):
            weight = self.of(radicand.numer)[0] - self.of(radicand.denom)[0]
            self.weights[self._index(root)] = weight // 2
        # At some rate; a root would have another value there.
        self.positive = [] if piece.case.roots else [atom(piece.phi[r], POSITIVE)]
        self.region = [part for one in piece.region for part in self._at_end(one)]

    def query(self, says: str, violation: Atom) -> Query:
        """The violation at the end of the rate, with the other rates anywhere."""
        more = [violation, *self.positive]
        near = [_related(a, POSITIVE, AT_LEAST) for a in self.region if a.relation != UNEQUAL]
        inner = [_related(a, AT_LEAST, POSITIVE) for a in self.region]
        return Query(says, near, inner, more)

    def _at_end(self, one: Atom) -> Iterator[Atom]:
        """Leading form of an atom; of an equation each form, as it holds all the way to the end."""
        orders = self._orders(one.polynomial)
        rooted = len(self.weights) > 1
        for order in sorted(set(orders.values())):
            if one.relation == ZERO and not rooted:
                yield Atom(self._form(one.polynomial, order), ZERO)
        if one.relation != ZERO or rooted:
            yield Atom(self.of(one.polynomial)[1], one.relation)

    def of(self, polynomial: PolyElement) -> tuple[int, PolyElement]:
        """The order, in parts of the rate's, and the leading form."""
        order = self.pick(self._orders(polynomial).values())
        return order, self._form(polynomial, order)

    def _orders(self, polynomial: PolyElement) -> dict[tuple[int, ...], int]:
        return {
            powers: sum(weight * powers[i] for i, weight in self.weights.items())
            for powers in polynomial
        }

    def _form(self, polynomial: PolyElement, order: int) -> PolyElement:
        orders = self._orders(polynomial)
        kept = {powers: c for powers, c in polynomial.items() if orders[powers] == order}
        return polynomial.ring.from_dict(kept).subs(self.rate, 1)

    def _index(self, generator: FracElement) -> int:
        return int(self.field.gens.index(generator))


def _related(one: Atom, was: str, now: str) -> Atom:
    return Atom(one.polynomial, now) if one.relation == was else one


def _subsets(piece: Piece) -> Iterator[tuple[int, ...]]:
    """Every set of paths that a link may carry."""
    for size in range(1, len(piece.numbers) + 1):
        yield from combinations(piece.numbers, size)


def _names(subset: Sequence[int]) -> str:
    paths = ", ".join(str(r + 1) for r in subset)
    return f"path {paths}" if len(subset) == 1 else f"paths {paths}"


def _reno(piece: Piece, window: FracElement) -> tuple[FracElement, FracElement]:
    """I and D of NewReno on one path with this window, from its rule."""
    one = piece.variables.field.one
    numbers = (window, one, one, one, one)
    path = StatePath(*(Symbol(number, piece.case) for number in numbers))
    increase, decrease = _core.Law("reno").evaluate_in([path])[0]
    return increase.value, decrease.value


def _tcp_excess(piece: Piece, r: int, rate: FracElement) -> FracElement:
    """Above 0 where this rate is more than one TCP has on path r at its loss probability phi_r.

    The loss probability at which NewReno is stationary falls with its window.
    """
    increase, decrease = _reno(piece, rate * piece.variables.rtt[r])
    return piece.phi[r] - increase / decrease
