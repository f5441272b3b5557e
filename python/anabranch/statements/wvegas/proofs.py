"""wVegas' proposition 1 with up to three paths, and corollary 1 with (7) added, for U = log."""

from itertools import product

from anabranch.statements.claim import (
    Claim,
    Exists,
    Formulas,
    Implication,
    above,
    at_least,
    equal,
    reals,
)


def claims() -> list[Claim]:
    """In the paper's order."""
    return [_proposition_1(), _corollary_1()]


def _proposition_1() -> Claim:
    """From the Karush-Kuhn-Tucker conditions (25) to (27); u is U' at the optimum."""
    u, q1, q3 = reals("slope q1 q3")
    prices = [q1, q1, q3]
    parts: list[Formulas] = []
    for used in product((True, False), repeat=3):
        if not any(used):
            continue  # U'(0) is infinite
        kkt = [above(q3, q1)]
        kkt += [
            equal(u, q) if sends else at_least(q, u) for q, sends in zip(prices, used, strict=True)
        ]
        names = ", ".join(str(i + 1) for i, sends in enumerate(used) if sends)
        if used[2]:
            says = f"paths {names} in use, the third dearer: impossible, hence (8)"
            parts.append(Implication(says, kkt, [above(q1, q3)]))
        else:
            parts.append(Implication(f"paths {names} in use: (7)", kkt, [equal(u, q1)]))
    says = 'q_1 = 0, which "given lambda >= 0" allows: (7) has no solution with U\' > 0'
    parts.append(Implication(says, [equal(u, 0)], [above(-u)]))
    return Claim(
        "II-A, proposition 1",
        parts,
        "three paths, of which two are the cheapest; the conditions (25) to (27) themselves",
    )


def _corollary_1() -> Claim:
    y1, y2, z1, z2, c1, c2, a, b, q = reals("y1 y2 z1 z2 c1 c2 a b q")
    full = [equal(y1 + y2, c1 + c2), at_least(c1 + c2, z1 + z2)]
    marginal = [equal(y1 * q, 1), equal(y2 * q, 1)]
    weighted = [equal(y1 * q, a), equal(y2 * q, b)]
    return Claim(
        "II-A, corollary 1",
        [
            Exists(
                "NOT by equal prices alone: two flows share a full link of c1 + c2 at one price, "
                "and other rates (z1, z2) have a larger sum of log y",
                [*full, equal(y1 * q, 1), above(y1, y2), above(z1 * z2, y1 * y2)],
            ),
            Implication(
                "with (7), U = log y: no rates within the capacity have a larger sum of log y",
                [*full, *marginal],
                [at_least(y1 * y2, z1 * z2)],
            ),
            Implication(
                "with (7), U = alpha log y: they are in proportion to alpha",
                [*full, *weighted],
                [equal(y1 * b, y2 * a)],
            ),
        ],
        "two flows, each with a path over either of two full links",
    )
