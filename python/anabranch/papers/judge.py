"""Judge a paper's claims: apply the checks of its `claims.toml` to the numbers measured."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import pandas as pd

from anabranch.experiments import decision
from anabranch.experiments.decision import Array, Looks, Margin, Parts
from anabranch.papers.checks import (
    ByStatement,
    Closer,
    Comparison,
    Interval,
    Known,
    Margins,
    Missing,
    Number,
    Numbers,
    needed,
)
from anabranch.papers.suite import Stated
from anabranch.scenario import ScenarioError
from anabranch.statements.statement import WORDS, Statement


@dataclass(frozen=True)
class Spread:
    """The numbers of an item that vary with the seed, by metric and case: an entry per seed.

    A case that has no number with a seed has NaN there.
    """

    numbers: Known = field(default_factory=dict)
    median: bool = False
    """Whether numbers are medians over the seeds, and not means."""

    @classmethod
    def of(cls, frame: pd.DataFrame, average: str) -> "Spread":
        """The spread of numbers with the columns `metric`, `case`, `seed` and `value`."""
        rows = frame.dropna(subset="value")
        wide = rows.pivot(index="seed", columns=["metric", "case"], values="value").sort_index()
        # A single seed says nothing about its spread; a case that has one of several is a constant.
        wide = wide.loc[:, (wide.max() > wide.min()) | (len(wide) == 1)]
        numbers: dict[str, dict[str, Number]] = {}
        for metric, case in wide.columns:
            numbers.setdefault(metric, {})[case] = wide[metric, case].to_numpy(dtype=float)
        return cls(numbers, average == "median")

    def by_seed(self, numbers: Known) -> dict[str, dict[str, Number]]:
        """An item's averages, those that vary replaced by their entries per seed."""
        return {name: {**cases, **self.numbers.get(name, {})} for name, cases in numbers.items()}

    def margins(self, check: Comparison, numbers: Known) -> Parts:
        """The margins of a check of an item's averages, over the seeds that all numbers have."""
        sets = self.by_seed(numbers)
        names = needed(check, numbers)
        found = [self.numbers[m][c] for m, c in names if c in self.numbers.get(m, {})]
        if found:
            common = ~np.isnan(np.vstack(found)).any(axis=0)
            sets = {
                metric: {c: v[common] if np.ndim(v) else v for c, v in cases.items()}  # type: ignore[index]
                for metric, cases in sets.items()
            }
        parts = check.parts(Numbers(sets))
        if found and isinstance(check, Closer) and not self.median:
            parts = _pseudo(check, sets)
        scale = max(float(np.max(np.abs(sets[metric][case]))) for metric, case in names)
        return Parts.all([Parts.all([self._margin(m, scale) for m in p], True) for p in parts])

    def _margin(self, margin: Number, scale: float) -> Margin:
        values = np.atleast_1d(np.asarray(margin, dtype=float))
        looks = Looks.one(len(values))
        return Margin(values, looks, scale, certain=np.ndim(margin) == 0, median=self.median)


def _pseudo(check: Comparison, sets: Known) -> Margins:
    """Margins that are not linear in averages: the jackknife's, per seed, around that of all.

    Their standard error is the jackknife's (Miller 1974).
    """

    def parts(left_out: bool) -> Margins:
        averaged = {m: {c: _average(v, left_out) for c, v in of.items()} for m, of in sets.items()}
        return check.parts(Numbers(averaged))

    pairs = [zip(a, b, strict=True) for a, b in zip(parts(False), parts(True), strict=True)]
    return [
        [one + (np.size(left) - 1) * (np.mean(left) - np.asarray(left)) for one, left in pair]
        for pair in pairs
    ]


def _average(values: Number, left_out: bool) -> Number:
    """The mean over the seeds; or the means without each seed in turn."""
    if np.ndim(values) == 0:
        return values
    found: Array = np.asarray(values)
    return (found.sum() - found) / (len(found) - 1) if left_out else float(found.mean())


class Verdict(StrEnum):
    """The outcome of a claim."""

    HOLDS = decision.HOLDS
    UNDECIDED = decision.UNDECIDED
    """The seeds do not tell on which side of an edge a margin is."""
    FAILS = decision.FAILS
    NOT_REPRODUCED = "not reproduced"
    """The check fails, and `claims.toml` gives the reason."""
    NOT_COMPARABLE = "not comparable"
    """A number that the check needs was not measured or not printed."""
    HUMAN = "needs human judgement"
    """The claim rests on a statement that no machine can test."""


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

    @property
    def short_reason(self) -> str:
        """The first sentence of the reason, or the claim whose reason it has."""
        end = ": " if self.reason.startswith("As ") else ". "
        return self.reason.split(end)[0].rstrip(".") + "."


def judge(
    stated: Stated,
    numbers: Known,
    statements: Sequence[Statement] = (),
    spread: Spread | None = None,
) -> Claim:
    """Judge a claim of a `claims.toml`; a failure with a known reason is "not reproduced".

    `statements`: the paper's, tested by calculation. `spread`: how the numbers vary with the seed;
    without it no claim is undecided. Raises `ScenarioError` for a statement that does not exist.
    """
    check, reason, seeds = stated.check, stated.not_reproduced, None
    if isinstance(check, ByStatement):
        verdict, because = _by_statement(check.place, statements)
    else:
        try:
            of_seeds = spread or Spread()
            margins = of_seeds.margins(check, numbers)
            shown = of_seeds.by_seed(numbers) if isinstance(check, Interval) else numbers
            verdict, because = Verdict(decision.decided(margins)), check.because(Numbers(shown))
            if verdict is Verdict.UNDECIDED:
                because += f"; {decision.undecided_in_words(margins)}"
                seeds = decision.would_decide(margins)
        except Missing as missing:
            verdict, because = Verdict.NOT_COMPARABLE, str(missing)
    if verdict is Verdict.FAILS and reason:
        verdict = Verdict.NOT_REPRODUCED
    elif reason and verdict is not Verdict.UNDECIDED:
        reason = f"Marked as not reproduced, but these runs do not show that: {reason}"
    own = (reason, stated.own, stated.rests_on, seeds)
    return Claim(stated.id, stated.text, stated.band, verdict, because, *own)


def _by_statement(place: str, statements: Sequence[Statement]) -> tuple[Verdict, str]:
    """The verdict of the one statement at this place."""
    if not statements:
        return Verdict.NOT_COMPARABLE, "statements were not tested"
    found = [one for one in statements if one.place == place]
    if len(found) != 1:
        places = ", ".join(repr(one.place) for one in statements) or "none"
        raise ScenarioError(f"check statement: place = {place!r}: expected one of {places}")
    (one,) = found
    if one.verdict == WORDS:
        return Verdict.HUMAN, one.found
    return Verdict.HOLDS if one.holds else Verdict.FAILS, one.found
