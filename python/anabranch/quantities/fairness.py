"""Fairness between users and between transfers."""

from collections.abc import Mapping

import pandas as pd

from anabranch.quantities.table import quantity, rows, run_keys
from anabranch.result import Result, between, jain_index


@quantity
def user_jain_index(
    result: Result,
    flow: str | None = None,
    from_s: float | None = None,
    to_s: float | None = None,
) -> float:
    """Jain's index of the users' goodput, of one flow or of all flows; 1 is perfectly fair."""
    if from_s is None and to_s is None:
        table = rows(result.flows, flow=flow)
    else:
        table = between(rows(result.flow_samples, flow=flow), from_s, to_s)
    users = table.groupby([*run_keys(table), "flow", "user"], as_index=False)["goodput_mbps"].mean()
    keys = run_keys(users)
    if not keys:
        return jain_index(users["goodput_mbps"])
    return float(users.groupby(keys)["goodput_mbps"].agg(jain_index).mean())


@quantity
def transfer_jain_index(result: Result, flow: str | None = None) -> float:
    """Jain's index of the transfers' rates (bytes over duration), of one flow or of all flows."""
    files = rows(result.transfers, flow=flow)
    rates = files.assign(rate=files["bytes"] / files["duration_s"])
    keys = run_keys(rates)
    if not keys:
        return jain_index(rates["rate"])
    return float(rates.groupby(keys)["rate"].agg(jain_index).mean())


# Gateways: their weights, the shares of the bottleneck these imply, and the shares measured.
#
# A weight is the kappa of weighted Vegas; a share is a flow's kappa over the sum of all kappas.
# `skip` is the fraction of the run excluded at its beginning.


@quantity
def kappa(result: Result, flow: str, skip: float = 0.0) -> float:
    """The mean of a flow's kappa over the samples, packets."""
    return float(rows(_without(result.flow_samples, skip), flow=flow)["kappa"].mean())


@quantity
def buffer_packets(result: Result, flow: str, skip: float = 0.0) -> float:
    """The mean of a gateway's buffer over the samples, packets."""
    return float(rows(_without(result.flow_samples, skip), flow=flow)["buffer_packets"].mean())


@quantity
def kappa_share(result: Result, flow: str, skip: float = 0.0) -> float:
    """The mean of a flow's share over the samples."""
    return float(_of_flows(shares(result, skip), [flow])[flow].mean())


@quantity
def shares_above_loads(result: Result, loads: Mapping[str, float], skip: float = 0.0) -> float:
    """The fraction of samples in which the share of every flow of `loads` exceeds its load."""
    chosen = _of_flows(shares(result, skip), list(loads))
    return float((chosen > pd.Series(loads)).all(axis="columns").mean())


@quantity
def backlogged_share(result: Result, flow: str, packets: float = 100) -> float:
    """A flow's share of the total goodput while all gateways are backlogged.

    Counted are samples at whose beginning and end all buffers hold more than `packets` packets.
    """
    waits = (_wide(result.flow_samples, "buffer_packets") > packets).all(axis="columns")
    # With several runs the first sample of a run follows the last one of another: negligible.
    chosen = waits & waits.shift(fill_value=False)
    goodput = _wide(result.flow_samples, "goodput_mbps")[chosen]
    return float(_of_flows(goodput, [flow])[flow].sum() / goodput.sum().sum())


def shares(result: Result, skip: float = 0.0) -> pd.DataFrame:
    """The flows' shares, a row per run and time at which all flows have a weight."""
    kappas = _wide(_without(result.flow_samples, skip), "kappa")
    kappas = kappas.loc[:, kappas.any()]
    kappas = kappas[kappas.all(axis="columns")]
    return kappas.div(kappas.sum(axis="columns"), axis="index")


def _without(samples: pd.DataFrame, skip: float) -> pd.DataFrame:
    return between(samples, skip * samples["time_s"].max(), None)


def _wide(samples: pd.DataFrame, column: str) -> pd.DataFrame:
    """A row per run and time, a column per flow."""
    by = [*run_keys(samples), "time_s", "flow"]
    return samples.groupby(by)[column].sum().unstack("flow")


def _of_flows(table: pd.DataFrame, flows: list[str]) -> pd.DataFrame:
    for flow in flows:
        if flow not in table:
            raise LookupError(f"no flow {flow!r}: expected one of {', '.join(table.columns)}")
    return table[flows]
