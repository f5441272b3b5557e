"""Balia's theorem 3.1, theorem 3.5, lemma 3.1, theorem 4.1 and C4 of Semicoupled."""

from collections.abc import Callable, Iterator, Sequence

from sympy.polys.fields import FracElement

from anabranch.statements.balia.theorems import rising_marginal
from anabranch.statements.claim import (
    Claim,
    Exists,
    Formulas,
    Implication,
    Never,
    above,
    at_least,
    equal,
    reals,
)
from anabranch.theory.guarantees.proofs.cases import Piece, ProvedRule, pieces
from anabranch.theory.guarantees.proofs.queries import (
    Query,
    definite,
    falling,
    infinite_at_zero,
    total_falls,
)
from anabranch.theory.guarantees.proofs.symbol import (
    AT_LEAST,
    Atom,
    Case,
    Symbol,
    Variables,
)


def claims() -> list[Claim]:
    """In the paper's order."""
    return [_c4_of_semicoupled(), _theorem_3_1(), _theorem_3_5(), _lemma_3_1(), _theorem_4_1()]


def _theorem_3_1() -> Claim:
    variables = Variables(2, equal_rtts=True)
    x, e = variables.rate
    case = Case(variables, [])

    def phi(rate: object) -> object:
        return rising_marginal(Symbol(rate, case)).value  # type: ignore[arg-type, attr-defined]

    moved = phi(3 + e) - phi(3 - e)  # type: ignore[operator]
    return Claim(
        "III-B, theorem 3.1",
        [
            Implication(
                "phi = 1/x - 3.3/x^2 + 3/x^3 is positive at all rates x1", [], [above(phi(x))]
            ),
            Implication(
                "two such users on a link of 6 are stationary at (3, 3), and moving x2 from one to "
                "the other raises their utility all the way to x2 = 1: its slope is above 0",
                [at_least(1, e)],
                [above(moved)],
            ),
        ],
        "that the slope of the sum of both utilities is phi(3 + x2) - phi(3 - x2)",
    )


def _theorem_3_5() -> Claim:
    """Two rates of either sign, as differences; the Jacobian's symmetric part is [-j, m; m, -k]."""
    j, k, a, b, c, d, e, f = reals("j k a b c d e f")
    m, x, y = a - b, c - d, e - f
    form = -j * x * x + 2 * m * x * y - k * y * y
    return Claim(
        "III-E, theorem 3.5",
        [
            Implication(
                "two paths: with C2 the bound is at most 0",
                [above(j * k, m * m)],
                [at_least(-form)],
            ),
            Implication("NOT below it: at x = 0 the quotient is 0", [equal(x), equal(y)],
                        [equal(form)]),
        ],
        "more than two paths; x of real numbers, which the two parts of a complex one are",
    )  # fmt: skip


def _lemma_3_1() -> Claim:
    (q,) = reals("q")
    lost = 2 * q / (1 - (1 - q) ** 2)
    return Claim(
        "III-F, lemma 3.1",
        [
            Implication(
                "NOT to o(q): two sets of one packet with d = 1 lose (1 + q/2) or more, where the "
                "lemma has 1 + o(q)",
                [above(1, q)],
                [at_least(lost, 1 + q / 2)],
            )
        ],
        "that two packets lost with probability q each lose 2 q/(1 - (1 - q)^2) given that one is",
    )


def _c4_of_semicoupled() -> Claim:
    own = pieces(ProvedRule.of("semicoupled"), 2, equal_rtts=False)
    t1, t2 = own[0].variables.rtt
    within = [at_least(2 * t1, t2), at_least(2 * t2, t1)]
    rises = list(total_falls(_unscaled(own)))
    first = rises[0]
    assert first.inner is not None
    return Claim(
        "III-A",
        [
            Never(
                "Semicoupled, RTTs within 2 to 1: the total rate rises with no price",
                [[*query.closed, *within] for query in rises],
            ),
            Exists(
                f"NOT beyond, t1 > 2 t2: {first.says}",
                [*first.inner, above(t1, 2 * t2)],
            ),
        ],
        "two paths; the other rules are in the table of all rules",
    )


def _theorem_4_1() -> Claim:
    parts: list[Formulas] = []
    for norm in (1, 2):
        own = _with_beta(norm, 2, equal_rtts=False)
        parts.append(_never(own, falling, f"n = {norm}, 2 paths, any RTTs, beta > 0: C1"))
        for paths in (2, 3) if norm == 1 else (2,):
            own = _with_beta(norm, paths, equal_rtts=True)
            beta = own[0].variables.parameters[0]
            small = [at_least(1, beta)]
            where = f"n = {norm}, {paths} paths, equal RTTs, 0 < beta <= 1"
            violated = [one for query in definite(own) for one in _at_ends(query, beta)]
            parts.append(Never(f"{where}: C2", violated))
            parts.append(_never(own, infinite_at_zero, f"{where}: C3", small))
    return Claim(
        "IV-B, theorem 4.1",
        parts,
        "n of 3 and more, more than three paths, that rates exist at all prices (C1), beta = 0 "
        "(Coupled)",
    )


def _with_beta(norm: int, paths: int, equal_rtts: bool) -> list[Piece]:
    """(12) with a symbolic beta: the rule's increase is affine in it.

    Raises `AssertionError` if it is not, at three values of beta.
    """
    at = {
        beta: pieces(
            ProvedRule.of(f"generalized:norm={norm}:beta={beta}"), paths, equal_rtts, ["beta"]
        )
        for beta in ("0", "1", "0.5", "3")
    }
    found = []
    for none, one, half, three in zip(*at.values(), strict=True):
        (beta,) = none.variables.parameters
        ends = list(zip(none.increase, one.increase, strict=True))
        for number, piece in (((1, 2), half), ((3, 1), three)):
            share = beta.field(number[0]) / number[1]
            mixed = [(1 - share) * a + share * b for a, b in ends]
            assert mixed == list(piece.increase), "the increase is not affine in beta"
        found.append(Piece(none.case, [(1 - beta) * a + beta * b for a, b in ends], none.decrease))
    return found


def _at_ends(query: Query, beta: FracElement) -> Iterator[list[Atom]]:
    """The violation at beta = 0 and at 1: if a polynomial that is affine in beta is at least 0
    between them, it is so at one of them. Whether phi is positive is left out.
    """
    violation, *_ = query.violation
    if violation.relation != AT_LEAST or violation.polynomial.degree(beta.numer) != 1:
        yield [*query.closed, at_least(1, beta)]
        return
    for end in (0, 1):
        yield [*query.region, Atom(violation.polynomial.subs(beta.numer, end), AT_LEAST)]


def _unscaled(own: Sequence[Piece]) -> list[Piece]:
    """The cases without a choice of units, so that a condition on RTTs may be added."""
    return [Piece(one.case, one.increase, one.decrease, units=False) for one in own]


def _never(
    own: Sequence[Piece],
    condition: Callable[[Sequence[Piece]], Iterator[Query]],
    says: str,
    more: Sequence[Atom] = (),
) -> Never:
    """Claims that no violation of a condition has a solution under more assumptions."""
    return Never(says, [[*query.closed, *more] for query in condition(own)])
