"""The time a path needs to take over the capacity that a leaving flow frees."""

import numpy as np
import pandas as pd

from anabranch.experiments.quantities.table import quantity, rows, run_keys
from anabranch.result import Result, between


@quantity
def convergence_s(
    result: Result,
    flow: str,
    path: int,
    after_s: float,
    average_from_s: float,
    bin_s: float = 0.5,
    within: float = 0.9,
) -> float:
    """Time from `after_s` until a path's rate reaches `within` of its final average, s.

    Balia's footnote 2: "the first time that the throughput is within 90 % of its average after the
    single-path user has left". The rate is averaged over bins of `bin_s`, timed by their end; the
    final average is over the samples from `average_from_s` to the end of the run. The mean over
    users.
    """
    samples = between(rows(result.path_samples, flow=flow, path=path), after_s, None)
    users = samples.groupby([*run_keys(samples), "user"])
    times = [_reached(user, after_s, average_from_s, bin_s, within) for _, user in users]
    return float(np.mean(times))


def _reached(
    samples: pd.DataFrame, after_s: float, average_from_s: float, bin_s: float, within: float
) -> float:
    """The end of the first bin that reaches the goal; a bin within the average always does."""
    goal = within * between(samples, average_from_s, None)["goodput_mbps"].mean()
    # A sample belongs to the bin in which it ends; an end on a bin's right edge counts to that bin.
    number = np.ceil((samples["time_s"] - after_s) / bin_s - 1e-9)
    bins = samples.groupby(number)["goodput_mbps"].mean()
    return float(bins.index[bins >= goal].min() * bin_s)
