"""The verdicts on all rules, and their tables for a page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from anabranch.runner import Progress
from anabranch.scenario import ScenarioError, rules
from anabranch.theory.guarantees.proofs.queries import REQUIREMENTS
from anabranch.theory.guarantees.proofs.verdicts import (
    PROVED,
    REFUTED,
    TIMEOUT_S,
    Proofs,
    Verdict,
    prove,
)

VARIANTS = {"balia": ["balia:cap=inf"]}
"""Specifications that are judged beside a rule with its defaults."""


@dataclass(frozen=True)
class Survey:
    """The verdicts on many rules."""

    rules: list[Proofs]

    def as_dict(self) -> dict[str, Any]:
        return {"rules": [one.as_dict() for one in self.rules]}


def prove_all(
    paths: Sequence[int] = (2, 3),
    rtts: Sequence[bool] = (True, False),
    requirements: Sequence[str] = tuple(REQUIREMENTS),
    timeout_s: float = TIMEOUT_S,
    progress: Progress | None = None,
) -> Survey:
    """Every rule of the table, and `VARIANTS`; those without a phi with the reason."""
    specs = [spec for rule in rules() for spec in [rule["name"], *VARIANTS.get(rule["name"], [])]]
    found = []
    for i, spec in enumerate(specs):
        if progress:
            progress(i / len(specs))
        try:
            found.append(prove(spec, paths, rtts, requirements, timeout_s))
        except ScenarioError as reason:
            note = str(reason).partition(" ")[2]
            found.append(Proofs(spec, timeout_s, [], {}, note))
    return Survey(found)


def markdown(found: Survey) -> Iterator[str]:
    """A table for equal and one for any RTTs, counts, and a refutation for each that there is."""
    judged = [one for one in found.rules if one.verdicts]
    for equal in (True, False):
        own = [one for one in judged if any(v.equal_rtts == equal for v in one.verdicts)]
        if not own:
            continue
        names = list(dict.fromkeys(v.requirement for v in own[0].verdicts))
        yield f"| {'equal' if equal else 'any'} RTTs | {' | '.join(names)} | s |"
        yield "|---" * (len(names) + 2) + "|"
        for one in own:
            here = [v for v in one.verdicts if v.equal_rtts == equal]
            cells = [_cell([v for v in here if v.requirement == name]) for name in names]
            seconds = sum(v.seconds for v in here)
            yield f"| `{one.rule}` | {' | '.join(cells)} | {seconds:.1f} |"
        yield ""
    verdicts = [v for one in judged for v in one.verdicts]
    counts = {name: sum(v.result == name for v in verdicts) for name in (PROVED, REFUTED)}
    alone = sum(bool(v.alone) for v in verdicts if v.result == PROVED)
    unknown = len(verdicts) - sum(counts.values())
    yield (
        f"{len(verdicts)} verdicts: {counts[PROVED]} proved, in {alone} of which at least one "
        f"formula was decided by one solver only; {counts[REFUTED]} refuted, "
        f"{sum(bool(v.confirmation and v.confirmation.seen) for v in verdicts)} of them confirmed "
        f"numerically; {unknown} unknown."
    )
    yield ""
    for one in judged:
        for verdict in _first(one, REFUTED):
            words = verdict.confirmation.words if verdict.confirmation else ""
            yield (
                f"- `{one.rule}` {verdict.requirement}, {verdict.setting}: {verdict.state}. {words}"
            )
    for one in judged:
        for verdict in _first(one, "unknown"):
            yield f"- `{one.rule}` {verdict.requirement}, {verdict.setting}: {verdict.why}"


def _first(one: Proofs, result: str) -> list[Verdict]:
    """The first verdict of this kind on each requirement."""
    found: dict[str, Verdict] = {}
    for verdict in one.verdicts:
        if verdict.result == result:
            found.setdefault(verdict.requirement, verdict)
    return list(found.values())


def _cell(verdicts: Sequence[Verdict]) -> str:
    """One word where all numbers of paths have the same result."""
    shown = {PROVED: "proved", REFUTED: "**refuted**"}
    results = [shown.get(v.result, "?") for v in verdicts]
    if len(set(results)) == 1:
        return results[0]
    return ", ".join(f"{v.paths}: {word}" for v, word in zip(verdicts, results, strict=True))
