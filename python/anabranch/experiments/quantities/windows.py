"""Oscillation of a user's window, summed over its paths, from the samples of a run.

Samples more than a round trip apart miss losses, so scenarios for these quantities set `sample_ms`
below the RTT.
"""

import pandas as pd

from anabranch.experiments.quantities.table import quantity, rows, run_keys
from anabranch.result import Result, between


@quantity
def window_variation(
    result: Result, flow: str, from_s: float | None = None, to_s: float | None = None
) -> float:
    """Coefficient of variation of a user's window, summed over paths; the mean over users.

    The standard deviation is that of the population (no Bessel correction).
    """
    windows = _windows(result, flow, from_s, to_s)
    return float((windows.std(axis="columns", ddof=0) / windows.mean(axis="columns")).mean())


@quantity
def window_drop_per_loss(
    result: Result, flow: str, from_s: float | None = None, to_s: float | None = None
) -> float:
    """The mean fraction by which a loss event reduces a user's window, summed over paths.

    Every decrease from one sample to the next counts as a loss event, because loss-based rules
    decrease the window only then. Losses within the same sample count as one event.
    """
    windows = _windows(result, flow, from_s, to_s)
    change = windows.pct_change(axis="columns", fill_method=None)
    return float(-change.where(change < 0).stack().mean())


def _windows(result: Result, flow: str, from_s: float | None, to_s: float | None) -> pd.DataFrame:
    """A row per run and user, a column per time; NaN where a path's sample was discarded."""
    samples = between(rows(result.path_samples, flow=flow), from_s, to_s)
    users = [*run_keys(samples), "user"]
    windows = samples.groupby([*users, "time_s"])["window_packets"]
    complete = windows.count() == windows.size()
    return windows.sum().where(complete).unstack("time_s")
