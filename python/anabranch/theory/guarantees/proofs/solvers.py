"""Two solvers of formulas over the reals, z3 and cvc5, which check each other.

Each is a process, which is killed where it does not keep to its time.
"""

import atexit
import json
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from anabranch.theory.guarantees.proofs.formula import Formula

SATISFIABLE, UNSATISFIABLE, UNKNOWN = "sat", "unsat", "unknown"

SOLVERS = ("z3", "cvc5")

START_S, GRACE_S = 20.0, 0.5
"""Time for a process to become ready, and beyond the time limit before it is killed."""


class Disagreement(AssertionError):
    """One solver has a solution of a formula, the other refutes it."""


@dataclass(frozen=True)
class Answer:
    """Answer of the solvers to one formula."""

    by: Mapping[str, str]
    """The result of each solver."""
    solution: Mapping[str, Fraction] | None
    """Numbers near a solution of z3's; rational where the solution is."""

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
    """Ask both at once, each for at most this time. Raises `Disagreement`."""
    if formula.never:
        return Answer(dict.fromkeys(SOLVERS, UNSATISFIABLE), None)
    text = formula.smt()
    asked = {name: _running(name) for name in SOLVERS}
    for process in asked.values():
        process.ask(text, formula.variables, timeout_s)
    found = {name: process.answer() for name, process in asked.items()}
    by = {name: str(one["result"]) for name, one in found.items()}
    by = {name: one if one in (SATISFIABLE, UNSATISFIABLE) else UNKNOWN for name, one in by.items()}
    if set(by.values()) >= {SATISFIABLE, UNSATISFIABLE}:
        raise Disagreement(f"z3: {by['z3']}, cvc5: {by['cvc5']}\n{text}")
    numbers = found["z3"]["solution"]
    solution = numbers and {n: Fraction(int(v[0]), int(v[1])) for n, v in numbers.items()}
    return Answer(by, solution)


class _Process:
    """A solver that waits for formulas."""

    def __init__(self, name: str) -> None:
        worker = str(Path(__file__).with_name("worker.py"))
        # -P: modules beside the worker are not for it.
        self._process = subprocess.Popen(
            [sys.executable, "-P", worker, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._until = time.monotonic() + START_S
        if self._line() is None:
            raise RuntimeError(f"{name} does not start")

    def ask(self, text: str, variables: list[str], timeout_s: float) -> None:
        """Send a formula."""
        asked = {"text": text, "variables": variables, "timeout_ms": max(1, int(1e3 * timeout_s))}
        assert self._process.stdin
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        self._until = time.monotonic() + timeout_s + GRACE_S

    def answer(self) -> dict[str, Any]:
        """Wait for the answer; without one in time the process ends."""
        return self._line() or {"result": UNKNOWN, "solution": None}

    def _line(self) -> dict[str, Any] | None:
        assert self._process.stdout
        left = max(0.0, self._until - time.monotonic())
        if select.select([self._process.stdout], [], [], left)[0]:
            line = self._process.stdout.readline()
            if line:
                return dict(json.loads(line))
        self.end()
        return None

    def end(self) -> None:
        """Kill the process."""
        self._process.kill()
        with self._process:
            pass
        _PROCESSES.pop(next((n for n, p in _PROCESSES.items() if p is self), ""), None)


_PROCESSES: dict[str, _Process] = {}


def _running(name: str) -> _Process:
    if name not in _PROCESSES:
        _PROCESSES[name] = _Process(name)
    return _PROCESSES[name]


@atexit.register
def _end_all() -> None:
    for process in list(_PROCESSES.values()):
        process.end()
