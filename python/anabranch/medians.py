"""Medians with their intervals."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.special import bdtr


def median_with_interval(
    frame: pd.DataFrame, by: Sequence[str], columns: Sequence[str]
) -> pd.DataFrame:
    """As `mean_with_interval`, with the median and half the width of its interval.

    The interval is from the k-th smallest to the k-th largest row, the narrowest that holds the
    median with a probability of 95 % or more whatever the distribution; NaN below 6 rows.

    >>> rows = pd.DataFrame({"algorithm": "lia", "mbps": [1.0, 2.0, 3.0, 4.0, 5.0, 60.0]})
    >>> median_with_interval(rows, ["algorithm"], ["mbps"]).to_dict("records")
    [{'algorithm': 'lia', 'mbps': 3.5, 'mbps_ci95': 29.5}]
    """
    groups = frame.groupby(list(by), sort=False)[list(columns)]
    half = groups.agg(_median_half_width).add_suffix("_ci95")
    order = [name for column in columns for name in (column, f"{column}_ci95")]
    return pd.concat([groups.median(), half], axis=1)[order].reset_index()


def _median_half_width(values: pd.Series) -> float:
    ordered = np.sort(values.to_numpy(dtype=float))
    # Fewer than k of n rows lie below the median with the probability bdtr(k - 1, n, 1/2).
    k = np.count_nonzero(bdtr(np.arange(len(ordered)), len(ordered), 0.5) <= 0.025)
    return float("nan") if k == 0 else float(ordered[-k] - ordered[k - 1]) / 2
