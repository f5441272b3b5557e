"""Tails of processor sharing: theorems 1 to 5 of the I-TCP paper for Pareto sizes.

Times are seconds at the full rate of the server, loads are shares of it. A tail index is positive
here: P(X > x) falls as x^-index. For misprints see papers/itcp/errata.toml.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from heapq import heappop, heappush

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.integrate import quad
from scipy.optimize import brentq

from anabranch import _core
from anabranch.core_types import Served
from anabranch.formats import records
from anabranch.intervals import median_with_interval
from anabranch.quantities.tails import ccdf, tail_fit
from anabranch.result import mean_with_interval
from anabranch.runner import Progress
from anabranch.runner.asked import Seeds, seeds_of
from anabranch.scenario import ScenarioError
from anabranch.statements.quotes import quoted
from anabranch.statements.statement import MEASURED, Statement, verdict
from anabranch.theory.array import Array


@dataclass(frozen=True)
class Traffic:
    """A Poisson stream of files with Pareto sizes."""

    load: float
    """rho: service that arrives per second."""
    mean_s: float
    """Mean service time."""
    shape: float
    """nu: P(B > x) = (smallest / x)^shape."""

    @property
    def smallest_s(self) -> float:
        """The smallest service time."""
        return self.mean_s * (1 - 1 / self.shape)

    @property
    def arrivals_per_s(self) -> float:
        """lambda."""
        return self.load / self.mean_s


PAPER = (Traffic(0.52, 0.052, 2.5), Traffic(0.24, 0.024, 1.2))
"""Section IV-A: 10 files/s of 65 000 and of 30 000 bytes at 10 Mbps."""


def check(traffic: tuple[Traffic, ...]) -> None:
    """Raise `ScenarioError` for a queue that has no steady state, or sizes without a mean."""
    for number, one in enumerate(traffic, 1):
        if not one.load > 0:
            raise ScenarioError(f"load {one.load:g} of class {number}: expected more than 0")
        if not 1 < one.shape < np.inf:
            raise ScenarioError(
                f"shape {one.shape:g} of class {number}: Pareto sizes have a finite mean only "
                "above 1; expected a number above 1"
            )
    total = sum(one.load for one in traffic)
    if not total < 1:
        raise ScenarioError(
            f"loads that add up to {total:g}: the queue grows without bound; expected less than 1"
        )


def size_tail(traffic: Traffic, x: ArrayLike) -> Array:
    """P(B > x)."""
    ratio = traffic.smallest_s / np.maximum(np.asarray(x, dtype=float), traffic.smallest_s)
    return np.asarray(ratio**traffic.shape)


def residual_tail(traffic: Traffic, x: ArrayLike) -> Array:
    """P(B^r > x): of the residual lifetime, whose density is P(B > x) / E[B]."""
    x = np.asarray(x, dtype=float)
    below = np.minimum(x, traffic.smallest_s)
    ratio = traffic.smallest_s / np.maximum(x, traffic.smallest_s)
    above = ratio ** (traffic.shape - 1) / traffic.shape
    return np.asarray(np.where(x < traffic.smallest_s, 1 - below / traffic.mean_s, above))


def residual_busy_tail(traffic: Traffic, x: ArrayLike, rate: float) -> Array:
    """P(W^r > x) of the residual busy period of a queue served at `rate`: theorem 4, asymptotic."""
    spare = rate - traffic.load
    tail = rate / spare * residual_tail(traffic, np.asarray(x, dtype=float) * spare)
    return np.minimum(1.0, tail)


def theorem1(traffic: Traffic, load: float, x: ArrayLike) -> Array:
    """P(S > x) in an M/G/1 processor-sharing queue of this total load, asymptotic: (1)."""
    return size_tail(traffic, (1 - load) * np.asarray(x, dtype=float))


def is_induced(first: Traffic, second: Traffic, share: float) -> bool:
    """Whether theorems 2 and 3 apply: class 1 has less rate than load, class 2 the heavier tail."""
    return share < first.load and second.shape < first.shape


def theorem2(first: Traffic, second: Traffic, share: float, x: ArrayLike) -> Array:
    """P(V1 > x) of the workload of class 1 with a guaranteed rate `share`, asymptotic: (2)."""
    other = 1 - share
    spare = 1 - first.load - second.load
    factor = (other - second.load) / other * second.load / spare
    busy_s = np.asarray(x, dtype=float) / (first.load - share)
    return np.asarray(factor * residual_busy_tail(second, busy_s, other))


def theorem2_within(
    first: Traffic, second: Traffic, share: float, x: ArrayLike, duration_s: float
) -> Array:
    """Theorem 2 in a run of this length that begins empty; not in the paper.

    V1 > x needs a busy period of class 2 that has lasted for x / (rho1 - phi1). By the time t one
    can have lasted no longer than t, so that the tail beyond is missing; averaged over the run.
    """
    moments = (np.arange(1000) + 0.5) / 1000 * duration_s
    missing = theorem2(first, second, share, moments * (first.load - share))
    seen = theorem2(first, second, share, x)[..., None] - missing
    return np.asarray(np.maximum(0.0, seen).mean(axis=-1))


def growth_per_s(traffic: Traffic, rate: float) -> float:
    """Customers by which a processor-sharing queue grows per second if `rate` < load.

    The root alpha > 0 of alpha = lambda (1 - E exp(-alpha B / rate)): theorem 5, served at `rate`.
    At least 1e-9 lambda, from where it is not distinguishable from 0.
    """

    def excess(alpha: float) -> float:
        s = alpha * traffic.smallest_s / rate

        def served(t: float) -> float:  # B = smallest exp(t / shape) for an exponential t
            return -math.expm1(-s * math.exp(min(t / traffic.shape, 700.0))) * math.exp(-t)

        return float(traffic.arrivals_per_s * quad(served, 0, np.inf)[0] - alpha)

    # Near 0 the excess is alpha (load / rate - 1) > 0, at lambda it is negative.
    least = 1e-9 * traffic.arrivals_per_s
    if excess(least) <= 0:
        return least
    return float(brentq(excess, least, traffic.arrivals_per_s))


def theorem3(first: Traffic, second: Traffic, share: float, x: ArrayLike) -> Array:
    """The lower bound on P(S1 > x), asymptotic: (17) for t0 = 0 and epsilon, zeta to 0.

    A file of class 1 arrives while class 2 is busy, which stays busy for x; meanwhile the
    queue grows by alpha per second and the file gets phi1 / (1 + alpha s) of the server.
    """
    alpha = growth_per_s(first, share)
    x = np.asarray(x, dtype=float)
    needed_s = share / alpha * np.log1p(alpha * x)
    busy = second.load * residual_busy_tail(second, x, rate=1.0)
    return np.asarray(busy * size_tail(first, needed_s))


# Theorems 1 to 3 and 5 and lemma 1 of the I-TCP paper, beside simulated queues.


KAPPAS = (6.0, 4.0)
"""Kappas of lemma 1: phi1 = 0.6 > rho1 = 0.52, with both at most M = 10."""

QUEUES = 5


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
    for seed in range(1, QUEUES + 1):
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
        f"1 in {QUEUES} runs {early} leave sooner than alone at rate 1 and {late} later than alone "
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


def theorem_5(one: Traffic) -> Statement:
    """The theorem that is cited for theorem 3: the growth of a queue with more load than rate."""
    load = 1.3
    rate = one.load / load
    alpha = growth_per_s(one, rate)
    grown = [_customers_per_s(one, rate, seed) for seed in range(1, QUEUES + 1)]
    return Statement(
        "appendix A, theorem 5",
        "with rho > 1 a processor-sharing queue grows by alpha customers per second",
        MEASURED,
        f"cited; a limit for t to infinity. With subnet 1's files and a load of {load:g} alpha is "
        f"{alpha:.4g}/s; L_t / t after {CUSTOMERS} arrivals is {min(grown):.3g} to "
        f"{max(grown):.3g}/s in {QUEUES} runs",
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


# Tails of the processor-sharing queue, simulated by `crates/model/sharing`, and the theorems'.


GRID_S = np.geomspace(1e-2, 1e3, 51)
"""Times at which tails are evaluated, s: ten per decade."""

FIT_S = (1.0, 10.0)
"""Range of the slope fit, s; of the paper's figure 3 only the dip after 100 s is stated."""

