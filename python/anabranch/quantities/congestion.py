"""Effects of a flow on a network and on others: queues, losses, delay, starvation, synchrony."""

from typing import Any

import numpy as np
import pandas as pd

from anabranch.quantities.table import quantity, rows, run_keys
from anabranch.result import Result, between


@quantity
def link_queue_ms(result: Result, link: str) -> float:
    """Time in the queue of a link, the mean over the packets that were not dropped, ms."""
    return float(rows(result.links, link=link)["queue_ms"].mean())


@quantity
def link_loss_peak(
    result: Result, link: str, bin_s: float, from_s: float | None = None, packet_bytes: float = 1500
) -> float:
    """The largest share of packets that a link drops within a bin of `bin_s`, the mean over runs.

    From `from_s`, or the end of the warm-up, on. A bin with less than one packet counts as 0.
    """
    begin = _begin(result, from_s)
    samples = rows(result.link_samples, link=link)
    span_s = samples["time_s"].diff().where(lambda gap: gap > 0).min()
    samples = between(samples, begin, None)
    passed = samples["throughput_mbps"] * span_s * 1e6 / 8 / packet_bytes
    counts = samples.assign(arrived=passed + samples["dropped_packets"])
    keys = _keys(samples)
    bins = counts.groupby([*keys, _bin(samples, begin, bin_s)])[["dropped_packets", "arrived"]]
    sums = bins.sum()
    share = (sums["dropped_packets"] / sums["arrived"]).where(sums["arrived"] >= 1, 0.0)
    return float(share.groupby(level=list(range(len(keys)))).max().mean())


@quantity
def user_loss_probability(result: Result, flow: str) -> float:
    """Packets of a flow that links dropped, over packets sent, summed over its users and paths."""
    chosen = rows(result.flows, flow=flow)
    return float(chosen["lost_packets"].sum() / chosen["sent_packets"].sum())


@quantity
def delay_quantile_ms(
    result: Result, flow: str, share: float, from_s: float | None = None, to_s: float | None = None
) -> float:
    """The quantile `share` of the one-way delay of a flow's packets, over samples and paths, ms.

    Without `from_s` and `to_s` the samples of the measurement window.
    """
    samples = between(rows(result.path_samples, flow=flow), _begin(result, from_s), to_s)
    return float(samples["one_way_delay_ms"].quantile(share))


@quantity
def starved_s(
    result: Result,
    flow: str,
    below: float = 0.05,
    bin_s: float = 1.0,
    from_s: float | None = None,
) -> float:
    """The longest time for which a user gets less than `below` of the mean over all users, s.

    Goodput is averaged over bins of `bin_s`, from `from_s`, or the end of the warm-up, on. The
    worst user of the flow counts; the mean over runs.
    """
    begin = _begin(result, from_s)
    rows(result.flows, flow=flow)  # an unknown flow is an error
    samples = between(result.flow_samples, begin, None)
    keys = _keys(samples)
    users = [*keys, samples["flow"], samples["user"]]
    bins = samples["goodput_mbps"].groupby([*users, _bin(samples, begin, bin_s)]).mean()
    goodput = bins.unstack("bin").fillna(0.0)
    runs = list(range(len(keys)))
    fair = goodput.mean(axis="columns").groupby(level=runs).transform("mean")
    starved = goodput.lt(below * fair, axis="index").xs(flow, level="flow")
    longest = starved.apply(lambda row: _longest_run(row.to_numpy()), axis="columns") * bin_s
    return float(longest.groupby(level=runs).max().mean())


def _longest_run(flags: "np.ndarray[Any, Any]") -> int:
    """The most successive true values.

    >>> _longest_run(np.array([True, False, True, True]))
    2
    """
    ends = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(int), [0]])))
    return int((ends[1::2] - ends[::2]).max(initial=0))


@quantity
def packets_per_rtt(result: Result, flow: str, rtt_ms: float) -> float:
    """Packets sent within `rtt_ms` over one path of a flow, the mean over its paths and users."""
    window_s = result.scenario.duration_s - result.scenario.warmup_s
    return float(rows(result.paths, flow=flow)["sent_packets"].mean() * rtt_ms / 1e3 / window_s)


