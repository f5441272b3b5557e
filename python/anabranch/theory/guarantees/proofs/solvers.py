"""Two solvers of formulas over the reals, z3 and cvc5, which check each other."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import cvc5
import z3

from anabranch.theory.guarantees.proofs.formula import Formula

SATISFIABLE, UNSATISFIABLE, UNKNOWN = "sat", "unsat", "unknown"


class Disagreement(AssertionError):
    """One solver has a solution of a formula, the other refutes it."""


@dataclass(frozen=True)
class Answer:
    """What the solvers say of one formula."""

    by: Mapping[str, str]
    """The result of each solver."""
    solution: Mapping[str, Fraction] | None
    """Numbers near a solution of z3's; rational where the solution is."""
    seconds: float

    @property
    def result(self) -> str:
        """The result of the two together."""
        found = set(self.by.values()) - {UNKNOWN}
        return found.pop() if found else UNKNOWN

    @property
    def only(self) -> list[str]:
        """The solver that alone has decided."""
        deciding = [name for name, result in self.by.items() if result != UNKNOWN]
        return deciding if len(deciding) < len(self.by) else []


def decide(formula: Formula, timeout_s: float) -> Answer:
    """Ask both, each for at most this time. Raises `Disagreement`."""
    start = time.monotonic()
    if formula.never:
        return Answer({"z3": UNSATISFIABLE, "cvc5": UNSATISFIABLE}, None, 0.0)
    text = formula.smt()
    first, solution = _z3(text, formula.variables, timeout_s)
    by = {"z3": first, "cvc5": _cvc5(text, timeout_s)}
    if set(by.values()) >= {SATISFIABLE, UNSATISFIABLE}:
        raise Disagreement(f"z3: {by['z3']}, cvc5: {by['cvc5']}\n{text}")
    return Answer(by, solution, time.monotonic() - start)


def _z3(
    text: str, variables: list[str], timeout_s: float
) -> tuple[str, Mapping[str, Fraction] | None]:
    solver = z3.SolverFor("QF_NRA")
    solver.set("timeout", max(1, round(1000 * timeout_s)))
    solver.from_string(text)
    result = str(solver.check())
    if result != SATISFIABLE:
        return result, None
    model = solver.model()
    return result, {name: _fraction(model.eval(z3.Real(name), True)) for name in variables}


def _fraction(number: z3.ExprRef) -> Fraction:
    if z3.is_algebraic_value(number):
        number = number.approx(30)
    return Fraction(number.numerator_as_long(), number.denominator_as_long())


def _cvc5(text: str, timeout_s: float) -> str:
    solver = cvc5.Solver()
    solver.setOption("tlimit-per", str(max(1, round(1000 * timeout_s))))
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "formula")
    said = ""
    while not (command := parser.nextCommand()).isNull():
        said = command.invoke(solver, parser.getSymbolManager()) or said
    word = str(said).strip()
    return word if word in (SATISFIABLE, UNSATISFIABLE) else UNKNOWN
