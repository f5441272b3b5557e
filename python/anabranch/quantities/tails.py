"""Tail index of transfer durations: alpha if P(duration > x) falls as x^-alpha."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anabranch.quantities.table import late, quantity, rows
from anabranch.result import Result

# Estimators of a tail index alpha, where P(X > x) falls as x^-alpha.
#
# Two with different biases: Hill's uses the largest values alone, the fit a given range of values
# on log axes.


GRID = 30
"""Points of the fit, evenly spaced in the logarithm, so that each decade weighs the same."""


def hill(values: ArrayLike, largest: float) -> float:
    """Hill's estimator: 1 / mean of ln(x / x_k) over the k largest, x_k being the next smaller.

    `largest` is the share of the values taken for the tail. Raises LookupError for too few values.
    """
    ordered = np.sort(np.asarray(values, dtype=float))[::-1]
    k = int(largest * len(ordered))
    if not 1 <= k < len(ordered):
        raise LookupError(f"{len(ordered)} transfers have no tail of {largest:g} of them")
    return float(1 / np.mean(np.log(ordered[:k] / ordered[k])))


def tail_fit(values: ArrayLike, low: float, high: float, points: int = GRID) -> tuple[float, float]:
    """Least squares of log10 P(X >= x) on log10 x from `low` to `high`: slope and intercept.

    Raises LookupError where no value lies beyond `low`.
    """
    ordered = np.sort(np.asarray(values, dtype=float))
    x = np.geomspace(low, high, points)
    y = ccdf(ordered, x)
    if np.count_nonzero(y) < 2:
        raise LookupError(f"no transfers last from {low:g} to {high:g} s")
    slope, intercept = np.polyfit(np.log10(x[y > 0]), np.log10(y[y > 0]), 1)
    return float(slope), float(intercept)


def ccdf(ordered: NDArray[np.float64], x: NDArray[np.float64]) -> NDArray[np.float64]:
    """P(X >= x) of ascending values."""
    return 1 - np.searchsorted(ordered, x, side="left") / len(ordered)


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