SEEDS, QUICK_SEEDS = 20, 8

TOGETHER = "one queue"
"""The case without classes: all files share the server, as separate connections do."""


@dataclass(frozen=True)
class Tails:
    """Tails and slopes over all seeds."""

    traffic: tuple[Traffic, Traffic]
    files: int
    seeds: int
    """The number of seeds."""
    duration_s: float
    """Mean time of a run's last arrival, s."""
    tails: pd.DataFrame
    """case, share, quantity (sojourn1, sojourn2, workload1), x_s, mean and median over seeds of
    P(> x), the interval of each, theory, within (theory in a run of this length)."""
    slopes: pd.DataFrame
    """case, share, subnet, index (median over seeds) with its interval, theory."""
    statements: list[Statement]
    """Theorems 1 to 3 and lemma 1."""

    def as_dict(self) -> dict[str, object]:
        """For JSON; NaN becomes None."""
        frames = {"tails": self.tails, "slopes": self.slopes}
        rows = {name: records(frame) for name, frame in frames.items()}
        subnets = [vars(one) for one in self.traffic]
        head = {"files": self.files, "seeds": self.seeds, "duration_s": self.duration_s}
        statements = [asdict(statement) for statement in self.statements]
        return {"traffic": subnets, **head, **rows, "statements": statements}


