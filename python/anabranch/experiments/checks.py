"""Items that are no runs: proofs of requirements, and operations per decision."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from anabranch import _core
from anabranch.experiments.decision import FAILS, HOLDS
from anabranch.experiments.numbers import NOT_TESTED, Answer
from anabranch.experiments.subject import Subject
from anabranch.experiments.suite import Item
from anabranch.rule import State, in_file, made
from anabranch.scenario import ScenarioError

SOLVERS = ("z3", "cvc5", "sympy")
"""Modules of the extra `prove`."""
PATHS = 8
"""Paths of the connection whose operations are counted."""


def proofs(subject: Subject, items: Mapping[str, Item], quick: bool) -> list[Answer]:
    """The verdicts of `theory prove` on the requirements of these items.

    `quick`: two paths at equal RTTs, 2 s for a formula; else two and three paths, any RTTs, too.
    """

    def answer(name: str, result: str, says: str, state: str = "") -> Answer:
        return Answer(name, items[name], subject.name, result, says, state=state)

    def untested(why: str) -> list[Answer]:
        return [answer(name, NOT_TESTED, why) for name in items]

    missing = [name for name in SOLVERS if find_spec(name) is None]
    if missing:
        return untested(f'needs {", ".join(missing)}: pip install "anabranch[prove]"')
    from anabranch.theory.guarantees.proofs import verdicts

    wanted = {name: item.requirement or name for name, item in items.items()}
    paths, rtts, limit = ((2,), (True,), 2.0) if quick else ((2, 3), (True, False), 10.0)
    try:
        how = (paths, rtts, list(wanted.values()), limit)
        found = verdicts.prove(subject.text, *how).verdicts
    except ScenarioError as reason:  # also where the rule is no formula, as with a table of numbers
        return untested(str(reason))
    answers = []
    for name in items:
        own = [one for one in found if one.requirement == wanted[name]]
        refuted = [one for one in own if one.result == "refuted"]
        unknown = [one for one in own if one.result not in ("proved", "refuted")]
        settings = " and ".join(dict.fromkeys(one.setting for one in own))
        for one in refuted[:1]:
            says = f"refuted for {one.setting}: {one.why}"
            answers.append(answer(name, FAILS, says, str(one.state)))
        for one in [] if refuted else unknown[:1]:
            answers.append(answer(name, NOT_TESTED, f"undecided for {one.setting}: {one.why}"))
        if not refuted and not unknown:
            answers.append(answer(name, HOLDS, f"proved for {settings}"))
    return answers


@dataclass
class Counted:
    """A number that counts the operations on it and on what comes of it."""

    value: float
    count: list[int]
    """The number of operations, shared by all."""

    def __float__(self) -> float:
        return self.value


def _counting(operation: Callable[..., Any]) -> Callable[..., Any]:
    """A method of `Counted` that counts itself; a comparison's answer is the plain one."""

    def method(*operands: Counted | float) -> Any:
        count = next(one.count for one in operands if isinstance(one, Counted))
        count[0] += 1
        found = operation(*map(float, operands))
        return found if isinstance(found, bool) else Counted(found, count)

    return method


for _name in ("add", "sub", "mul", "truediv", "pow", "neg", "lt", "le", "gt", "ge", "eq"):
    setattr(Counted, f"__{_name}__", _counting(getattr(operator, _name)))
for _name in ("add", "sub", "mul", "truediv"):
    _swapped = getattr(operator, _name)
    setattr(Counted, f"__r{_name}__", _counting(lambda a, b, of=_swapped: of(b, a)))


@dataclass
class CountedPath:
    """A path whose state counts operations."""

    count: list[int]
    number: int

    def __getattr__(self, name: str) -> Any:
        state = State(10.0 + self.number, 0.1, 0.09, 50, 80, 100, 14, 14, 8, 1.0)
        found = getattr(state, name)
        if name == "rate":
            self.count[0] += 1
        return Counted(float(found), self.count)


def operations(subject: Subject, name: str, item: Item) -> Answer:
    """Arithmetic operations and comparisons of one increase and one decrease, of 8 paths."""
    count = [0]
    paths: Any = [CountedPath(count, number) for number in range(PATHS)]
    place = in_file(subject.text)
    try:
        if place is not None:
            rule = made(*place)
            for r in range(PATHS):
                rule.increase(r, paths)
                rule.decrease(r, paths)
        else:
            law = _core.Law(subject.text)
            if law.delay_based:
                why = "acts once per round trip, not per packet: it has no increase to count"
                return Answer(name, item, subject.name, NOT_TESTED, f"{law.name} {why}")
            law.evaluate_in(paths)
    except Exception as error:
        why = f"the rule cannot be counted: {type(error).__name__}: {error}"
        return Answer(name, item, subject.name, NOT_TESTED, why)
    assert item.at_most is not None
    each = count[0] / PATHS
    result, sign = (HOLDS, "<=") if each <= item.at_most else (FAILS, ">")
    says = f"{each:.0f} {sign} {item.at_most:g} operations for a decision with {PATHS} paths"
    return Answer(name, item, subject.name, result, says)
