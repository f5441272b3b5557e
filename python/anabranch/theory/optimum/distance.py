"""The distance of a run from the optimum: in total, fairness, utility and prices."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from anabranch import _core
from anabranch.result import Result, between, jain_index, mean_with_interval
from anabranch.runner.asked import OWN
from anabranch.scenario import ScenarioError
from anabranch.theory.optimum.optimum import Optimum

USED = 0.05
"""A path is used when it carries more than this part of its user's goodput."""

MEASURES = ["efficiency", "jain_index", "optimal_jain_index", "utility_gap", "price_spread"]


@dataclass(frozen=True)
class Distance:
    """A row per case, mean and 95 % interval over seeds; intervals of a scenario count by length.

    `efficiency`: goodput of all users together over that at the optimum. `jain_index` of their
    goodputs and `optimal_jain_index`. `utility_gap`: the utility that is missing, over what users
    would pay at the optimum; for `log` the mean of `log(optimal / measured)` over users.
    `price_spread`: 1 - lowest / highest price of the paths that a user uses, the mean over users
    of several; 0 is the Congestion Equality Principle (wVegas' paper, corollary 1). The price
    of a path is its loss probability, for a delay-based rule its queueing delay.
    """

    frame: pd.DataFrame
    cases: Sequence[str]

    def as_dict(self) -> list[dict[str, Any]]:
        """Plain data for JSON; None for values that were not measured or are infinite."""
        finite = self.frame.notna() & ~self.frame.isin([np.inf, -np.inf])
        plain = self.frame.astype(object).where(finite, None)
        return [dict(row) for row in plain.to_dict(orient="records")]


def distance(result: Result, optima: Sequence[Optimum]) -> Distance:
    """Compare a run with the optima of its scenario, over the measurement window."""
    rows = []
    for values, flows in result.flow_samples.groupby(list(result.keys), sort=False):
        keys = dict(zip(result.keys, values, strict=True))
        chosen = np.logical_and.reduce([result.path_samples[k] == v for k, v in keys.items()])
        paths = result.path_samples[chosen]
        by_delay = _delay_based(result, str(keys["algorithm"]))
        pieces = list(_pieces(result, optima, flows, paths, by_delay))
        lengths = np.array([length for length, _ in pieces])
        table = pd.DataFrame([measures for _, measures in pieces])
        rows.append({**keys, **{name: _mean(table[name], lengths) for name in MEASURES}})
    frame = mean_with_interval(pd.DataFrame(rows), result.cases, MEASURES)
    return Distance(frame, result.cases)


def _pieces(
    result: Result,
    optima: Sequence[Optimum],
    flows: pd.DataFrame,
    paths: pd.DataFrame,
    by_delay: set[str],
) -> Iterator[tuple[float, dict[str, float]]]:
    """The length of each interval within the measurement window, s, and its measures."""
    sample_s = float(paths["time_s"].drop_duplicates().sort_values().diff().median())
    for best in optima:
        start = max(best.interval.from_s, result.scenario.warmup_s)
        stop = best.interval.to_s
        if start < stop and best.sending.any():
            of_flows, of_paths = between(flows, start, stop), between(paths, start, stop)
            spread = price_spread(of_paths, sample_s, best, by_delay)
            yield stop - start, {**_shares(of_flows, best), "price_spread": spread}


def _shares(samples: pd.DataFrame, best: Optimum) -> dict[str, float]:
    """The measures of an interval that depend on the users' goodputs alone."""
    there = best.sending
    mean = samples.groupby(["flow", "user"], sort=False)["goodput_mbps"].mean()
    measured = mean.reindex(_users(best)).to_numpy(dtype=float)[there]
    optimal, weight = best.user_rate[there], best.weight[there]
    worth = float(np.sum(weight * best.utility.value(measured)))
    paid = float(np.sum(weight * best.utility.slope(optimal) * optimal))
    return {
        "efficiency": float(np.sum(measured) / np.sum(optimal)),
        "jain_index": jain_index(measured.tolist()),
        "optimal_jain_index": jain_index(optimal.tolist()),
        "utility_gap": (best.worth - worth) / paid,
    }


def price_spread(
    samples: pd.DataFrame, sample_s: float, best: Optimum, by_delay: set[str]
) -> float:
    """The mean spread of the prices of a user's paths; NaN where no user uses two paths.

    `sample_s`: the length of a sample, s. `by_delay`: the flows whose price is queueing delay.
    """
    network = best.network
    by = ["flow", "user", "path"]
    positive = samples.assign(rtt_ms=samples["rtt_ms"].where(samples["rtt_ms"] > 0))
    paths = positive.groupby(by, sort=False).agg(
        goodput_mbps=("goodput_mbps", "mean"),
        sum_mbps=("goodput_mbps", "sum"),
        lost=("lost_packets", "sum"),
        rtt_ms=("rtt_ms", "mean"),
    )
    delivered = paths["sum_mbps"] * sample_s * 1e6 / network.payload_bits
    loss = paths["lost"] / (delivered + paths["lost"])
    user = network.user_of_path
    index = [(*_users(best)[u], i - network.starts[u]) for i, u in enumerate(user)]
    base_ms = pd.Series(network.base_rtt * 1e3, pd.MultiIndex.from_tuples(index, names=by))
    delay_based = paths.index.get_level_values("flow").isin(list(by_delay))
    paths["price"] = loss.where(~delay_based, paths["rtt_ms"] - base_ms.reindex(paths.index))
    total = paths.groupby(["flow", "user"], sort=False)["goodput_mbps"].transform("sum")
    used = paths[paths["goodput_mbps"] > USED * total]
    prices = used.groupby(["flow", "user"], sort=False)["price"].agg(["min", "max", "count"])
    several = prices[(prices["count"] > 1) & (prices["max"] > 0)]
    return float((1 - several["min"].clip(lower=0) / several["max"]).mean())


def _users(best: Optimum) -> list[tuple[str, int]]:
    """Flow and number of each user of a network."""
    flows = pd.Series(best.network.flows, dtype=object)
    return list(zip(flows, flows.groupby(flows).cumcount(), strict=True))


def _delay_based(result: Result, algorithm: str) -> set[str]:
    """The flows whose rule is delay-based."""
    try:
        chosen = result.scenario
        if algorithm != OWN:
            chosen = chosen.with_algorithm(algorithm)
    except ScenarioError:  # a rule in Python, which has an increase and so is loss-based
        return set()
    flows = chosen.network()["flows"]
    return {flow["name"] for flow in flows if _core.Law(flow["algorithm"]).delay_based}


def _mean(values: pd.Series, lengths: np.ndarray) -> float:
    """Weighted by length, over the intervals that have a value."""
    known = values.notna().to_numpy()
    if not known.any():
        return float("nan")
    return float(np.average(values[known], weights=lengths[known]))