def measure(
    traffic: tuple[Traffic, Traffic] = PAPER,
    shares: Sequence[float] = (0.4, 0.5, 0.6, 0.7),
    files: int = 400_000,
    seeds: Seeds = SEEDS,
    progress: Progress | None = None,
) -> Tails:
    """Serve `files` files per seed, in one queue and with each guaranteed rate of class 1.

    Raises `ScenarioError` for a queue without a steady state.
    """
    check(traffic)
    for share in shares:
        if not 0 < share < 1:
            raise ScenarioError(f"share {share:g}: expected a number between 0 and 1")
    chosen = seeds_of(seeds)
    cases: list[float | None] = [None, *shares]
    tails, slopes, lengths = [], [], []
    for number, case in enumerate(cases):
        for done, seed in enumerate(chosen, 1):
            run = _serve(traffic, case, files, seed)
            lengths.append(run["arrival_s"][-1])
            for quantity, values in _quantities(run).items():
                ordered = np.sort(values)
                share = np.nan if case is None else case
                keys = {"case": _name(case), "share": share, "quantity": quantity, "seed": seed}
                tails.append(pd.DataFrame({**keys, "x_s": GRID_S, "p": ccdf(ordered, GRID_S)}))
                slopes.append({**keys, "index": _index(values)})
            if progress:
                progress((number + done / len(chosen)) / len(cases))
    duration_s = float(np.mean(lengths))
    measured = _with_theory(pd.concat(tails), traffic, duration_s)
    return Tails(
        traffic,
        files,
        len(chosen),
        duration_s,
        measured,
        _slopes(pd.DataFrame(slopes), traffic),
        judge(traffic, measured, files),
    )


def _name(share: float | None) -> str:
    return TOGETHER if share is None else f"phi1 = {share:g}"


