"""Whether the seeds decide that numbers are within their bounds: holds, fails or undecided.

A bound becomes a margin, one number per seed: the signed distance from it, positive inside. All
numbers of a margin are of the same seeds, so that what a seed does to both sides cancels. At n
seeds a margin is inside if its mean exceeds t(n - 1; 1 - a/K) s / sqrt(n), outside if the mean's
negative does, with a = `RATE` to a side and K looks (by the union bound a side is wrong with at
most a; Pocock 1977, Lan and DeMets 1983). A ratio is thus tested without a quotient (Fieller 1954),
and a band by its two sides (Schuirmann 1987). Several margins count as k of n (Benjamini and
Heller 2008). SciPy is loaded where a quantile is needed.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from anabranch.intervals import MOST_SEEDS, ROUNDING, seeds_to_decide

RATE = 0.025
"""The probability of a wrong decision to a side, per item and rule."""
FLOOR = 0.05
"""Before the last look a deviation is at least this share of what a number is compared with:
few seeds may all be of one mode."""
HOPELESS = 4
"""A margin gives up if this multiple of the last look would not decide it."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Looks:
    """The numbers of seeds at which a suite decides, of which a form may take the first ones."""

    counts: tuple[int, ...]
    taken: int

    @classmethod
    def one(cls, count: int) -> "Looks":
        """A single look."""
        return cls((count,), 1)

    def reached(self, n: int) -> list[int]:
        """The looks of a margin with n seeds, of which some may have failed."""
        return sorted({count for count in self.counts if count <= n} | {n})


@dataclass(frozen=True, eq=False)
class Margin:
    """One inequality."""

    by_seed: Array
    """Infinite where only one side was measured, NaN where neither was."""
    looks: Looks
    scale: float = 0.0
    """The size of what the number is compared with."""
    certain: bool = False
    """Whether nothing in it varies with the seed, so that one run decides by its sign."""
    median: bool = False
    """Whether the median counts (the sign test), not the mean."""

    @cached_property
    def values(self) -> Array:
        """The distances that there are."""
        return self.by_seed[~np.isnan(self.by_seed)]

    @property
    def mean(self) -> float:
        """The mean distance; 0 where there is none."""
        return self._center(self.values) if len(self.values) else 0.0

    @property
    def signed(self) -> bool:
        """Whether the signs of the seeds decide."""
        return self.median or not np.isfinite(self.values).all()

    def on(self, sign: int, rate: float) -> bool:
        """Whether it is inside (1) or outside (-1), by the first look that decides."""
        for count in self.looks.reached(len(self.values)):
            if found := self._side(self.values[:count], rate):
                return found == sign
        return False

    def half(self, rate: float = RATE) -> float:
        """Half its interval at its last look."""
        return self._half(self.values, rate)

    def needed(self, sign: int, rate: float) -> float:
        """The number of seeds at which a last look would find it on a side, or infinity."""
        from scipy.special import bdtr

        share = rate / len(self.looks.counts)
        if self.on(sign, rate):
            return len(self.values)
        if len(self.values) == 0 or (not self.signed and sign * self.mean <= 0):
            return math.inf
        if not self.signed:
            few = len(self.values) < 2
            return math.inf if few else seeds_to_decide(self.mean, self.values.std(ddof=1), share)
        n = np.arange(2, MOST_SEEDS + 1)
        there = np.floor(n * float(np.mean(sign * self.values >= 0)) + ROUNDING)
        enough = n[bdtr(n - there, n, 0.5) <= share]
        return float(enough[0]) if len(enough) else math.inf

    @property
    def hopeless(self) -> bool:
        """Whether it gives up: from the second look on."""
        from scipy.special import ndtri

        counts, n = self.looks.counts, len(self.values)
        if len(counts) < 2 or n < counts[1] or self.signed or not self.mean:
            return False
        z = float(ndtri(1 - RATE / len(counts)))
        wanted = (z * float(self.values.std(ddof=1)) / self.mean) ** 2
        return wanted > HOPELESS * counts[-1]

    def margins(self) -> Iterator["Margin"]:
        """Itself."""
        yield self

    def _center(self, values: Array) -> float:
        found = float(np.median(values) if self.median else values.mean())
        return 0.0 if abs(found) <= ROUNDING * self.scale else found

    def _half(self, values: Array, rate: float) -> float:
        from scipy.special import stdtrit

        n = len(values)
        if n < 2 or not np.isfinite(values).all():
            return math.nan
        deviation = float(values.std(ddof=1))
        if deviation <= ROUNDING * max(self.scale, abs(float(values.mean()))):
            deviation = 0.0
        if n < self.looks.counts[-1] and len(self.looks.counts) > 1:
            deviation = max(deviation, FLOOR * self.scale)
        t = float(stdtrit(n - 1, 1 - rate / len(self.looks.counts)))
        return t * deviation / math.sqrt(n)

    def _side(self, values: Array, rate: float) -> int:
        n = len(values)
        if n == 0:
            return 0
        center = self._center(values)
        sign = 1 if center >= 0 else -1
        if self.certain or (np.isinf(values).all() and abs(np.sign(values).sum()) == n):
            return sign
        if self.median or not np.isfinite(values).all():
            from scipy.special import bdtr

            inside = int(np.count_nonzero(values >= 0))
            share = rate / len(self.looks.counts)
            return int(bdtr(n - inside, n, 0.5) <= share) - int(bdtr(inside, n, 0.5) <= share)
        if n == 1:
            return 0
        half = self._half(values, rate)
        return sign if abs(center) > half or half == 0 else 0


