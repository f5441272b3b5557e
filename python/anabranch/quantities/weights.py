"""Shares of a bottleneck by weight: kappa of weighted Vegas over the sum of all flows' kappas."""

from collections.abc import Mapping

import pandas as pd

from anabranch.quantities.table import between, quantity, run_keys
from anabranch.result import Result


@quantity
def kappa_share(result: Result, flow: str, skip: float = 0.0) -> float:
    """The share that a flow's weight gives it, the mean of the samples.

    `skip` is the part of the run that is left out at its beginning.
    """
    shares = kappa_shares(result.flow_samples, skip)
    if flow not in shares:
        raise LookupError(f"no flow {flow!r} with a kappa: expected one of {_known(shares)}")
    return float(shares[flow].mean())


@quantity
def shares_above_loads(result: Result, loads: Mapping[str, float], skip: float = 0.0) -> float:
    """Part of the samples in which the share of every flow of `loads` exceeds its load.

    `skip` is the part of the run that is left out at its beginning.
    """
    shares = kappa_shares(result.flow_samples, skip)
    for flow in loads:
        if flow not in shares:
            raise LookupError(f"no flow {flow!r} with a kappa: expected one of {_known(shares)}")
    return float((shares[list(loads)] > pd.Series(loads)).all(axis=1).mean())


def kappa_shares(samples: pd.DataFrame, skip: float = 0.0) -> pd.DataFrame:
    """The flows' shares: a row per run and time at which all of them have a weight."""
    samples = between(samples, skip * samples["time_s"].max(), None)
    by = [*run_keys(samples), "time_s"]
    kappas = samples.groupby([*by, "flow"], sort=False)["kappa"].sum().unstack("flow")
    kappas = kappas.loc[:, kappas.any()]
    kappas = kappas[kappas.all(axis="columns")]
    return kappas.div(kappas.sum(axis="columns"), axis="index")


def _known(shares: pd.DataFrame) -> str:
    return ", ".join(shares.columns) or "none"