def _serve(traffic: tuple[Traffic, Traffic], share: float | None, files: int, seed: int) -> Served:
    weights = [1.0] if share is None else [share, 1 - share]
    queue = (0, 0) if share is None else (0, 1)
    classes = [(q, one.load, one.mean_s, one.shape) for q, one in zip(queue, traffic, strict=True)]
    run = _core.share(weights, classes, files, seed)
    for number in range(2):
        if not np.any(run["class"] == number):
            raise ScenarioError(
                f"{files} files: none is of class {number + 1}; "
                "expected more files, or a larger load"
            )
    return run


def _quantities(run: Served) -> dict[str, np.ndarray]:
    """The quantities with a tail; with two queues also the workload of class 1 at each arrival."""
    tails = {f"sojourn{i + 1}": run["sojourn_s"][run["class"] == i] for i in range(2)}
    if run["workload_s"].shape[1] == 2:
        tails["workload1"] = run["workload_s"][:, 0]
    return tails


def _index(values: np.ndarray) -> float:
    try:
        return -tail_fit(values, *FIT_S)[0]
    except LookupError:
        return float("nan")


def _with_theory(
    tails: pd.DataFrame, traffic: tuple[Traffic, Traffic], duration_s: float
) -> pd.DataFrame:
    by = ["case", "quantity", "x_s"]
    means = mean_with_interval(tails, by, ["p"]).rename(
        columns={"p": "mean", "p_ci95": "mean_ci95"}
    )
    medians = median_with_interval(tails, by, ["p"]).rename(
        columns={"p": "median", "p_ci95": "median_ci95"}
    )
    frame = means.merge(medians, on=by)
    shares = tails.drop_duplicates("case").set_index("case")["share"]
    frame.insert(1, "share", frame["case"].map(shares).astype(float))
    frame["theory"] = frame["within"] = np.nan
    for (case, quantity), rows in frame.groupby(["case", "quantity"], sort=False):
        share = None if case == TOGETHER else float(shares[case])
        for column, values in _theory(traffic, share, str(quantity), duration_s).items():
            frame.loc[rows.index, column] = values
    return frame


def _theory(
    traffic: tuple[Traffic, Traffic], share: float | None, quantity: str, duration_s: float
) -> dict[str, np.ndarray]:
    """The theorem of one tail: 1 for one queue, 2 and 3 for a class with less rate than load."""
    first, second = traffic
    if share is None:
        total = first.load + second.load
        one = first if quantity == "sojourn1" else second
        return {"theory": theorem1(one, total, GRID_S)}
    if not is_induced(first, second, share):
        return {}
    if quantity == "sojourn1":
        return {"theory": theorem3(first, second, share, GRID_S)}
    if quantity == "workload1":
        within = theorem2_within(first, second, share, GRID_S, duration_s)
        return {"theory": theorem2(first, second, share, GRID_S), "within": within}
    return {}


def _slopes(slopes: pd.DataFrame, traffic: tuple[Traffic, Traffic]) -> pd.DataFrame:
    """Slopes of the tails of sojourn times: theorem 1 and lemma 1 give the files' index, theorem 3
    a bound."""
    slopes = slopes[slopes["quantity"] != "workload1"]
    frame = median_with_interval(slopes, ["case", "quantity"], ["index"])
    shares = slopes.drop_duplicates("case").set_index("case")["share"]
    frame.insert(1, "share", frame["case"].map(shares).astype(float))
    first, second = traffic

    def theory(row: "pd.Series[float]") -> str:
        number = 0 if row["quantity"] == "sojourn1" else 1
        share = row["share"] if number == 0 else 1 - row["share"]
        if row["case"] == TOGETHER:
            return f"{traffic[number].shape:g} (theorem 1)"
        if share > traffic[number].load:
            return f"{traffic[number].shape:g} (lemma 1)"
        if number == 0 and is_induced(first, second, share):
            return f"at most {second.shape - 1:.3g} (theorem 3)"
        return "none"

    frame["theory"] = frame.apply(theory, axis=1)
    return frame
