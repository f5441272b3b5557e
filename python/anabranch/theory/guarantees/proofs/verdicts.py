"""The verdict on each requirement of a rule: proved, refuted by numbers, or unknown."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from anabranch.formats import csv_table
from anabranch.runner import Progress
from anabranch.scenario import ScenarioError, rules
from anabranch.theory.guarantees.proofs.cases import (
    Piece,
    ProvedRule,
    TooManyCases,
    pieces,
    reached,
)
from anabranch.theory.guarantees.proofs.confirm import Confirmation, State, confirmed, state_at
from anabranch.theory.guarantees.proofs.formula import Formula, formula
from anabranch.theory.guarantees.proofs.queries import (
    REQUIREMENTS,
    Query,
    Undecidable,
    defined,
    stationary,
)
from anabranch.theory.guarantees.proofs.solvers import (
    SATISFIABLE,
    UNKNOWN,
    UNSATISFIABLE,
    Answer,
    decide,
)
from anabranch.theory.guarantees.proofs.symbol import Atom, Variables

PROVED, REFUTED = "proved", "refuted"

FIRST_S = 0.5
"""Time of a first round over all formulas, s: most are decided at once, and refutations first."""

TIMEOUT_S = 10.0
"""Time for each solver and formula, s."""

AT_ALL_STATES = ("A", "1/w")
"""Requirements of all states; the others are of those where every phi is positive."""

FORMULAS_LONG = 10
"""Formulas that may take all of their time before a verdict is given up."""


@dataclass(frozen=True)
class Verdict:
    """The verdict on one requirement for one number of paths."""

    requirement: str
    paths: int
    equal_rtts: bool
    result: str
    """"proved", "refuted" or "unknown"."""
    formulas: int
    """Formulas decided, or undecided."""
    seconds: float
    alone: Mapping[str, int] = field(default_factory=dict)
    """Formulas that only this solver has decided."""
    why: str = ""
    """The violation, or why there is no verdict."""
    state: State | None = None
    """Rational numbers at which the requirement is violated."""
    confirmation: Confirmation | None = None
    """The same state in the numerical model."""

    @property
    def setting(self) -> str:
        """Paths and RTTs, in words."""
        return setting(self.paths, self.equal_rtts)

    def as_dict(self) -> dict[str, Any]:
        return {
            "requirement": self.requirement,
            "paths": self.paths,
            "rtts": "equal" if self.equal_rtts else "any",
            "result": self.result,
            "formulas": self.formulas,
            "seconds": round(self.seconds, 2),
            "decided_by_one_solver": dict(self.alone),
            "why": self.why,
            "state": self.state.as_dict() if self.state else None,
            "confirmation": self.confirmation.as_dict() if self.confirmation else None,
        }


@dataclass(frozen=True)
class Proofs:
    """The verdicts on one rule."""

    rule: str
    timeout_s: float
    verdicts: Sequence[Verdict]
    cases: Mapping[str, int]
    """Cases of the rule's comparisons, by setting."""
    note: str = ""
    """Why there are no verdicts."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "rule": self.rule,
            "timeout_s": self.timeout_s,
            "cases": dict(self.cases),
            "verdicts": [one.as_dict() for one in self.verdicts],
            "note": self.note,
        }


def setting(paths: int, equal_rtts: bool) -> str:
    """Paths and RTTs, in words."""
    return f"{paths} paths, {'equal' if equal_rtts else 'any'} RTTs"


def prove(
    text: str,
    paths: Sequence[int] = (2, 3),
    rtts: Sequence[bool] = (True, False),
    requirements: Sequence[str] = tuple(REQUIREMENTS),
    timeout_s: float = TIMEOUT_S,
    progress: Progress | None = None,
) -> Proofs:
    """Decide each requirement of a rule, for each number of paths, at equal RTTs and at any.

    `rtts`: True for equal ones. Raises `ScenarioError` for an unknown rule, and for one that is no
    function of rates and RTTs.
    """
    rule = ProvedRule.of(text)
    found: list[Verdict] = []
    cases: dict[str, int] = {}
    total = len(paths) * len(rtts) * len(requirements)
    for n in paths:
        for equal in rtts:
            own: Sequence[Piece] = []
            reason = ""
            try:
                own = pieces(rule, n, equal)
            except TooManyCases as many:
                reason = str(many)
            cases[setting(n, equal)] = len(own)
            for name in requirements:
                if progress:
                    progress(len(found) / total)
                if reason:
                    found.append(Verdict(name, n, equal, UNKNOWN, 0, 0.0, why=reason))
                else:
                    found.append(_verdict(rule, own, name, timeout_s))
    return Proofs(rule.name, timeout_s, found, cases)


def _verdict(rule: ProvedRule, own: Sequence[Piece], name: str, timeout_s: float) -> Verdict:
    start = time.monotonic()
    variables = own[0].variables

    def verdict(result: str, formulas: int, **more: Any) -> Verdict:
        seconds = time.monotonic() - start
        return Verdict(
            name, variables.paths, variables.equal_rtts, result, formulas, seconds, **more
        )

    queries: list[Query] = []
    undecidable = ""
    if name != "A":
        if not defined(own):
            undecidable = "at some states the rule divides by 0"
        elif name != "1/w" and not all(one.has_phi for one in own):
            undecidable = "in a case a decrease is 0, so that phi does not exist"
        own = [one for one in own if (not one.divides_by_0 if name == "1/w" else one.has_phi)]
    if name not in AT_ALL_STATES and not undecidable and not stationary(own):
        undecidable = "phi is positive on all paths at no state, and it requires nothing of others"
    try:
        for query in REQUIREMENTS[name][1](own):
            queries.append(query)  # those before the exception are kept
    except Undecidable as reason:
        undecidable = str(reason)
    alone: dict[str, int] = {}
    left = queries
    for limit in (min(FIRST_S, timeout_s), timeout_s):
        later = []
        for number, query in enumerate(left):
            if time.monotonic() - start > FORMULAS_LONG * timeout_s:
                later += left[number:]
                break
            nearby = formula(query.closed)
            answer = decide(nearby, limit)
            if answer.result == UNSATISFIABLE:
                for solver in answer.only:
                    alone[solver] = alone.get(solver, 0) + 1
                continue
            if answer.result == SATISFIABLE and (
                state := _state(query, variables, limit, nearby, answer)
            ):
                return verdict(
                    REFUTED,
                    len(queries),
                    why=query.says,
                    state=state,
                    confirmation=confirmed(rule, name, state, query.jump),
                )
            later.append(query)
            if limit == timeout_s:
                later += left[number + 1 :]
                break
        left = later
    if left:
        spent = f"{time.monotonic() - start:.0f} s, {timeout_s:g} s for each formula"
        why = f"after {spent}, {len(left)} of {len(queries)} are open, as whether {left[0].says}"
        return verdict(UNKNOWN, len(queries), why=why, alone=alone)
    if undecidable:
        return verdict(UNKNOWN, len(queries), why=undecidable, alone=alone)
    return verdict(PROVED, len(queries), alone=alone)


def _state(
    query: Query, variables: Variables, limit: float, nearby: Formula, answer: Answer
) -> State | None:
    """Rational numbers that violate a requirement: in the interior of a case, or on a boundary
    that it reaches."""
    if query.inner is not None:
        inner = formula(query.inner)
        found = decide(inner, limit)
        if found.result == SATISFIABLE and (
            state := _state_at(query, query.inner, variables, inner, found)
        ):
            return state
    if not query.near:
        return None
    state = _state_at(query, query.closed, variables, nearby, answer)
    if state is None or not all(reached(one.case, one.region, state.at) for one in query.near):
        return None
    return state


def _state_at(
    query: Query, atoms: Sequence[Atom], variables: Variables, solved: Formula, answer: Answer
) -> State | None:
    if answer.solution is None and solved.variables:
        return None
    solution: dict[str, Fraction | int] = {**solved.ones, **(answer.solution or {})}
    return state_at(variables, atoms, solution, query.unitless)


# The verdicts on all rules, and their record.


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
