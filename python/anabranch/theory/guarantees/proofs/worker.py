"""A solver as a process of its own: z3 or cvc5, the argument. It imports nothing of Anabranch.

It prints `{}` when it is ready. It reads a JSON document per line, with the keys text (SMT-LIB),
variables and timeout_ms, and answers with `{"result": "sat", "solution": {"x1": ["1", "3"]}}`, a
number as numerator and denominator.
"""

import json
import sys
from typing import Any


def z3_answer(text: str, variables: list[str], timeout_ms: int) -> dict[str, Any]:
    """z3's result, and numbers near its solution."""
    import z3

    solver = z3.SolverFor("QF_NRA")
    solver.set("timeout", timeout_ms)
    solver.from_string(text)
    result = str(solver.check())
    if result != "sat":
        return {"result": result, "solution": None}
    model = solver.model()
    solution = {}
    for name in variables:
        number = model.eval(z3.Real(name), True)
        if z3.is_algebraic_value(number):
            number = number.approx(30)
        solution[name] = [str(number.numerator_as_long()), str(number.denominator_as_long())]
    return {"result": result, "solution": solution}


def cvc5_answer(text: str, _variables: list[str], timeout_ms: int) -> dict[str, Any]:
    """cvc5's result."""
    import cvc5

    solver = cvc5.Solver()
    solver.setOption("tlimit-per", str(timeout_ms))
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "formula")
    said = ""
    while not (command := parser.nextCommand()).isNull():
        said = str(command.invoke(solver, parser.getSymbolManager())).strip() or said
    return {"result": said, "solution": None}


if __name__ == "__main__":
    answer = {"z3": z3_answer, "cvc5": cvc5_answer}[sys.argv[1]]
    answer("", [], 1)  # loads the solver
    print("{}", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        found = answer(asked["text"], asked["variables"], asked["timeout_ms"])
        print(json.dumps(found), flush=True)
