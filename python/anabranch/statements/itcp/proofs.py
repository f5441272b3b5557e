"""Lemmas 2, 4, 6 and 7 of I-TCP's appendix B, with two and three connections."""

from collections.abc import Sequence
from itertools import product

from sympy.polys.fields import FracElement

from anabranch.statements.claim import Claim, Exists, Formulas, Implication, above, at_least, reals
from anabranch.theory.guarantees.proofs.symbol import Atom

Numbers = Sequence[FracElement]


def share(kappas: Numbers, i: int) -> FracElement:
    """phi_i."""
    return kappas[i] / sum(kappas, kappas[0].field.zero)


def increased(
    kappas: Numbers, i: int, load: FracElement, epsilon: FracElement
) -> list[FracElement]:
    """The kappas after an increase of connection i by (10), below its limit M."""
    phi = share(kappas, i)
    grown = kappas[i] * (1 + ((load - phi) / phi + epsilon) / 2)
    return [grown if k == i else kappa for k, kappa in enumerate(kappas)]


def decreased(kappas: Numbers, i: int, gamma: FracElement) -> list[FracElement]:
    """The kappas after a decrease of connection i."""
    return [kappa * (1 - gamma) if k == i else kappa for k, kappa in enumerate(kappas)]


def short(kappas: Numbers, i: int, load: FracElement) -> Atom:
    """Connection i has less than its load."""
    return above(load, share(kappas, i))


def enough(kappas: Numbers, i: int, load: FracElement) -> Atom:
    """Connection i has more than its load."""
    return above(share(kappas, i), load)


def claims() -> list[Claim]:
    """In the paper's order."""
    return [_lemma_2(), _lemma_4(), _lemma_6(), _lemma_7()]


def _lemma_2() -> Claim:
    k1, k2, r1, r2, e = reals("kappa1 kappa2 rho1 rho2 epsilon")
    before, room = [k1, k2], above(1 - r1 - r2, e)
    after = increased(before, 1, r2, e)
    start = [enough(before, 0, r1), short(before, 1, r2), room]
    return Claim(
        "appendix B, lemma 2",
        [
            Implication("the first keeps enough", start, [enough(after, 0, r1)]),
            Implication("the second stays below", start, [above(r2 + e, share(after, 1))]),
        ],
    )


def _lemma_4() -> Claim:
    k1, m2, r1, r2, e, g = reals("kappa1 M2 rho1 rho2 epsilon gamma")
    room, fraction = above(1 - r1 - r2, e), above(1 - g)
    before = [k1, m2]
    down = decreased(before, 0, g)
    premise = [enough(before, 0, r1), short(before, 1, r2), short(down, 0, r1), room, fraction]
    # Any state in which the first is short and the second has enough, as after the decrease.
    a1, a2 = k1, m2
    here = [short([a1, a2], 0, r1), enough([a1, a2], 1, r2), room]
    up = increased([a1, a2], 0, r1, e)
    back = increased(down, 0, r1, e)
    last = decreased(back, 1, g)
    again = [
        *premise,
        above(1 - r1 - r2, 2 * e),  # the condition of proposition 1
        at_least(share(before, 0), r1 + e),
        enough(back, 0, r1),
        at_least(share(back, 1), r2 + e),
        short(last, 1, r2),
        above(down[0], 1),
        above(last[1], 1),
    ]
    return Claim(
        "appendix B, lemma 4",
        [
            Implication("j = k + 1: the second has enough", premise, [enough(down, 1, r2)]),
            Implication(
                "it keeps enough in each increase of the first that follows",
                here,
                [enough(up, 1, r2)],
            ),
            Implication(
                "each such increase is at least epsilon/2 of kappa_1",
                here,
                [at_least(up[0], a1 * (1 + e / 2))],
            ),
            Exists(
                "NOT for all j > k: the first decreases and is short, increases and has enough, "
                "the second decreases and is short; proposition 1's condition and (ii)-(iv) hold",
                again,
            ),
        ],
        "finitely many increases suffice, as each is at least by the factor 1 + epsilon/2",
    )


def _lemma_6() -> Claim:
    two = reals("kappa1 kappa2 rho1 rho2 epsilon")
    three = reals("kappa1 kappa2 kappa3 rho1 rho2 rho3 epsilon")
    parts: list[Formulas] = []
    for count, names in ((2, two), (3, three)):
        kappas, loads, e = names[:count], names[count : 2 * count], names[-1]
        last = count - 1
        after = increased(kappas, last, loads[last], e)
        for pattern in product((True, False), repeat=2 * (count - 1)):
            was, then = pattern[: count - 1], pattern[count - 1 :]
            if not any(then):
                continue  # A is never empty
            region = [short(kappas, last, loads[last]), above(1 - sum(loads, e.field.zero), e)]
            region += [_member(kappas, i, loads[i], was[i]) for i in range(last)]
            region += [_member(after, i, loads[i], then[i]) for i in range(last)]
            stays = [*region, at_least(loads[last], share(after, last))]
            falls = above(
                _deficit(kappas, loads, [*was, False]), _deficit(after, loads, [*then, False])
            )
            where = ", ".join(
                f"connection {i + 1} in {'AB'[not was[i]]} then {'AB'[not then[i]]}"
                for i in range(last)
            )
            says = f"{count} connections, the last stays in B, {where}: ||B|| falls"
            parts.append(Implication(says, stays, [falls]))
    k, (r1, r2, r3), e = three[:3], three[3:6], three[6]
    after = increased(k, 2, r3, e)
    broken = [
        above(1 - r1 - r2 - r3, 3 * e),  # the condition of proposition 1
        enough(k, 0, r1), enough(k, 1, r2), short(k, 2, r3),
        enough(after, 0, r1), short(after, 1, r2), enough(after, 2, r3),
        at_least(r2 - share(after, 1), r3 - share(k, 2)),
    ]  # fmt: skip
    says = "NOT in general: the third leaves B, the second enters it, and ||B|| does not fall"
    return Claim(
        "appendix B, lemma 6",
        [*parts, Exists(says, broken)],
        "that A is never empty, which follows from sum rho < 1",
    )


def _member(kappas: Numbers, i: int, load: FracElement, has_enough: bool) -> Atom:
    return enough(kappas, i, load) if has_enough else at_least(load, share(kappas, i))


def _deficit(kappas: Numbers, loads: Numbers, in_a: Sequence[bool]) -> FracElement:
    """||B||."""
    missing = [loads[i] - share(kappas, i) for i, has in enumerate(in_a) if not has]
    return sum(missing, kappas[0].field.zero)


def _lemma_7() -> Claim:
    k1, k2, k3, r1, e, end = reals("kappa1 kappa2 kappa3 rho1 epsilon end")
    before, after = [k1, k2, k3], [end, k2, k3]
    up = increased(before, 0, r1, e)
    decided = [above(share(before, 0), r1 + e), above(r1 + e, share(after, 0))]
    return Claim(
        "appendix B, lemma 7",
        [
            Implication(
                "each increase of a connection that is short leaves it below rho + epsilon",
                [short(before, 0, r1), above(1, r1 + e)],
                [above(r1 + e, share(up, 0))],
            ),
            Implication(
                "and is at least epsilon/2 of its kappa",
                [short(before, 0, r1)],
                [at_least(up[0], k1 * (1 + e / 2))],
            ),
            Implication(
                "where it ends below rho + epsilon, from above, the others have more than before, "
                "so that ||B|| is lower and none leaves A",
                decided,
                [above(share(after, 1), share(before, 1))],
            ),
        ],
        "three connections, of which the third stands for all others together",
    )
