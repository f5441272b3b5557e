"""Tail index of transfer durations: alpha if P(duration > x) falls as x^-alpha."""

from anabranch.experiments.quantities.table import late, quantity, rows
from anabranch.experiments.quantities.tail_index import hill, tail_fit
from anabranch.result import Result


@quantity
def tail_index_hill(result: Result, flow: str | None = None, largest: float = 0.1) -> float:
    """Tail index of transfer durations by Hill's estimator over the fraction `largest` of them."""
    return hill(rows(result.transfers, flow=flow)["duration_s"], largest)


@quantity
def tail_index_fit(
    result: Result, low_s: float, high_s: float, flow: str | None = None, skip: float = 0.0
) -> float:
    """Tail index of transfer durations by a straight line through the log-log ccdf.

    Transfers that begin in the initial fraction `skip` of the run are excluded.
    """
    slope, _ = tail_fit(late(result, skip, flow)["duration_s"], low_s, high_s)
    return -slope
