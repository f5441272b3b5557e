"""Rates, round-trip times and losses, over the measurement window or from one time to another.

Without `from_s` and `to_s` a quantity covers the measurement window, as the totals of a Result do.
With either it is the mean of the samples that end between them, times in s.
"""

import numpy as np

from anabranch.experiments.quantities.table import quantity, rows, run_keys, runs
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