@quantity
def path_lost_packets(
    result: Result, flow: str, from_s: float | None = None, to_s: float | None = None
) -> float:
    """Packets lost over one path of a flow, the mean over its paths and users."""
    samples = between(rows(result.path_samples, flow=flow), from_s, to_s)
    paths = samples.groupby([*run_keys(samples), "user", "path"])["lost_packets"].sum()
    return float(paths.mean())


@quantity
def window_synchrony(
    result: Result, flow: str, from_s: float | None = None, to_s: float | None = None
) -> float:
    """The variance of the sum of all windows of a flow over the sum of their variances, in time.

    1 where windows are independent, the number of windows where all swing together, less where they
    take turns. From `from_s`, or the end of the warm-up, on.
    """
    samples = between(rows(result.path_samples, flow=flow), _begin(result, from_s), to_s)
    found = []
    for _, run in samples.groupby(_keys(samples)):
        paths = run.groupby(["time_s", "user", "path"])["window_packets"].mean()
        windows = paths.unstack(["user", "path"]).dropna()
        found.append(windows.sum(axis="columns").var() / windows.var().sum())
    return float(np.mean(found))


def _begin(result: Result, from_s: float | None) -> float:
    return float(result.scenario.warmup_s) if from_s is None else from_s


def _keys(table: pd.DataFrame) -> list["pd.Series[Any]"]:
    """Columns that identify a run, by row; a constant one in a table of one run without keys."""
    return [table[key] for key in run_keys(table)] or [pd.Series(0, table.index, name="run")]


def _bin(samples: pd.DataFrame, begin: float, bin_s: float) -> "pd.Series[Any]":
    """The number of the bin of each sample; a sample belongs to the bin in which it ends."""
    number: pd.Series[Any] = np.ceil((samples["time_s"] - begin) / bin_s - 1e-9)
    return number.rename("bin")


# Data that waits at the receiver for earlier data: reordering and head-of-line blocking.
#
# A sample says how much payload has arrived over each path and how much was delivered in order;
# the difference waits in the receive buffer. `sample_ms` should be below the RTT. Without `from_s`
# and `to_s` the whole run counts.


SMALLEST_BYTES = 1.0
"""Bound of the difference that rounding leaves between two sums of bytes."""


@quantity
def order_wait_ms(
    result: Result, flow: str, from_s: float | None = None, to_s: float | None = None
) -> float:
    """Time for which data that has arrived waits for earlier data, the mean over all data, ms.

    By Little's law: the bytes that wait, the mean of the samples and users, over the goodput.
    """
    samples = between(_waiting(result, flow), from_s, to_s)
    return float(1e3 * samples["waiting_bytes"].mean() * 8e-6 / samples["goodput_mbps"].mean())


@quantity
def order_waiting_share(
    result: Result, flow: str, from_s: float | None = None, to_s: float | None = None
) -> float:
    """The fraction of the samples at which data waits for earlier data, the mean over users."""
    samples = between(_waiting(result, flow), from_s, to_s)
    return float((samples["waiting_bytes"] > SMALLEST_BYTES).mean())


def _waiting(result: Result, flow: str) -> pd.DataFrame:
    """The samples of a flow's users, with `waiting_bytes`: arrived, but not yet in order."""
    samples = rows(result.flow_samples, flow=flow)
    keys = [*run_keys(samples), "user"]
    paths = rows(result.path_samples, flow=flow)
    arrived_mbps = paths.groupby([*keys, "time_s"])["goodput_mbps"].sum().rename("arrived_mbps")
    samples = samples.join(arrived_mbps, on=[*keys, "time_s"]).sort_values([*keys, "time_s"])
    users = samples.groupby(keys)
    span_s = users["time_s"].diff().fillna(samples["time_s"])
    arrived = (samples["arrived_mbps"] * span_s / 8e-6).groupby([samples[k] for k in keys]).cumsum()
    return samples.assign(waiting_bytes=arrived - samples["delivered_bytes"])
