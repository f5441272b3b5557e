"""Oscillation of a user's window, summed over its paths, from the samples of a run.

Samples more than a round trip apart miss losses, so scenarios for these quantities set `sample_ms`
below the RTT.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from anabranch.quantities.table import quantity, rows, run_keys
from anabranch.result import Result, between, jain_index


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


@quantity
def window_quantile(
    result: Result, flow: str, share: float, from_s: float | None = None, to_s: float | None = None
) -> float:
    """The quantile `share` of a flow's windows, over samples and paths, packets: 1 is the largest.

    Without `from_s` and `to_s` the samples of the measurement window.
    """
    begin = result.scenario.warmup_s if from_s is None else from_s
    samples = between(rows(result.path_samples, flow=flow), begin, to_s)
    return float(samples["window_packets"].quantile(share))


@quantity
def window_period_s(
    result: Result, flow: str, least: float = 0.1, from_s: float | None = None
) -> float:
    """The mean time from one reduction of a user's window to the next, s; of users of one run.

    A reduction is a fall from one sample to the next by at least the fraction `least`. From
    `from_s`, or the end of the warm-up, on; NaN for fewer than two.
    """
    begin = result.scenario.warmup_s if from_s is None else from_s
    windows = _windows(result, flow, begin, None)
    falls = windows.pct_change(axis="columns", fill_method=None) <= -least
    times = [windows.columns[of_user].to_numpy(dtype=float) for of_user in falls.to_numpy()]
    gaps = np.concatenate([np.diff(one) for one in times])
    return float(gaps.mean()) if len(gaps) else float("nan")


def _windows(result: Result, flow: str, from_s: float | None, to_s: float | None) -> pd.DataFrame:
    """A row per run and user, a column per time; NaN where a path's sample was discarded."""
    samples = between(rows(result.path_samples, flow=flow), from_s, to_s)
    users = [*run_keys(samples), "user"]
    windows = samples.groupby([*users, "time_s"])["window_packets"]
    complete = windows.count() == windows.size()
    return windows.sum().where(complete).unstack("time_s")


# The sending rate estimated as window over RTT, in contrast to goodput.
#
# The wVegas paper (section V-A) divides by the mean RTT of a round; the samples have the smoothed
# RTT, over about eight ACKs. A path that is closed or has no RTT sample yet counts as 0.


@quantity
def window_rate_mbps(
    result: Result,
    packet_bytes: float,
    flow: str | None = None,
    path: int | None = None,
    from_s: float | None = None,
    to_s: float | None = None,
) -> float:
    """Window over RTT, the mean over the users of a flow or of all flows, Mbps.

    Of one path, or the sum over all paths of a user.
    """
    return float(_rates(result, flow, packet_bytes, path, from_s, to_s).to_numpy().mean())


@quantity
def expected_rate_mbps(
    result: Result,
    flow: str,
    packet_bytes: float,
    base_rtt_ms: float,
    from_s: float | None = None,
    to_s: float | None = None,
) -> float:
    """A path's window over a base RTT, the mean over samples, paths and users of a flow, Mbps.

    It is Vegas' expected rate, and equation (8) of the I-TCP paper. Without `from_s` and `to_s` the
    samples of the measurement window.
    """
    begin = result.scenario.warmup_s if from_s is None else from_s
    samples = between(rows(result.path_samples, flow=flow), begin, to_s)
    return float(samples["window_packets"].mean() * packet_bytes * 8e-3 / base_rtt_ms)


@quantity
def window_rate_variation(
    result: Result,
    flow: str,
    packet_bytes: float,
    path: int | None = None,
    from_s: float | None = None,
    to_s: float | None = None,
) -> float:
    """Coefficient of variation of window over RTT in time, the mean over users."""
    rates = _rates(result, flow, packet_bytes, path, from_s, to_s)
    return float((rates.std(axis="columns", ddof=0) / rates.mean(axis="columns")).mean())


@quantity
def window_rate_jain_index(
    result: Result,
    flows: Sequence[str],
    packet_bytes: float,
    from_s: float | None = None,
    to_s: float | None = None,
) -> float:
    """Jain's index of window over RTT over the users of these flows, summed over a user's paths."""
    of_flows = [_rates(result, flow, packet_bytes, None, from_s, to_s) for flow in flows]
    users = pd.concat([rates.mean(axis="columns") for rates in of_flows])
    runs = list(range(users.index.nlevels - 2))
    return float(users.groupby(level=runs).agg(jain_index).mean()) if runs else jain_index(users)


@quantity
def window_rate_span_mbps(
    result: Result,
    flow: str,
    packet_bytes: float,
    path: int,
    bin_s: float,
    from_s: float | None = None,
    to_s: float | None = None,
) -> float:
    """Largest minus smallest window over RTT in bins of `bin_s`, the mean over users, Mbps."""
    rates = _binned(_rates(result, flow, packet_bytes, path, from_s, to_s), bin_s, from_s)
    return float((rates.max(axis="columns") - rates.min(axis="columns")).mean())


@quantity
def window_rate_correlation(
    result: Result,
    flow: str,
    packet_bytes: float,
    bin_s: float,
    from_s: float | None = None,
    to_s: float | None = None,
) -> float:
    """Pearson's correlation of window over RTT of paths 0 and 1 in bins of `bin_s`.

    The mean over users.
    """
    first, second = (
        _binned(_rates(result, flow, packet_bytes, path, from_s, to_s), bin_s, from_s)
        for path in (0, 1)
    )
    return float(first.corrwith(second, axis="columns").mean())


@quantity
def shift_s(
    result: Result,
    flow: str,
    packet_bytes: float,
    path: int,
    from_s: float,
    to_s: float,
    target_mbps: float,
    within_mbps: float,
    bin_s: float,
) -> float:
    """Time from `from_s` until a path's rate is first within `within_mbps` of `target_mbps`, s.

    The rate is averaged over bins of `bin_s`, timed by their end. A rate that never comes near
    counts with `to_s - from_s`. The mean over users.
    """
    rates = _binned(_rates(result, flow, packet_bytes, path, from_s, to_s), bin_s, from_s)
    near = (rates - target_mbps).abs() <= within_mbps
    ends = np.where(near, near.columns * bin_s, to_s - from_s)
    return float(ends.min(axis=1).mean())


def _rates(
    result: Result,
    flow: str | None,
    packet_bytes: float,
    path: int | None,
    from_s: float | None,
    to_s: float | None,
) -> pd.DataFrame:
    """A row per run and user, a column per time."""
    samples = between(rows(result.path_samples, flow=flow, path=path), from_s, to_s)
    rate = samples["window_packets"] * packet_bytes * 8e-3 / samples["rtt_ms"]
    users = [*run_keys(samples), "flow", "user"]
    keys = [samples[key] for key in (*users, "time_s")]
    return rate.fillna(0.0).groupby(keys).sum().unstack("time_s")


def _binned(rates: pd.DataFrame, bin_s: float, from_s: float | None) -> pd.DataFrame:
    """Averages over bins from `from_s` on; an end on a bin's right edge counts to that bin."""
    number = np.ceil((rates.columns.to_numpy() - (from_s or 0.0)) / bin_s - 1e-9)
    return rates.T.groupby(number).mean().T
