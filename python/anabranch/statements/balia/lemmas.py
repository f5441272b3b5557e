"""Balia's lemmas 3.1, B.1, B.2, G.1 and G.2, searched for a counterexample."""

from collections.abc import Sequence

import numpy as np

from anabranch.statements.balia import networks
from anabranch.statements.balia.equilibria import UNIQUE
from anabranch.statements.statement import Statement, verdict
from anabranch.theory.array import Array
from anabranch.theory.guarantees import random_states
from anabranch.theory.guarantees.check import PATHS
from anabranch.theory.guarantees.conditions import numbers
from anabranch.theory.law import Law

MOST_PATHS = 8
"""m of lemma G.2."""


def reduction(decrease: Array, loss: Array, packets: Array) -> tuple[float, float]:
    """Lemma 3.1: the expected reduction given a loss anywhere, exact, and its leading term.

    Of each set: what it loses, the loss probability of a packet, how many packets it has.
    """
    hit = -np.expm1(packets * np.log1p(-loss))
    anywhere = -np.expm1(float(packets @ np.log1p(-loss)))
    exact = float(decrease @ hit) / anywhere
    return exact, float(decrease @ (loss * packets) / (loss @ packets))


def losses_are_rare(trials: int = 2000, seed: int = 1) -> Statement:
    """Lemma 3.1: the size of its remainder."""
    dice, slopes, last = np.random.default_rng(seed), [], 0.0
    for _ in range(trials):
        sets = int(dice.integers(2, 9))
        decrease, packets = dice.uniform(0.1, 10, sets), dice.integers(1, 100, sets).astype(float)
        loss = 10 ** dice.uniform(-1, 0, sets)
        errors = []
        for q in (1e-6 * loss, 1e-7 * loss):
            exact, leading = reduction(decrease, q, packets)
            errors.append(abs(exact - leading) / float(q.sum()))
        slopes.append(errors[1] / errors[0])
        last = max(last, abs(exact - leading) / leading)
    two = np.ones(2)
    exact, leading = reduction(two, 1e-6 * two, two)
    return Statement(
        "III-F, lemma 3.1",
        "the expected reduction at a loss is sum d q |A| / sum q |A| + o(sum q)",
        verdict(float(np.median(slopes)) < 0.5),
        "the remainder is of the order of sum q, not smaller: two sets of one packet, d = 1 and "
        f"loss q each, lose 2/(2 - q) = 1 + q/2 + ..., so that remainder / sum q is "
        f"{(exact - leading) / 2e-6:.4f} for every small q. In {trials} random cases a tenth of q "
        f"leaves that ratio at {np.median(slopes):.3f} times its size (median). The first term is "
        f"the limit, within {last:.1g} of it for q up to 1e-7, so that (11) is right to order 0",
        {"trials": trials, "ratio_of_remainders": float(np.median(slopes))},
    )


def largest_product(law: Law, paths: Sequence[int], pairs: int, seed: int) -> float:
    """The largest `(x - y)'(Phi(x) - Phi(y))` of random users at equal RTTs, over its terms' sum
    of sizes."""
    worst = -np.inf
    for n in paths:
        dice = np.random.default_rng([seed, n])
        first = random_states.draw(n, pairs, 1.0, dice)
        other = random_states.draw(n, pairs, 1.0, dice)
        near = first.rate * np.exp(0.3 * dice.standard_normal(len(first.rate)))
        for rate in (other.rate, near):
            step = first.rate - rate
            terms = step * (law.phi(first) - law.phi(first.with_rate(rate)))
            by_user = random_states.by_user(first, terms)
            worst = max(worst, float((by_user.sum(axis=1) / np.abs(by_user).sum(axis=1)).max()))
    return worst


def falls_along_every_line(pairs: int = 1000, seed: int = 1) -> Statement:
    """Lemma B.1."""
    worst = {name: largest_product(Law(name), PATHS, pairs, seed) for name in UNIQUE}
    broken = largest_product(Law("balia:cap=inf"), PATHS, pairs, seed)
    total = 2 * pairs * len(PATHS) * len(UNIQUE)
    return Statement(
        "appendix B, lemma B.1",
        "where the Jacobian's symmetric part is negative definite (x - y)'(Phi(x) - Phi(y)) < 0",
        verdict(max(worst.values()) < 0),
        f"at {total} pairs of random rates of 2 to 8 paths of {', '.join(UNIQUE)}, kinks between "
        f"them included; the largest product is {max(worst.values()):.2g} of its terms' sizes. "
        f"With balia:cap=inf, which violates C2, it reaches {broken:.2g}",
        {"pairs": total, "largest": max(worst.values())},
    )


