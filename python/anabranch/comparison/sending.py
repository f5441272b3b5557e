"""The goodput of each flow while it sends: what a program at its ends would measure."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from anabranch.intervals import mean_with_interval
from anabranch.result import Result

TRANSFERS = ("file", "poisson")
"""Workloads in which a connection is a transfer."""


def while_sending(result: Result) -> tuple[pd.DataFrame, dict[str, str]]:
    """Per case and flow `goodput_mbps` with its 95 % interval over seeds, and its name per flow.

    A transfer has its bytes over its own time; the mean over transfers, NaN where none is done. A
    user that starts after the warm-up, stops before the end, or is on and off in turn has its bytes
    over the time within the measurement window in which it sends.
    """
    scenario = result.scenario
    flows = {flow["name"]: flow for flow in scenario.network()["flows"]}
    window = (scenario.warmup_s, scenario.duration_s)
    by = [*result.keys, "flow"]
    rows = result.flows.assign(goodput_mbps=result.flows["goodput_mbps"].astype(float))
    whole = window[1] - window[0]
    names: dict[str, str] = {}
    for i, row in rows[["flow", "start_s", "stop_s"]].iterrows():
        flow = flows[row["flow"]]
        kind = flow["workload"]
        if kind in TRANSFERS:
            continue
        sends = _sending_s(flow, row["start_s"], row["stop_s"], window)
        if sends < whole:
            rows.loc[i, "goodput_mbps"] *= whole / sends if sends > 0 else float("nan")
            names[row["flow"]] = "Mbps while it sends"
    found = rows.groupby(by, sort=False)["goodput_mbps"].mean().reset_index()
    rates = result.transfers.assign(
        goodput_mbps=result.transfers["bytes"] * 8e-6 / result.transfers["duration_s"]
    )
    if not result.transfers.empty or result.backend in ("sim", "quic", "kernel"):
        of_transfers = found["flow"].map(lambda name: flows[name]["workload"] in TRANSFERS)
        own = rates.groupby(by, sort=False)["goodput_mbps"].mean()
        keys = pd.MultiIndex.from_frame(found[by])
        found.loc[of_transfers, "goodput_mbps"] = own.reindex(keys)[of_transfers.to_numpy()].array
        names |= dict.fromkeys(found["flow"][of_transfers], "Mbps of a transfer")
    summary = mean_with_interval(found, [*result.cases, "flow"], ["goodput_mbps"])
    return summary, {name: names.get(name, "Mbps") for name in flows}


def _sending_s(
    flow: Mapping[str, Any], start_s: float, stop_s: float, window: tuple[float, float]
) -> float:
    """For how long a user sends within a window."""
    begin, end = max(start_s, window[0]), min(stop_s, window[1])
    if begin >= end:
        return 0.0
    if flow["workload"] != "on_off":
        return end - begin
    on, period = flow["on_s"], flow["on_s"] + flow["off_s"]

    def upto(time_s: float) -> float:
        periods, rest = divmod(time_s - start_s, period)
        return float(periods * on + min(rest, on))

    return upto(end) - upto(begin)
