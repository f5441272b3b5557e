"""Rates, round-trip times and losses; rates and durations of transfers; the time to take over.

Without `from_s` and `to_s` a quantity covers the measurement window, as the totals of a Result do.
"""

import numpy as np
import pandas as pd

from anabranch.quantities.table import late, quantity, rows, run_keys, runs
from anabranch.result import Result, between


@quantity
def user_goodput_mbps(
    result: Result, flow: str, from_s: float | None = None, to_s: float | None = None
) -> float:
    """Goodput of one user of a flow, the mean over its users, Mbps."""
    if from_s is None and to_s is None:
        return float(rows(result.flows, flow=flow)["goodput_mbps"].mean())
    samples = between(rows(result.flow_samples, flow=flow), from_s, to_s)
    return float(samples["goodput_mbps"].mean())


@quantity
def delivered_mbps(result: Result, flow: str) -> float:
    """Goodput of the one user of a flow, Mbps; of a finished transfer, its size by its duration."""
    done = result.transfers[result.transfers["flow"] == flow]
    if len(done):
        return float((done["bytes"] * 8e-6 / done["duration_s"]).iloc[-1])
    return float(rows(result.flows, flow=flow)["goodput_mbps"].iloc[0])


@quantity
def aggregate_goodput_mbps(
    result: Result, from_s: float | None = None, to_s: float | None = None
) -> float:
    """Goodput of all users of all flows together, Mbps."""
    if from_s is None and to_s is None:
        return float(result.flows["goodput_mbps"].sum() / runs(result.flows))
    samples = between(result.flow_samples, from_s, to_s)
    instants = runs(samples) * samples["time_s"].nunique()
    return float(samples["goodput_mbps"].sum() / instants)


@quantity
def goodput_share(result: Result, flow: str) -> float:
    """The goodput of all users of a flow over that of all users of all flows."""
    of_flow = rows(result.flows, flow=flow)["goodput_mbps"].sum()
    return float(of_flow / result.flows["goodput_mbps"].sum())


@quantity
def relative_goodput(result: Result, flow: str, to: str) -> float:
    """Goodput of one user of a flow over that of one user of `to`; infinite where that has none."""
    other = user_goodput_mbps(result, to)
    return user_goodput_mbps(result, flow) / other if other else float("inf")


@quantity
def path_share(result: Result, flow: str, path: int) -> float:
    """The goodput of a flow's users over one path, divided by that over all their paths."""
    of_flow = rows(result.paths, flow=flow)
    return float(rows(of_flow, path=path)["goodput_mbps"].sum() / of_flow["goodput_mbps"].sum())


@quantity
def path_goodput_mbps(
    result: Result, flow: str, path: int, from_s: float | None = None, to_s: float | None = None
) -> float:
    """Goodput over one path of a flow, the mean over its users, Mbps."""
    if from_s is None and to_s is None:
        return float(rows(result.paths, flow=flow, path=path)["goodput_mbps"].mean())
    samples = between(rows(result.path_samples, flow=flow, path=path), from_s, to_s)
    return float(samples["goodput_mbps"].mean())


@quantity
def share_swing(result: Result, flow: str, path: int, bin_s: float = 10.0) -> float:
    """Standard deviation in time of the share of a path in a user's goodput.

    Shares are of bins of `bin_s` from the end of the warm-up on; the mean over users. It is 0 where
    a user keeps its shares, and 0.5 where all of its data is on either of two paths in turn.
    """
    samples = between(rows(result.path_samples, flow=flow), result.scenario.warmup_s, None)
    keys = [*run_keys(samples), "user"]
    number = np.ceil((samples["time_s"] - result.scenario.warmup_s) / bin_s - 1e-9).rename("bin")
    goodput = samples.groupby([*keys, number, "path"])["goodput_mbps"].mean().unstack("path")
    share = goodput[path] / goodput.sum(axis="columns")
    return float(share.groupby(level=list(range(len(keys)))).std(ddof=0).mean())


@quantity
def path_rtt_ms(
    result: Result, flow: str, path: int, from_s: float | None = None, to_s: float | None = None
) -> float:
    """Round-trip time over one path of a flow, queueing included, the mean over its users, ms.

    With `from_s` or `to_s` it is the mean of the smoothed RTT.
    """
    if from_s is None and to_s is None:
        return float(rows(result.paths, flow=flow, path=path)["rtt_ms"].mean())
    samples = between(rows(result.path_samples, flow=flow, path=path), from_s, to_s)
    return float(samples["rtt_ms"].mean())


