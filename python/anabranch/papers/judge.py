"""Judge a paper's claims: apply the checks of its `claims.toml` to the numbers measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from anabranch.papers.claims import CHECKS, Missing, Numbers
from anabranch.scenario import ScenarioError
from anabranch.theory.statement import WORDS, Statement


class Verdict(StrEnum):
    """The outcome of a claim."""

    HOLDS = "holds"
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


def judge_claim(
    entry: Mapping[str, Any], numbers: Numbers, statements: Sequence[Statement] = ()
) -> Claim:
    """Judge one entry of a `claims.toml`; a failure with a known reason is "not reproduced".

    `statements`: the paper's, tested by calculation. Raises `ScenarioError` for an unknown check or
    a wrong argument of it.
    """
    judgement = judge(entry["check"], numbers, statements)
    verdict, reason = judgement.verdict, entry.get("not_reproduced", "")
    if verdict is Verdict.FAILS and reason:
        verdict = Verdict.NOT_REPRODUCED
    elif reason:
        reason = f"Marked as not reproduced, but these runs do not show that: {reason}"
    return Claim(
        id=entry["id"],
        text=entry["text"],
        band=entry.get("band", ""),
        verdict=verdict,
        because=judgement.because,
        reason=reason,
        own=entry.get("own", False),
        rests_on=entry.get("rests_on", ()),
    )


def judge(
    check: Mapping[str, Any], numbers: Numbers, statements: Sequence[Statement] = ()
) -> Judgement:
    """Judge one `check = { type = ..., ... }`.

    Raises `ScenarioError` for an unknown type and for a wrong argument.
    """
    kind, arguments = check.get("type"), {k: v for k, v in check.items() if k != "type"}
    if kind == "text":
        return Judgement(Verdict.HUMAN, arguments.get("note", ""))
    if kind == "statement":
        return _by_statement(arguments.get("place", ""), statements)
    if kind not in CHECKS:
        known = ", ".join(["statement", *CHECKS])
        raise ScenarioError(f"unknown check {kind!r}: expected text or one of {known}")
    try:
        holds, because = CHECKS[kind](numbers, **arguments)
    except Missing as missing:
        return Judgement(Verdict.NOT_COMPARABLE, str(missing))
    except TypeError as error:
        raise ScenarioError(f"check {kind}: {error}") from error
    return Judgement(Verdict.HOLDS if holds else Verdict.FAILS, because)


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
