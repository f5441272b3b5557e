"""Finished files of the whole run, warm-up included: how fast, how long, how many.

`flow` is one flow, or None for all of them.
"""

from anabranch.papers.quantities.table import late, quantity, rows, runs
from anabranch.result import Result


@quantity
def transfer_mbps(result: Result, flow: str | None = None) -> float:
    """Rate of a transfer, its bytes over its duration, the mean over the transfers, Mbps."""
    files = rows(result.transfers, flow=flow)
    return float((8e-6 * files["bytes"] / files["duration_s"]).mean())


@quantity
def transfer_s(result: Result, flow: str | None = None) -> float:
    """Duration of a transfer, from its arrival to its last byte, the mean over them, s."""
    return float(rows(result.transfers, flow=flow)["duration_s"].mean())


@quantity
def transfer_quantile_s(result: Result, share: float, flow: str | None = None) -> float:
    """Duration that this share of the transfers does not exceed, s."""
    return float(rows(result.transfers, flow=flow)["duration_s"].quantile(share))


@quantity
def transfers_longer(
    result: Result, than_s: float, flow: str | None = None, skip: float = 0.0
) -> float:
    """Share of the transfers that last longer than `than_s`.

    Without those that begin in the first part `skip` of the run.
    """
    return float((late(result, skip, flow)["duration_s"] > than_s).mean())


@quantity
def transfers_done(result: Result, flow: str | None = None) -> float:
    """Transfers whose last byte was delivered within the measurement window."""
    done = rows(result.flows, flow=flow)["transfers_done"].sum(skipna=False)
    return float(done / runs(result.flows))
