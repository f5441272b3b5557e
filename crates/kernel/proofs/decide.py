"""Decides claims with z3, case by case, each within a time."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import z3

from claims import A, B, Case
from terms import Path, duties, exactly, facts

PROVED, REFUTED, UNKNOWN = "proved", "refuted", "unknown"


@dataclass
class Verdict:
    """Verdict on one property of one function."""

    function: str
    property: str
    cases: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    counterexample: tuple[int, int] | None = None
    unknown: list[str] = field(default_factory=list)

    @property
    def result(self) -> str:
        """Proved if every case is."""
        if self.counterexample:
            return REFUTED
        return UNKNOWN if self.unknown else PROVED

    def as_dict(self) -> dict[str, object]:
        """For --json."""
        return {**self.__dict__, "result": self.result}


def check(
    function: str, says: str, paths: Sequence[Path], cases: Iterable[Case], timeout_s: float
) -> Verdict:
    """Whether the claim of each case holds of the result, path by path."""
    verdict = Verdict(function, says)
    for case, path in product(cases, paths):
        assert case.claim
        if path.value is None:
            continue
        claim = case.claim(path.value)
        taken = replace(case, assumed=z3.And(case.assumed, path.condition))
        if z3.is_false(z3.simplify(z3.substitute(taken.assumed, *case.replaced))):
            continue
        for part in claim.children() if z3.is_and(claim) else [claim]:
            _note(verdict, taken, part, timeout_s)
        if verdict.counterexample:
            break
    return verdict


def check_duties(
    function: str, says: str, paths: Sequence[Path], domain: z3.BoolRef, timeout_s: float
) -> Verdict:
    """Whether the duties of every instruction that a path reaches are met."""
    verdict = Verdict(function, says)
    for one in duties(paths):
        case = Case(one.says, z3.And(domain, one.condition))
        _note(verdict, case, one.holds, timeout_s)
        if verdict.counterexample:
            break
    return verdict


def _note(verdict: Verdict, case: Case, claim: z3.BoolRef, timeout_s: float) -> None:
    start = time.process_time()
    formula = z3.And(case.assumed, z3.Not(claim))
    formula = z3.simplify(z3.substitute(formula, *case.replaced))
    answer, model = _satisfiable(formula, facts(formula), timeout_s)
    if answer == z3.sat and (meaning := exactly(formula)):
        answer, model = _satisfiable(formula, [*facts(formula), *meaning], timeout_s)
    seconds = time.process_time() - start
    verdict.cases += 1
    verdict.seconds += seconds
    verdict.slowest = max(verdict.slowest, seconds)
    if answer == z3.sat:
        assert model
        a, b = (z3.simplify(z3.substitute(x, *case.replaced)) for x in (A, B))
        verdict.counterexample = tuple(model.eval(x, True).as_long() for x in (a, b))
    elif answer != z3.unsat:
        verdict.unknown.append(case.name)


def _satisfiable(
    formula: z3.BoolRef, known: list[z3.BoolRef], timeout_s: float
) -> tuple[z3.CheckSatResult, z3.ModelRef | None]:
    solver = z3.SolverFor("QF_UFBV" if known else "QF_BV")
    solver.set("timeout", int(1000 * timeout_s))
    solver.add(formula, *known)
    answer = solver.check()
    return answer, solver.model() if answer == z3.sat else None
