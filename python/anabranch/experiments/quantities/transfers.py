"""Rates, durations and counts of completed transfers, over the whole run including warm-up.

`flow` selects one flow; None selects all.
"""

from anabranch.experiments.quantities.table import late, quantity, rows, runs
from anabranch.result import Result


@quantity
def transfer_mbps(result: Result, flow: str | None = None) -> float:
    """Rate of a transfer (bytes over duration), the mean over transfers, Mbps."""
    files = rows(result.transfers, flow=flow)
    return float((8e-6 * files["bytes"] / files["duration_s"]).mean())


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
def transfers_done(result: Result, flow: str | None = None) -> float:
    """Transfers whose last byte was delivered within the measurement window."""
    done = rows(result.flows, flow=flow)["transfers_done"].sum(skipna=False)
    return float(done / runs(result.flows))