def smallest_share(law: Law, nets: int, seed: int) -> float:
    """The smallest rate of a path at an equilibrium of random networks, over an even share of its
    narrowest link."""
    least = np.inf
    for i in range(nets):
        dice = np.random.default_rng([seed, i])
        net = networks.draw(dice)
        if (at := networks.equilibrium(net, law, dice)) is not None:
            least = min(least, float((at.rate / net.share).min()))
    return least


def every_path_is_used(nets: int = 40, seed: int = 1) -> Statement:
    """Lemma B.2."""
    least = {name: smallest_share(Law(name), nets, seed) for name in UNIQUE}
    without = smallest_share(Law("coupled"), nets, seed)
    return Statement(
        "appendix B, lemma B.2",
        "with C3 all rates are above 0 at an equilibrium",
        verdict(min(least.values()) > 1e-4),
        f"the smallest rates in {nets} random networks, over an even share of the narrowest link, "
        f"are {numbers(np.array(list(least.values())))} for {', '.join(least)}; with `coupled`, "
        f"which violates C3, {without:.1g}",
        {"networks": nets * len(UNIQUE), "smallest": min(least.values())},
    )


def weights_of_lemma_g1(x: Array, p: int) -> Array:
    """a of lemma G.1, for each row of x."""
    power = (x / x.max(axis=1, keepdims=True)) ** p
    return np.asarray(2 * x / x.sum(axis=1, keepdims=True)
                      - power / power.sum(axis=1, keepdims=True))  # fmt: skip


def weights_are_short(trials: int = 2000, seed: int = 1) -> Statement:
    """Lemma G.1."""
    dice, off, longest, tried = np.random.default_rng(seed), 0.0, 0.0, 0
    for m in range(1, 13):
        for p in (1, 2, 3, 10, 100):
            x = 10 ** dice.uniform(-4, 0, (trials, m)) * (dice.random((trials, m)) < 0.9)
            x = x[x.sum(axis=1) > 0]
            a = weights_of_lemma_g1(x, p)
            off = max(off, float(np.abs(a.sum(axis=1) - 1).max()))
            longest = max(longest, float((a**2).sum(axis=1).max()))
            tried += len(x)
    return Statement(
        "appendix G, lemma G.1",
        "a_i = 2 x_i / sum x - x_i^p / sum x^p has sum a = 1 and sum a^2 <= 1",
        verdict(off < 1e-9 and longest <= 1 + 1e-9),
        f"at {tried} random x of 1 to 12 entries, p from 1 to 100: |sum a - 1| is at most "
        f"{off:.0e}, sum a^2 at most {longest:.9f}, with one entry alone",
        {"states": tried, "largest": longest},
    )


def least_form(a: Array) -> Array:
    """The least of lemma G.2's f(z) over |z| = 1, of each row: an eigenvalue of I + [1 a']^+."""
    m = a.shape[1]
    half = (a[:, :, None] + a[:, None, :]) / 2
    return np.asarray(np.linalg.eigvalsh(np.eye(m) + half)[:, 0])


def form_is_positive(trials: int = 5000, seed: int = 1) -> Statement:
    """Lemma G.2."""
    dice, least = np.random.default_rng(seed), {}
    for m in range(1, MOST_PATHS + 3):
        b = dice.standard_normal((trials, m))
        b -= b.mean(axis=1, keepdims=True)
        # Lengths: 1 after 1/m is added, the largest allowed, and random ones below it.
        length = np.linalg.norm(b, axis=1, keepdims=True) if m > 1 else np.ones((trials, 1))
        size = np.sqrt(1 - 1 / m) * np.where(dice.random((trials, 1)) < 0.5, 1, dice.random())
        least[m] = float(least_form(1 / m + size * b / length).min())
    words = ", ".join(f"{m}: {value:.4f}" for m, value in least.items())
    return Statement(
        "appendix G, lemma G.2",
        "|z|^2 + sum z sum a z > 0 for all such a, and z other than 0, with up to 8 entries",
        verdict(min(least[m] for m in range(1, MOST_PATHS + 1)) > 0),
        f"least eigenvalue over {trials} random a for each number of entries: {words}. By hand it "
        "is 1 + (1 - sqrt(m))/2, which is 0 for 9 entries",
        {"states": trials * len(least), "least_with_8": least[MOST_PATHS]},
    )