@dataclass(frozen=True, eq=False)
class Parts:
    """Margins of which `enough` have to be inside: all of them, or any."""

    parts: Sequence["Margin | Parts"]
    enough: int
    exclusive: bool = False
    """Whether only one part can be outside, as of the sides of a band."""

    @classmethod
    def all(cls, parts: Sequence["Margin | Parts"], exclusive: bool = False) -> "Parts":
        """Every part has to be inside."""
        return cls(parts, len(parts), exclusive)

    def _asked(self, sign: int, rate: float) -> tuple[int, float]:
        """How many parts have to be on a side, and the rate of each."""
        n = len(self.parts)
        wanted = self.enough if sign > 0 else n - self.enough + 1
        return wanted, rate if self.exclusive else rate / (n - wanted + 1)

    def on(self, sign: int, rate: float) -> bool:
        """Whether it is inside (1) or outside (-1)."""
        wanted, share = self._asked(sign, rate)
        return sum(part.on(sign, share) for part in self.parts) >= wanted

    def needed(self, sign: int, rate: float) -> float:
        """The number of seeds at which a last look would find it on a side, or infinity."""
        wanted, share = self._asked(sign, rate)
        return sorted(part.needed(sign, share) for part in self.parts)[wanted - 1]

    def margins(self) -> Iterator[Margin]:
        """All margins."""
        for part in self.parts:
            yield from part.margins()


HOLDS, FAILS, UNDECIDED = "holds", "fails", "undecided"


def decided(whole: Margin | Parts, rate: float = RATE) -> str:
    """The verdict on margins.

    >>> decided(Margin(np.array([1.0, 1.2, 0.9]), Looks.one(3)))
    'holds'
    """
    return HOLDS if whole.on(1, rate) else FAILS if whole.on(-1, rate) else UNDECIDED


def would_decide(whole: Margin | Parts, rate: float = RATE) -> float:
    """The number of seeds that would decide the same means and deviations, or infinity."""
    return min(whole.needed(1, rate), whole.needed(-1, rate))


def undecided_in_words(whole: Margin | Parts, rate: float = RATE) -> str:
    """How many seeds there are, and how many would decide."""
    n = min((len(one.values) for one in whole.margins() if not one.certain), default=0)
    needed = would_decide(whole, rate)
    would = f"about {needed:.0f}" if needed <= MOST_SEEDS else f"more than {MOST_SEEDS}"
    return f"{n} seed{'s do' if n != 1 else ' does'} not decide, {would} would"
