"""Theorems 1 to 3 and 5 and lemma 1 of the I-TCP paper, beside simulated queues."""

from heapq import heappop, heappush

import numpy as np
import pandas as pd

from anabranch import _core
from anabranch.statements.itcp.tail_theorems import Traffic, growth_per_s
from anabranch.statements.quotes import quoted
from anabranch.statements.statement import MEASURED, Statement, verdict

KAPPAS = (6.0, 4.0)
"""Kappas of lemma 1: phi1 = 0.6 > rho1 = 0.52, with both at most M = 10."""

SEEDS = 5


def judge(traffic: tuple[Traffic, Traffic], tails: pd.DataFrame, files: int) -> list[Statement]:
    """The statements that these tails test; `files` as measured."""
    induced = tails[tails["share"] < traffic[0].load]
    found = [_theorem_1(tails[tails["share"].isna()]), lemma_1(traffic, files)]
    if induced["within"].notna().any():
        found += [_theorem_2(induced), _theorem_3(induced)]
    return quoted("itcp", [*found, theorem_5(traffic[0])])


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
        MEASURED,
        f"a limit for x to infinity; measured over theory from 1 to 10 s: subnet 2 "
        f"{second.min():.2f} to {second.max():.2f}; subnet 1, whose lighter tail converges slowly, "
        f"falls from {first[0]:.2g} to {first[-1]:.2g}",
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
    wide = (rows["mean_ci95"] / rows["mean"]).to_numpy()
    return Statement(
        "II, theorem 2",
        "with phi1 < rho1 the workload V1 has the tail of subnet 2's residual busy periods",
        MEASURED,
        f"a limit for x to infinity; at 1 s {_list(limits)} of it are measured for "
        f"{_cases(rows)}, with intervals of {_list(wide)} of the mean. A run that begins empty "
        f"cannot reach it: of the theorem restricted to a run of this length (ours) it is "
        f"{_list(ratios)}",
        {"smallest_of_limit": float(limits.min()), "largest_of_limit": float(limits.max()),
         "smallest_in_run": float(ratios.min()), "largest_in_run": float(ratios.max())},
    )  # fmt: skip


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


CUSTOMERS = 20_000


def theorem_5(one: Traffic, load: float = 1.3) -> Statement:
    """The theorem that is cited for theorem 3: the growth of a queue with more load than rate."""
    rate = one.load / load
    alpha = growth_per_s(one, rate)
    grown = [_customers_per_s(one, rate, seed) for seed in range(1, SEEDS + 1)]
    return Statement(
        "appendix A, theorem 5",
        "with rho > 1 a processor-sharing queue grows by alpha customers per second",
        MEASURED,
        f"cited; a limit for t to infinity. With subnet 1's files and a load of {load:g} alpha is "
        f"{alpha:.4g}/s; L_t / t after {CUSTOMERS} arrivals is {min(grown):.3g} to "
        f"{max(grown):.3g}/s in {SEEDS} runs",
        {"alpha": alpha, "least": min(grown), "most": max(grown)},
    )


def _customers_per_s(one: Traffic, rate: float, seed: int) -> float:
    """L_t / t at the last arrival, with the full server shared by all who are present.

    Each has been served the same since it came, so that they leave in the order of what the server
    had given to everyone when they came plus what they need.
    """
    dice = np.random.default_rng(seed)
    gaps = dice.exponential(1 / one.arrivals_per_s, CUSTOMERS)
    needs = one.smallest_s * (1 - dice.random(CUSTOMERS)) ** (-1 / one.shape) / rate
    present, attained = list[float](), 0.0
    for gap, need in zip(gaps.tolist(), needs.tolist(), strict=True):
        while present and (present[0] - attained) * len(present) <= gap:
            gap -= (present[0] - attained) * len(present)
            attained = heappop(present)
        attained += gap / len(present) if present else 0.0
        heappush(present, attained + need)
    return len(present) / float(gaps.sum())


def _at(rows: pd.DataFrame, x_s: float) -> pd.DataFrame:
    return rows[np.isclose(rows["x_s"], x_s)]


def _list(values: np.ndarray) -> str:
    return ", ".join(f"{value:.2g}" for value in values)


def _cases(rows: pd.DataFrame) -> str:
    return ", ".join(rows["case"])
