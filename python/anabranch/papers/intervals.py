"""Whether the seeds decide a check: the interval of each of its margins, and how many would do.

The standard error of a margin says how far other seeds would move it. For means it is the
jackknife's, from the margins of the averages without each seed in turn. For medians, for which the
jackknife is not consistent, it is the bootstrap's, from the margins of the medians of seeds drawn
with replacement. Cases with the same seeds are averaged over the same sets of seeds: the effect of
a seed on both cancels.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from anabranch.intervals import seeds_to_decide
from anabranch.papers.entries.checks import Comparison, Number, Numbers

DRAWS = 2000
"""Sets of seeds of the bootstrap."""


@dataclass(frozen=True)
class Spread:
    """The numbers of an item that vary with the seed, averaged over other sets of seeds."""

    numbers: Numbers
    """Averages by metric and case: one per resampled set of seeds."""
    seeds: dict[tuple[str, str], int]
    """How many seeds a number has, by metric and case."""
    jackknife: bool

    @classmethod
    def of(cls, frame: pd.DataFrame, average: str) -> "Spread":
        """The spread of numbers with the columns `metric`, `case`, `seed` and `value`."""
        rows = frame.dropna(subset="value")
        wide = rows.pivot(index="seed", columns=["metric", "case"], values="value")
        wide = wide.loc[:, wide.max() > wide.min()]
        sets = _without_one if average == "mean" else _drawn_medians
        columns: Iterable[NDArray[np.float64]] = ()
        if len(wide.columns):
            columns = sets(wide.to_numpy(dtype=float)).T
        numbers: dict[str, dict[str, Number]] = {}
        for (metric, case), column in zip(wide.columns, columns, strict=True):
            numbers.setdefault(metric, {})[case] = column
        seeds = {name: int(count) for name, count in wide.count().items()}
        return cls(numbers, seeds, average == "mean")

    @classmethod
    def none(cls) -> "Spread":
        """The spread of numbers that do not vary."""
        return cls({}, {}, True)

    def decide(self, check: Comparison, numbers: Numbers) -> "Decision":
        """Decide a check of an item's numbers."""
        margins = [float(margin) for margin in check.margins(numbers)]
        varying = [self.seeds[name] for name in check.needs(numbers) if name in self.seeds]
        if not varying:
            return Decision(margins, [0.0] * len(margins), 1)
        sets = {
            metric: {**cases, **self.numbers.get(metric, {})} for metric, cases in numbers.items()
        }
        pairs = zip(check.margins(sets), margins, strict=True)
        squares = [np.square(other - margin) for other, margin in pairs]
        if self.jackknife:
            most = max(varying)
            errors = [math.sqrt((most - 1) / most * np.sum(square)) for square in squares]
        else:
            errors = [math.sqrt(np.mean(square)) for square in squares]
        return Decision(margins, errors, min(varying))


@dataclass(frozen=True)
class Decision:
    """The margins of a check with their standard errors."""

    margins: Sequence[float]
    errors: Sequence[float]
    """0 where nothing varies with the seed."""
    seeds: int

    @property
    def holds(self) -> bool:
        """Whether no margin is negative."""
        return all(margin >= 0 for margin in self.margins)

    @property
    def undecided(self) -> bool:
        """Whether an interval crosses an edge, and no other is beyond one."""
        return self.seeds_to_decide() > self.seeds

    def seeds_to_decide(self) -> float:
        """The number of seeds that decides, for the same margins and deviations; or infinity.

        To hold, the 95 % interval of every margin is positive. To fail, that of some margin is
        negative, widened for the number of margins (Bonferroni).
        """
        parts = list(zip(self.margins, self.errors, strict=True))
        if self.holds:
            return max(self._needed(margin, error, 0.025) for margin, error in parts)
        tail = 0.025 / len(parts)
        return min(self._needed(-margin, error, tail) for margin, error in parts if margin < 0)

    def _needed(self, margin: float, error: float, tail: float) -> float:
        """The smallest number of seeds for which a margin exceeds half its interval."""
        if error == 0:
            return self.seeds
        if margin <= 0:
            return math.inf
        return seeds_to_decide(margin, error * math.sqrt(self.seeds), tail)


def _without_one(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The means without each seed in turn: a row per set, from a row per seed."""
    present = ~np.isnan(values)
    left = np.nansum(values, axis=0) - np.where(present, values, 0.0)
    means: NDArray[np.float64] = left / (present.sum(axis=0) - present)
    return means


def _drawn_medians(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The medians of `DRAWS` sets of seeds: a row per set, from a row per seed."""
    rows = np.random.default_rng(0).integers(len(values), size=(DRAWS, len(values)))
    drawn = np.sort(values[rows], axis=1)  # NaN comes last
    present = (~np.isnan(drawn)).sum(axis=1, keepdims=True)
    middle = [np.take_along_axis(drawn, at, axis=1) for at in ((present - 1) // 2, present // 2)]
    medians = np.mean(middle, axis=0)[:, 0, :]
    return np.where(np.isnan(medians), np.nanmedian(values, axis=0), medians)
