"""Means, medians and paired differences over the seeds, with 95 % intervals; Jain's index.

SciPy is loaded where a quantile is needed: it takes as long as all else that a command loads.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

MOST_SEEDS = 1000
"""The largest number of seeds that `seeds_to_decide` looks at."""

ROUNDING = 1e-9
"""Differences of less than this share of the numbers are rounding, and count as 0."""


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


@dataclass(frozen=True)
class Difference:
    """The mean of paired differences, and half its interval."""

    mean: float
    half: float
    """NaN for fewer than two pairs."""
    n: int
    """The number of pairs, which are seeds."""
    deviation: float
    """Standard deviation of the differences; NaN for fewer than two pairs."""
    tail: float
    """The probability beyond each end of the interval: 0.025 for 95 %."""

    @property
    def decided(self) -> bool:
        """Whether the interval excludes 0, so that one of the two may be called the greater."""
        return abs(self.mean) > self.half  # false for NaN

    @property
    def seeds_to_decide(self) -> float:
        """The number of seeds that would decide the same mean; infinity for more than 1000."""
        return seeds_to_decide(self.mean, self.deviation, self.tail)


def paired_difference(
    a: Mapping[int, float] | pd.Series,
    b: Mapping[int, float] | pd.Series,
    comparisons: int = 1,
) -> Difference:
    """The difference a - b, paired by seed, with its 95 % interval by Student's t.

    `a`, `b`: values by seed; seeds that only one of them has do not count. The same seed gives both
    the same starts and losses, so that the difference varies less than either. `comparisons`: how
    many such differences are looked at together: all intervals hold at once with 95 % or more
    (Bonferroni).

    >>> lia, olia = {1: 20.0, 2: 30.0, 3: 25.0}, {1: 21.0, 2: 31.5, 3: 25.5}
    >>> found = paired_difference(olia, lia)
    >>> found.mean, round(found.half, 2), found.n, found.decided
    (1.0, 1.24, 3, False)
    """
    both = pd.DataFrame({"a": pd.Series(a), "b": pd.Series(b)}, dtype=float).dropna()
    ordered = both.sort_index()
    apart = (ordered["a"] - ordered["b"]).to_numpy(copy=True)
    apart[np.abs(apart) <= ROUNDING * ordered.abs().max(axis=1).to_numpy()] = 0.0
    n, tail = len(apart), 0.025 / comparisons
    mean = float(apart.mean()) if n else math.nan
    if n < 2:
        return Difference(mean, math.nan, n, math.nan, tail)
    deviation = float(apart.std(ddof=1))
    if deviation <= ROUNDING * abs(mean):
        deviation = 0.0
    return Difference(mean, _half_width(deviation, n, tail), n, deviation, tail)


def seeds_to_decide(mean: float, deviation: float, tail: float = 0.025) -> float:
    """The least number of seeds with which a mean exceeds half its interval, or infinity.

    `deviation` is the standard deviation of a seed's value, `tail` the probability beyond each end
    of the interval.

    >>> seeds_to_decide(1.0, 2.0), seeds_to_decide(0.001, 2.0)
    (18.0, inf)
    """
    from scipy.special import stdtrit

    n = np.arange(2, MOST_SEEDS + 1)
    enough = n[stdtrit(n - 1, 1 - tail) * deviation / np.sqrt(n) < abs(mean)]
    return float(enough[0]) if len(enough) else math.inf


@dataclass(frozen=True)
class Ranking:
    """The rule with the best mean, and how each other one differs from it."""

    mean: Mapping[str, float]
    """The mean of each rule over the seeds."""
    first: str
    """The rule with the best mean."""
    behind: Mapping[str, Difference]
    """Per other rule its difference from `first`; its sign is that of being worse."""

    @property
    def decided(self) -> list[str]:
        """The rules that are worse than `first`, the worst one first."""
        told = [name for name, apart in self.behind.items() if apart.decided]
        return sorted(told, key=lambda name: -self.behind[name].mean)

    @property
    def best(self) -> list[str]:
        """The first rule, and those that the seeds do not tell from it, in the order given."""
        return [name for name in self.mean if name not in self.decided]

    def within(self) -> float:
        """The largest lead of `first` that the intervals allow, relative to it.

        Of means alone where there are no intervals.
        """
        halves = {k: 0.0 if math.isnan(v.half) else v.half for k, v in self.behind.items()}
        ends = [apart.mean + halves[name] for name, apart in self.behind.items()]
        reference = abs(self.mean[self.first])
        return max(ends) / reference if reference else math.inf if max(ends) else 0.0

    @property
    def seeds_to_decide(self) -> float:
        """The number of seeds that would tell some rule from `first`, or infinity."""
        return min(apart.seeds_to_decide for apart in self.behind.values())


def ranking(values: Mapping[str, pd.Series], *, least: bool = False) -> Ranking:
    """Compare the rule with the best mean with each other one, paired by seed.

    `values`: per rule a series by seed; two rules or more. `least`: the smallest mean is the best.
    Which rule is the best is chosen from the same seeds, so that the intervals are those of all
    pairs of rules together (Bonferroni): of rules that do not differ, some is called worse in at
    most 5 % of the cases.

    >>> rows = {"lia": pd.Series({1: 20, 2: 30}), "reno": pd.Series({1: 10, 2: 20.1})}
    >>> found = ranking(rows)
    >>> found.first, found.decided
    ('lia', ['reno'])
    """
    sign = -1.0 if least else 1.0
    mean = {name: float(series.mean()) for name, series in values.items()}
    first = max(mean, key=lambda name: sign * mean[name])
    pairs = len(list(itertools.combinations(values, 2)))
    behind = {
        name: paired_difference(sign * values[first], sign * series, pairs)
        for name, series in values.items()
        if name != first
    }
    return Ranking(mean, first, behind)


def _half_width(deviation: float, n: int, tail: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(n - 1, 1 - tail)) * deviation / math.sqrt(n)
