"""Data that waits at the receiver for earlier data: reordering and head-of-line blocking.

A sample says how much payload has arrived over each path and how much was delivered in order; the
difference waits in the receive buffer. `sample_ms` should be below the RTT. Without `from_s` and
`to_s` the whole run counts.
"""

import pandas as pd

from anabranch.experiments.quantities.table import quantity, rows, run_keys
from anabranch.result import Result, between

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
