"""I-TCP's (12), the steps of proposition 1, and theorem 4, by calculation.

Tinnakornsrisuphap, Agrawal, Feng, sections III-A and III-B, appendices A and B.
"""

from dataclasses import replace

import numpy as np

from anabranch.statements.itcp.adjustment import linear, play, random_start
from anabranch.statements.itcp.lemmas import QUICK_STARTS, STARTS, recovery, several
from anabranch.statements.itcp.tail_theorems import Traffic, residual_busy_tail
from anabranch.statements.quotes import quoted
from anabranch.statements.statement import MEASURED, Statement, verdict
from anabranch.theory.array import Array


def eigenvalues_of_12(draws: int = 500, seed: int = 1) -> list[Statement]:
    """The eigenvalues of (12), and when it is stable."""
    dice, off, wrong, apart = np.random.default_rng(seed), 0.0, 0, 0.0
    for _ in range(draws):
        rho = dice.uniform(0.2, 0.95) * dice.dirichlet(np.full(int(dice.integers(2, 7)), 2.0))
        epsilon = float(dice.uniform(0.01, 0.99))
        found = linear(tuple(rho), epsilon)
        printed = 0.5 * (np.array([rho.sum(), *np.zeros(len(rho) - 1)]) + epsilon - 1)
        off = max(off, float(np.abs(found.eigenvalues - printed).max()))
        wrong += found.is_stable != bool(epsilon < 1 - rho.sum())
        apart = max(apart, float(np.abs(found.shares - rho / rho.sum()).max()))
    return [
        Statement(
            "III-A, (12)",
            "the eigenvalues are half of sum rho + epsilon - 1, and epsilon - 1 for the others",
            verdict(off < 1e-6),
            f"at {draws} random loads of 2 to 6 connections and epsilon, to {off:.0e}",
            {"draws": draws, "off": off},
        ),
        Statement(
            "III-A, after (12)",
            "(12) is stable if epsilon < 1 - sum rho",
            verdict(wrong == 0),
            f"at these {draws}, and only then. The point that is stable is kappa = 0, which kappa "
            ">= 1 excludes (e05); the shares tend to rho / sum rho, which exceed the loads, "
            f"whether it is stable or not (to {apart:.0e})",
            {"draws": draws, "wrong": wrong},
        ),
    ]


PARTS = (0.05, 0.1, 0.2, 0.4, 0.8)
"""epsilon as a part of (1 - rho) / N, its bound in proposition 1."""


def larger_epsilon(starts: int = 300, seed: int = 1) -> Statement:
    """Section III-B, steps to phi > rho by epsilon, from the same starts in the same order."""
    dice, steps = np.random.default_rng(seed), []
    for _ in range(starts):
        start = random_start(dice, "within")
        most = (1 - sum(start.loads)) / len(start.loads)
        ends = [play(replace(start, epsilon=part * most), "band", "random") for part in PARTS]
        if all(end.outcome == "reached" and not end.floored for end in ends):
            steps.append([end.steps for end in ends])
    taken = np.array(steps, dtype=float)
    means = taken.mean(axis=0)
    return Statement(
        "III-B, epsilon",
        "a larger epsilon speeds up the convergence of proposition 1",
        verdict(bool((np.diff(means) < 0).all())),
        f"mean steps until all phi > rho from {len(taken)} random starts that keep (iv): "
        + ", ".join(f"{mean:.1f}" for mean in means)
        + f" with epsilon of {', '.join(f'{part:g}' for part in PARTS)} times (1 - rho) / N. From "
        f"{float((taken[:, -1] > taken[:, 0]).mean()):.0%} of the starts the largest takes longer "
        "than the least. In the paper's packets epsilon has no effect, as kappa grows only where "
        "the mean buffer exceeds low_th, 40 000 packets: items tradeoffs and readings",
        {"starts": len(taken), "steps_least": float(means[0]), "steps_most": float(means[-1])},
    )


