"""RSF's equilibria of (6), without a capacity and with the multipliers of (8) under (7)."""

from collections.abc import Sequence

from sympy.polys.fields import FracElement

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
from anabranch.theory.guarantees.proofs.symbol import determinant


def marginal(rates: Sequence[FracElement], i: int, price: FracElement) -> FracElement:
    """dU_i/dlambda_i of (6)."""
    total = sum(rates, price.field.zero)
    return (rates[i] / total - price * rates[i]).diff(rates[i])


def claims() -> list[Claim]:
    """The equilibrium, its multipliers and Rosen's condition."""
    return [_multipliers(), _concave(), _unique()]


def _multipliers() -> Claim:
    parts: list[Formulas] = []
    for players in (2, 3):
        *rates, p = reals(" ".join(f"lambda{i + 1}" for i in range(players)) + " p")
        stationary = [equal(marginal(rates, i, p)) for i in range(players)]
        # Each player's own rate: (K - 1) / (K^2 p).
        own = equal(rates[0] * p * players**2, players - 1)
        says = f"{players} players, no capacity: each has (K - 1)/(K^2 p), the only equilibrium"
        parts.append(Implication(says, stationary, [own]))
    x, y, p, b = reals("lambda1 lambda2 p B")
    binding = [equal(x + y, b), above(marginal([x, y], 0, p)), above(marginal([x, y], 1, p))]
    parts += [
        Exists(
            "(7) binds and both multipliers L_i = dU_i/dlambda_i are above 0, at unequal rates",
            [*binding, above(x, y)],
        ),
        Implication(
            "there the multipliers are unequal",
            [*binding, above(x, y)],
            [above(marginal([x, y], 1, p), marginal([x, y], 0, p))],
        ),
        Implication(
            "with the sign of (8) as printed, Q = U - L (B - sum), where dQ/dlambda = 0 and L > 0, "
            "dU/dlambda is below 0: the player would rather send less",
            [equal(marginal([x, y], 0, p) + b)],
            [above(-marginal([x, y], 0, p))],
        ),
    ]
    return Claim(
        "3, before (8)",
        parts,
        "that a rate at which the marginal utility is 0 is the best: U_i is concave in lambda_i. "
        "In the last formula B stands for L",
    )


def _concave() -> Claim:
    parts: list[Formulas] = []
    for players in (2, 3):
        *rates, p = reals(" ".join(f"lambda{i + 1}" for i in range(players)) + " p")
        slopes = [[marginal(rates, i, p).diff(x) for x in rates] for i in range(players)]
        twice = [[slopes[i][k] + slopes[k][i] for k in range(players)] for i in range(players)]
        for size in range(1, players + 1):
            minor = determinant([row[:size] for row in twice[:size]])
            sign = minor if size % 2 == 0 else -minor
            says = f"{players} players, z = 1: the minor of order {size} of G + G' has its sign"
            parts.append(Implication(says, [], [above(sign)]))
    return Claim("abstract, diagonal strict concavity", parts, "z = 1 and rates above 0")


def _unique() -> Claim:
    *rates, p, level, b = reals("lambda1 lambda2 lambda3 p L B")
    total = sum(rates, p.field.zero)
    same = [equal(marginal(rates, i, p), level) for i in range(3)]
    return Claim(
        "abstract, uniqueness",
        [
            Implication(
                "three players under (7) with one multiplier for all: equal rates B/3",
                [equal(total, b), *same],
                [equal(3 * rates[0], b)],
            ),
            Implication(
                "and the multiplier is at least 0 only if B is at most what they have without (7)",
                [equal(total, b), *same, at_least(level)],
                [at_least(2, 3 * p * b)],
            ),
        ],
        "three players",
    )
