"""Fairness between users and between transfers."""

from anabranch.experiments.quantities.table import quantity, rows, run_keys
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