def surplus_less_deficit(starts: int = 2000, seed: int = 1) -> Statement:
    """Appendix B, the identity in the proof of lemma 6."""
    dice, off = np.random.default_rng(seed), 0.0
    for _ in range(starts):
        case = several(dice)
        surplus = float(np.maximum(case.shares - case.loads, 0.0).sum())
        off = max(off, abs(surplus - case.deficit - 1 + float(case.loads.sum())))
    return Statement(
        "appendix B, ||A|| - ||B||",
        "||A|| - ||B|| = 1 - rho at any update",
        verdict(off < 1e-9),
        f"at {starts} random states of 2 to 6 connections, to {off:.0e}: both sides are the sum of "
        "phi - rho",
        {"starts": starts, "off": off},
    )


def least_step(starts: int = 500, seed: int = 1) -> Statement:
    """Appendix B, the bound of a recovery of lemma 7 in the proof of proposition 1."""
    dice, least, tried = np.random.default_rng(seed), np.inf, 0
    while tried < starts:
        found = recovery(dice)
        if found is None:
            continue
        case, moved = found
        bound = 0.5 * case.epsilon / (len(case.loads) * case.most) ** 3
        least = min(least, (case.deficit - moved.deficit) / bound)
        tried += 1
    return Statement(
        "appendix B, the least step",
        "||B|| falls in a recovery of lemma 7 by at least 0.5 epsilon / (sum M)^3",
        verdict(least >= 1),
        f"in {tried} random recoveries by at least {least:.3g} times that",
        {"starts": tried, "least": float(least)},
    )


LATE = np.geomspace(1, 100, 5)
"""Mean services."""


def residual_busy_periods(one: Traffic, files: int, seed: int) -> Array:
    """P(W^r > x) at `LATE` mean services, of the busy periods of a queue served at rate 1.

    That is E[(W - x)^+] / E[W].
    """
    dice = np.random.default_rng(seed)
    sizes = one.smallest_s * (1 + dice.pareto(one.shape, files))
    free = np.cumsum(sizes - dice.exponential(1 / one.arrivals_per_s, files))
    # The queue is empty before the next file where what came less what was served is at its least.
    last = np.flatnonzero(free < np.minimum.accumulate(np.concatenate([[0.0], free[:-1]])))
    busy = np.add.reduceat(sizes[: last[-1] + 1], np.concatenate([[0], last[:-1] + 1]))
    left = [np.maximum(busy - at * one.mean_s, 0).mean() for at in LATE]
    return np.asarray(np.array(left) / busy.mean())


def theorem_4(seeds: int = 4, files: int = 2_000_000) -> Statement:
    """Appendix A, theorem 4."""
    one = Traffic(0.5, 1.0, 2.5)
    expected = residual_busy_tail(one, LATE * one.mean_s, 1.0)
    ratio = np.median(
        [residual_busy_periods(one, files, seed) / expected for seed in range(1, seeds + 1)], axis=0
    )
    return Statement(
        "appendix A, theorem 4",
        "P[W^r > x] of busy periods tends to c/(c - rho) P[B^r > x (c - rho)]",
        MEASURED,
        f"their ratio at {', '.join(f'{at:.3g}' for at in LATE)} mean services is "
        + ", ".join(f"{value:.2f}" for value in ratio)
        + f": queues of load {one.load:g} with Pareto files of index {one.shape:g}, medians over "
        f"{seeds} runs of {files} files",
        {"ratio_at_10": float(ratio[2]), "ratio_at_100": float(ratio[-1])},
    )


def statements(quick: bool = False) -> list[Statement]:
    """In the paper's order; `quick` from fewer starts."""
    found = [
        *eigenvalues_of_12(),
        larger_epsilon(60 if quick else 300),
        theorem_4(1 if quick else 4),
        surplus_less_deficit(QUICK_STARTS if quick else STARTS),
        least_step(50 if quick else 500),
    ]
    return quoted("itcp", found)