@quantity
def time_below(
    result: Result, flow: str, mbps: float, bin_s: float = 1.0, from_s: float | None = None
) -> float:
    """The fraction of the time in which a user's goodput is below `mbps`, the mean over users.

    The goodput is averaged over bins of `bin_s`, from `from_s`, or the end of the warm-up, on.
    """
    begin = result.scenario.warmup_s if from_s is None else from_s
    samples = between(rows(result.flow_samples, flow=flow), begin, None)
    # A sample belongs to the bin in which it ends.
    number = np.ceil(samples["time_s"] / bin_s - 1e-9)
    keys = [samples[key] for key in (*run_keys(samples), "user")]
    return float((samples["goodput_mbps"].groupby([*keys, number]).mean() < mbps).mean())


@quantity
def user_timeouts(result: Result, flow: str) -> float:
    """Retransmission timeouts of one user of a flow, the mean over its users."""
    return float(rows(result.flows, flow=flow)["timeouts"].mean())


@quantity
def path_loss_probability(result: Result, flow: str, path: int) -> float:
    """Packets lost over packets sent on one path of a flow, summed over its users."""
    chosen = rows(result.paths, flow=flow, path=path)
    lost = (chosen["loss_probability"] * chosen["sent_packets"]).sum()
    return float(lost / chosen["sent_packets"].sum())


@quantity
def path_losses_per_s(result: Result, flow: str, path: int) -> float:
    """Packets of a user that are lost on one path of a flow per second, the mean over its users."""
    chosen = rows(result.paths, flow=flow, path=path)
    span_s = result.scenario.duration_s - result.scenario.warmup_s
    return float((chosen["loss_probability"] * chosen["sent_packets"]).mean() / span_s)


@quantity
def link_loss_probability(result: Result, link: str) -> float:
    """Packets dropped by a link for any reason, over packets that arrived at it."""
    return float(rows(result.links, link=link)["loss_probability"].mean())


@quantity
def link_utilization(result: Result, link: str) -> float:
    """Throughput of a link over its rate."""
    return float(rows(result.links, link=link)["utilization"].mean())


@quantity
def link_queue_packets(
    result: Result, link: str, from_s: float | None = None, to_s: float | None = None
) -> float:
    """Packets queued at a link, the mean of the samples."""
    if from_s is None and to_s is None:
        return float(rows(result.links, link=link)["queue_packets"].mean())
    return float(
        between(rows(result.link_samples, link=link), from_s, to_s)["queue_packets"].mean()
    )


def drop_percent(before: float, after: float) -> float:
    """The decrease from `before` to `after`, in percent of `before`."""
    return 100.0 * (before - after) / before


# Rates, durations and counts of completed transfers, over the whole run including warm-up.
#
# `flow` selects one flow; None selects all.


@quantity
def transfer_mbps(result: Result, flow: str | None = None) -> float:
    """Rate of a transfer (bytes over duration), the mean over transfers, Mbps."""
    files = rows(result.transfers, flow=flow)
    return float((8e-6 * files["bytes"] / files["duration_s"]).mean())


@quantity
def transfers_sum_mbps(result: Result, flow: str | None = None) -> float:
    """The sum of the rates of all transfers of a run, Mbps; for transfers at the same time."""
    files = rows(result.transfers, flow=flow)
    return float((8e-6 * files["bytes"] / files["duration_s"]).sum() / runs(files))


@quantity
def transfer_s(result: Result, flow: str | None = None) -> float:
    """Duration of a transfer from its arrival to its last byte, the mean over transfers, s."""
    return float(rows(result.transfers, flow=flow)["duration_s"].mean())


@quantity
def transfer_quantile_s(result: Result, share: float, flow: str | None = None) -> float:
    """The quantile `share` of the durations of transfers, s."""
    return float(rows(result.transfers, flow=flow)["duration_s"].quantile(share))


@quantity
def transfers_longer(
    result: Result, than_s: float, flow: str | None = None, skip: float = 0.0
) -> float:
    """The fraction of transfers that last longer than `than_s`.

    Transfers that begin in the initial fraction `skip` of the run are excluded.
    """
    return float((late(result, skip, flow)["duration_s"] > than_s).mean())


@quantity
def slowdown_spread(result: Result, flow: str | None = None, skip: float = 0.0) -> float:
    """Seconds per byte of small transfers over those of large ones.

    The median over the smaller half of the transfers, divided by that over the larger half: 1 where
    the duration is proportional to the size, above 1 where small transfers are slower. Transfers
    that begin in the initial fraction `skip` of the run are excluded.
    """
    files = late(result, skip, flow)
    slowness = files["duration_s"] / files["bytes"]
    small = files["bytes"] <= files["bytes"].median()
    return float(slowness[small].median() / slowness[~small].median())


@quantity
def transfers_done(result: Result, flow: str | None = None) -> float:
    """Transfers whose last byte was delivered within the measurement window."""
    done = rows(result.flows, flow=flow)["transfers_done"].sum(skipna=False)
    return float(done / runs(result.flows))


# The time a path needs to take over the capacity that a leaving flow frees.


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
