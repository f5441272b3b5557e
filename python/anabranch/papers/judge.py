"""Judging a paper's claims: each check of its `claims.toml`, on the numbers of a reproduction."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from anabranch.papers.claims import CHECKS, Missing, Numbers
from anabranch.scenario import ScenarioError


class Verdict(StrEnum):
    """What became of a claim."""

    HOLDS = "holds"
    FAILS = "fails"
    NOT_REPRODUCED = "not reproduced"
    """It fails, and `claims.toml` gives the reason that was found."""
    NOT_COMPARABLE = "not comparable"
    """A number it needs was not measured or not printed."""
    READER = "for a reader"
    """No check decides it."""


@dataclass(frozen=True)
class Judgement:
    """A verdict and the numbers behind it, in one line."""

    verdict: Verdict
    because: str


@dataclass(frozen=True)
class Claim:
    """A claim of the paper and what became of it."""

    id: str
    text: str
    band: str
    """Why the check is as wide as it is."""
    verdict: Verdict
    because: str
    """The numbers that decided."""
    reason: str = ""
    """Why it is not reproduced, found by experiment."""


def judge_claim(entry: Mapping[str, Any], numbers: Numbers) -> Claim:
    """Judge one entry of a `claims.toml`; a failure with a known reason is not reproduced.

    Raises `ScenarioError` when its check is wrong.
    """
    judgement = judge(entry["check"], numbers)
    verdict, reason = judgement.verdict, entry.get("not_reproduced", "")
    if verdict is Verdict.FAILS and reason:
        verdict = Verdict.NOT_REPRODUCED
    elif reason:
        reason = f"Marked as not reproduced, which these runs do not show: {reason}"
    return Claim(
        entry["id"], entry["text"], entry.get("band", ""), verdict, judgement.because, reason
    )


def judge(check: Mapping[str, Any], numbers: Numbers) -> Judgement:
    """Judge one `check = { type = ..., ... }`.

    Raises `ScenarioError` when the check itself is wrong: an unknown type or argument.
    """
    kind, arguments = check.get("type"), {k: v for k, v in check.items() if k != "type"}
    if kind == "text":
        return Judgement(Verdict.READER, arguments.get("note", ""))
    if kind not in CHECKS:
        raise ScenarioError(f"unknown check {kind!r}: expected text or one of {', '.join(CHECKS)}")
    try:
        holds, because = CHECKS[kind](numbers, **arguments)
    except Missing as missing:
        return Judgement(Verdict.NOT_COMPARABLE, str(missing))
    except TypeError as error:
        raise ScenarioError(f"check {kind}: {error}") from error
    return Judgement(Verdict.HOLDS if holds else Verdict.FAILS, because)
