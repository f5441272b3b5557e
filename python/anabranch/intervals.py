"""Means and medians over the seeds, with 95 % intervals; Jain's index.

SciPy is loaded where a quantile is needed: it takes as long as all else that a command loads.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd


def jain_index(rates: Sequence[float] | pd.Series) -> float:
    """Jain's fairness index (sum x)^2 / (n sum x^2): 1 when all are equal, 1/n when one has all.

    NaN when all rates are 0.

    >>> jain_index([2, 2, 2]), jain_index([6, 0, 0])
    (1.0, 0.3333333333333333)
    """
    x = np.asarray(rates, dtype=float)
    squares = float(np.sum(x * x))
    return float(np.sum(x)) ** 2 / (len(x) * squares) if squares > 0 else float("nan")


def mean_with_interval(
    frame: pd.DataFrame, by: Sequence[str], columns: Sequence[str]
) -> pd.DataFrame:
    """Per group the mean of each column and, as `<column>_ci95`, half its 95 % interval.

    Student's t over the rows of the group (one row per seed); NaN for a single row.

    >>> rows = pd.DataFrame({"algorithm": ["lia", "lia"], "seed": [1, 2], "mbps": [3.0, 5.0]})
    >>> mean_with_interval(rows, ["algorithm"], ["mbps"]).round(1).to_dict("records")
    [{'algorithm': 'lia', 'mbps': 4.0, 'mbps_ci95': 12.7}]
    """
    groups = frame.groupby(list(by), sort=False)[list(columns)]
    mean, n = groups.mean(), groups.count()
    if (n > 1).to_numpy().any():
        from scipy.special import stdtrit

        half = stdtrit(n - 1, 0.975) * groups.std(ddof=1) / np.sqrt(n)
    else:
        half = mean * float("nan")
    half = half.add_suffix("_ci95")
    order = [name for column in columns for name in (column, f"{column}_ci95")]
    return pd.concat([mean, half], axis=1)[order].reset_index()


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
    from scipy.special import bdtr

    ordered = np.sort(values.to_numpy(dtype=float))
    # Fewer than k of n rows lie below the median with the probability bdtr(k - 1, n, 1/2).
    k = np.count_nonzero(bdtr(np.arange(len(ordered)), len(ordered), 0.5) <= 0.025)
    return float("nan") if k == 0 else float(ordered[-k] - ordered[k - 1]) / 2
