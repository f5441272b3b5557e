"""Tails of the processor-sharing queue, simulated by `crates/model/sharing`, and the theorems'."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

from anabranch import _core
from anabranch.core_types import Served
from anabranch.experiments.quantities.tail_index import ccdf, tail_fit
from anabranch.formats import records
from anabranch.intervals import median_with_interval
from anabranch.result import mean_with_interval
from anabranch.runner import Progress
from anabranch.runner.asked import Seeds, seeds_of
from anabranch.scenario import ScenarioError
from anabranch.statements.itcp import tail_statements, tail_theorems
from anabranch.statements.itcp.tail_theorems import PAPER, Traffic
from anabranch.statements.statement import Statement

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
    tail_theorems.check(traffic)
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
        tail_statements.judge(traffic, measured, files),
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
        return {"theory": tail_theorems.theorem1(one, total, GRID_S)}
    if not tail_theorems.is_induced(first, second, share):
        return {}
    if quantity == "sojourn1":
        return {"theory": tail_theorems.theorem3(first, second, share, GRID_S)}
    if quantity == "workload1":
        within = tail_theorems.theorem2_within(first, second, share, GRID_S, duration_s)
        return {"theory": tail_theorems.theorem2(first, second, share, GRID_S), "within": within}
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
        if number == 0 and tail_theorems.is_induced(first, second, share):
            return f"at most {second.shape - 1:.3g} (theorem 3)"
        return "none"

    frame["theory"] = frame.apply(theory, axis=1)
    return frame
