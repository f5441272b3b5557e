"""Judge a paper's claims: apply the checks of its `claims.toml` to the numbers measured."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from anabranch.intervals import MOST_SEEDS, seeds_to_decide
from anabranch.papers.entries.checks import (
    ByHand,
    ByStatement,
    Check,
    Comparison,
    Missing,
    Number,
    Numbers,
)
from anabranch.papers.entries.claims import Stated
from anabranch.scenario import ScenarioError
from anabranch.statements.statement import WORDS, Statement

# Whether the seeds decide a check: the interval of each of its margins, and how many would do.
#
# The standard error of a margin says how far other seeds would move it. For means it is the
# jackknife's, from the margins of the averages without each seed in turn. For medians, for which
# the jackknife is not consistent, it is the bootstrap's, from the margins of the medians of seeds
# drawn with replacement. Cases with the same seeds are averaged over the same sets of seeds: the
# effect of a seed on both cancels.


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


class Verdict(StrEnum):
    """The outcome of a claim."""

    HOLDS = "holds"
    UNDECIDED = "undecided"
    """The 95 % interval over the seeds of what the check compares crosses the band's edge."""
    FAILS = "fails"
    NOT_REPRODUCED = "not reproduced"
    """The check fails, and `claims.toml` gives the reason."""
    NOT_COMPARABLE = "not comparable"
    """A number that the check needs was not measured or not printed."""
    HUMAN = "needs human judgement"
    """The claim has no numerical check."""


@dataclass(frozen=True)
class Judgement:
    """A verdict and the numbers behind it, in one line."""

    verdict: Verdict
    because: str
    """The numbers compared; for a claim without a check, its note."""
    seeds_to_decide: float | None = None
    """If undecided: the number of seeds that would decide, infinity for more than 1000."""


@dataclass(frozen=True)
class Claim:
    """A claim of the paper with its verdict."""

    id: str
    text: str
    band: str
    """The reason for the width of the check's band."""
    verdict: Verdict
    because: str
    """The numbers compared."""
    reason: str = ""
    """Why the claim is not reproduced, found by experiment."""
    own: bool = False
    """Whether the claim is ours and not the paper's."""
    rests_on: Sequence[str] = ()
    """The choices, made after results were seen, without which the verdict would be another."""
    seeds_to_decide: float | None = None
    """If undecided: the number of seeds that would decide, infinity for more than 1000."""


def judge_claim(
    stated: Stated,
    numbers: Numbers,
    statements: Sequence[Statement] = (),
    spread: Spread | None = None,
) -> Claim:
    """Judge a claim of a `claims.toml`; a failure with a known reason is "not reproduced".

    `statements`: the paper's, tested by calculation. `spread`: how the numbers vary with the seed;
    without it no claim is undecided. Raises `ScenarioError` for a statement that does not exist.
    """
    judgement = judge(stated.check, numbers, statements, spread)
    verdict, reason = judgement.verdict, stated.not_reproduced
    if verdict is Verdict.FAILS and reason:
        verdict = Verdict.NOT_REPRODUCED
    elif reason and verdict is not Verdict.UNDECIDED:
        reason = f"Marked as not reproduced, but these runs do not show that: {reason}"
    return Claim(
        id=stated.id,
        text=stated.text,
        band=stated.band,
        verdict=verdict,
        because=judgement.because,
        reason=reason,
        own=stated.own,
        rests_on=stated.rests_on,
        seeds_to_decide=judgement.seeds_to_decide,
    )


def judge(
    check: Check,
    numbers: Numbers,
    statements: Sequence[Statement] = (),
    spread: Spread | None = None,
) -> Judgement:
    """Judge one check; the arguments are those of `judge_claim`."""
    if isinstance(check, ByHand):
        return Judgement(Verdict.HUMAN, check.note)
    if isinstance(check, ByStatement):
        return _by_statement(check.place, statements)
    try:
        decision = (spread or Spread.none()).decide(check, numbers)
        because = check.because(numbers)
    except Missing as missing:
        return Judgement(Verdict.NOT_COMPARABLE, str(missing))
    if decision.undecided:
        return Judgement(Verdict.UNDECIDED, *_undecided(because, decision))
    return Judgement(Verdict.HOLDS if decision.holds else Verdict.FAILS, because)


def _undecided(because: str, decision: Decision) -> tuple[str, float]:
    """The numbers compared, with the seeds that would decide."""
    needed = decision.seeds_to_decide()
    would = f"about {needed:.0f}" if needed <= MOST_SEEDS else f"more than {MOST_SEEDS}"
    crosses = f"the 95 % interval over {decision.seeds} seeds crosses the edge"
    return f"{because}; {crosses}, {would} would decide", needed


def _by_statement(place: str, statements: Sequence[Statement]) -> Judgement:
    """The verdict of the one statement at this place."""
    if not statements:
        return Judgement(Verdict.NOT_COMPARABLE, "statements were not tested")
    found = [one for one in statements if one.place == place]
    if len(found) != 1:
        places = ", ".join(repr(one.place) for one in statements) or "none"
        raise ScenarioError(f"check statement: place = {place!r}: expected one of {places}")
    (one,) = found
    if one.verdict == WORDS:
        return Judgement(Verdict.HUMAN, one.found)
    return Judgement(Verdict.HOLDS if one.holds else Verdict.FAILS, one.found)
