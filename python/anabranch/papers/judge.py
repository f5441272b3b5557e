"""Judge a paper's claims: apply the checks of its `claims.toml` to the numbers measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from anabranch.intervals import MOST_SEEDS
from anabranch.papers.entries.checks import ByHand, ByStatement, Check, Missing, Numbers
from anabranch.papers.entries.claims import Stated
from anabranch.papers.intervals import Decision, Spread
from anabranch.scenario import ScenarioError
from anabranch.statements.statement import WORDS, Statement


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
