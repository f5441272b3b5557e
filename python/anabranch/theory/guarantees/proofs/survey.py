"""The verdicts on all rules, and their record."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from anabranch.formats import csv_table
from anabranch.runner import Progress
from anabranch.scenario import ScenarioError, rules
from anabranch.theory.guarantees.proofs.queries import REQUIREMENTS
from anabranch.theory.guarantees.proofs.verdicts import (
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


def record(found: Survey) -> str:
    """A row per rule and requirement as CSV: verdicts at equal and any RTTs, a counterexample."""
    rows = []
    for one in found.rules:
        for name in dict.fromkeys(v.requirement for v in one.verdicts):
            own = [v for v in one.verdicts if v.requirement == name]
            cells = (_cell([v for v in own if v.equal_rtts == equal]) for equal in (True, False))
            rows.append([one.rule, name, *cells, _counterexample(own)])
    return csv_table(("rule", "requirement", "equal RTTs", "any RTTs", "counterexample"), rows)


def _counterexample(verdicts: Sequence[Verdict]) -> str:
    """The first refutation, with what the numerical model says at that state."""
    for verdict in verdicts:
        if verdict.result == REFUTED:
            words = verdict.confirmation.words if verdict.confirmation else ""
            return f"{verdict.setting}: {verdict.state}. {words}"
    return ""


def _cell(verdicts: Sequence[Verdict]) -> str:
    """One word where all numbers of paths have the same result."""
    results = [verdict.result for verdict in verdicts]
    if len(set(results)) <= 1:
        return "".join(results[:1])
    return ", ".join(f"{v.paths}: {v.result}" for v in verdicts)
