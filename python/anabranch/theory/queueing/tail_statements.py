"""Theorems 1 to 3 and lemma 1 of the I-TCP paper, judged on measured tails."""

import numpy as np
import pandas as pd

from anabranch import _core
from anabranch.theory.queueing.tail_theorems import Traffic
from anabranch.theory.statement import Statement, verdict

KAPPAS = (6.0, 4.0)
"""Kappas of lemma 1: phi1 = 0.6 > rho1 = 0.52, with both at most M = 10."""

SEEDS = 5


def judge(traffic: tuple[Traffic, Traffic], tails: pd.DataFrame, files: int) -> list[Statement]:
    """The statements that these tails test; `files` as measured."""
    induced = tails[tails["share"] < traffic[0].load]
    found = [_theorem_1(tails[tails["share"].isna()]), lemma_1(traffic, files)]
    if induced["within"].notna().any():
        found += [_theorem_2(induced), _theorem_3(induced)]
    return found


def _theorem_1(together: pd.DataFrame) -> Statement:
    ratio = {}
    for subnet in (1, 2):
        rows = together[together["quantity"] == f"sojourn{subnet}"]
        rows = rows[rows["x_s"].between(0.99, 10.01) & (rows["mean"] > 0)]
        ratio[subnet] = (rows["mean"] / rows["theory"]).to_numpy()
    second, first = ratio[2], ratio[1]
    return Statement(
        "II, theorem 1",
        "in one queue P(S > x) ~ P(B > (1 - rho) x)",
        verdict(bool(len(second) and np.abs(second - 1).max() < 0.1)),
        f"measured over theory from 1 to 10 s: subnet 2 {second.min():.2f} to {second.max():.2f}; "
        f"subnet 1, whose lighter tail converges slowly, falls from {first[0]:.2g} to "
        f"{first[-1]:.2g}",
        {"subnet2_at_10_s": float(second[-1]), "subnet1_at_10_s": float(first[-1])},
    )


def lemma_1(traffic: tuple[Traffic, Traffic], files: int) -> Statement:
    """Lemma 1 by its proof, file by file: the class has at least the rate phi1 and at most the
    whole."""
    phi = KAPPAS[0] / sum(KAPPAS)
    early, late, compared = 0, 0, 0
    for seed in range(1, SEEDS + 1):
        classes = [(i, one.load, one.mean_s, one.shape) for i, one in enumerate(traffic)]
        run = _core.share(list(KAPPAS), classes, files, seed)
        own = run["sojourn_s"][run["class"] == 0]
        alone, least = (_alone(traffic[0], rate, len(own), seed) for rate in (1.0, phi))
        rounding = 1e-6
        early += int(np.sum(own < alone - rounding))
        late += int(np.sum(own > least + rounding))
        compared += len(own)
    return Statement(
        "II, lemma 1",
        "with phi > rho sojourn times cannot have another index than the files",
        verdict(phi > traffic[0].load and early == 0 and late == 0),
        f"kappas ({KAPPAS[0]:g}, {KAPPAS[1]:g}), phi1 = {phi:g}: of {compared} files of subnet "
        f"1 in {SEEDS} runs {early} leave sooner than alone at rate 1 and {late} later than alone "
        "at rate phi1, both of which have the files' index by theorem 1",
        {"files": compared, "sooner": early, "later": late},
    )


def _alone(one: Traffic, rate: float, files: int, seed: int) -> np.ndarray:
    """Sojourn times of the same files without other classes, served at this rate."""
    own = (0, one.load / rate, one.mean_s / rate, one.shape)
    return np.asarray(_core.share([1.0], [own], files, seed)["sojourn_s"])


def _theorem_2(induced: pd.DataFrame) -> Statement:
    rows = _at(induced[induced["quantity"] == "workload1"], 1.0)
    ratios = (rows["mean"] / rows["within"]).to_numpy()
    limits = (rows["mean"] / rows["theory"]).to_numpy()
    return Statement(
        "II, theorem 2",
        "with phi1 < rho1 the workload V1 has the tail of subnet 2's residual busy periods",
        verdict(bool(np.abs(ratios - 1).max() < 0.35)),
        f"at 1 s {_list(ratios)} of what the theorem gives in so short a run, {_list(limits)} of "
        f"its limit, for {_cases(rows)}; the intervals are about a third of the mean",
        {"smallest_ratio": float(ratios.min()), "largest_ratio": float(ratios.max())},
    )


def _theorem_3(induced: pd.DataFrame) -> Statement:
    rows = induced[(induced["quantity"] == "sojourn1") & induced["x_s"].between(0.99, 101.0)]
    below = int((rows["mean"] < rows["theory"]).sum())
    weakest = _at(rows, 10.0)
    return Statement(
        "II, theorem 3",
        "P(S1 > x) is at least of index nu2 - 1",
        verdict(below == 0),
        f"the bound exceeds the measured tail at {below} of {len(rows)} points from 1 to 100 s; it "
        f"is weak: at 10 s {_list(weakest['theory'].to_numpy())}, measured "
        f"{_list(weakest['mean'].to_numpy())}, for {_cases(weakest)}",
        {"points": len(rows), "below": below},
    )


def _at(rows: pd.DataFrame, x_s: float) -> pd.DataFrame:
    return rows[np.isclose(rows["x_s"], x_s)]


def _list(values: np.ndarray) -> str:
    return ", ".join(f"{value:.2g}" for value in values)


def _cases(rows: pd.DataFrame) -> str:
    return ", ".join(rows["case"])
