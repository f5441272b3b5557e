"""A violation of a requirement as formulas: one to rule it out, one to find a state of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.theory.guarantees.proofs.cases import Piece
from anabranch.theory.guarantees.proofs.symbol import Atom


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
