"""The rule that is judged: of the table, a class in a file of Python, or of a C library."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from anabranch import _core
from anabranch.experiments.decision import FAILS, HOLDS
from anabranch.experiments.numbers import Answer
from anabranch.experiments.suite import Item
from anabranch.rule import (
    Rule,
    checked,
    in_file,
    in_library,
    in_one_line,
    made,
    random_states,
    rule_of,
)
from anabranch.scenario import ScenarioError, rules

PATHS = (1, 2, 3, 8)
STATES = 60
"""Random states of each of these numbers of paths in which a rule in Python is tried."""


@dataclass(frozen=True)
class Subject:
    """A rule under judgement."""

    text: str
    """As written: a specification such as "balia:cap=inf", or FILE.py:CLASS, FILE.so:NAME."""
    name: str
    """The name in tables."""
    written: Rule | None = None
    """The object, of a rule in Python or a controller of a library."""
    file: Path | None = None
    """The file of a rule in Python."""

    @classmethod
    def of(cls, text: str, own: Collection[str] = ()) -> "Subject":
        """The rule, or one of the backend's `own`.

        Raises `ScenarioError` for an unknown algorithm, and for a file without that class.
        """
        if text in own:
            return cls(text, text)
        if library := in_library(text):
            return cls(text, library[1], rule_of(text))
        place = in_file(text)
        if place is None:
            return cls(text, _core.algorithm(text))
        return cls(text, place[1], made(*place), place[0])

    def failed(self, error: Exception) -> ScenarioError:
        """The error of a rule in Python that raised one during a run, with its place."""
        if self.file is None:
            return ScenarioError(f"{self.text}: {type(error).__name__}: {error}")
        return ScenarioError(f"{self.file}: {in_one_line(error, self.file)}")

    @property
    def endpoint(self) -> dict[str, str]:
        """Keys of a scenario that the rule needs, as it does in a network of its own.

        They are of all flows: `tcp.ecn` is of the scenario. Others act on a mark as on a loss.
        """
        named = next((row for row in rules() if row["name"] == self.name.partition(":")[0]), None)
        return {"tcp.ecn": "accurate"} if named and named["scalable"] else {}


SANE = Item(
    text="Are its answers finite, the same for the same state, and within a window?",
    section="0",
    title="A rule at all",
)


def item_zero(subject: Subject) -> Answer:
    """Whether a rule answers as one, by random states; a rule of the table has laws of its own.

    Raises `ScenarioError` where an answer is no finite number, and where the rule raises.
    """
    says, state = "a rule of the table, which has laws of its own (CONTRIBUTING.md)", ""
    result = HOLDS
    if subject.name not in {row["name"] for row in rules()} and subject.written is None:
        says = "a controller of the QUIC library"
    elif subject.written is not None and subject.file is None:
        says = "a controller of a library, whose answers are checked at each event"
    elif subject.written is not None and subject.file is not None:
        says = f"{STATES * len(PATHS)} random states of 1 to {max(PATHS)} paths, twice each"
        for odd in checked(subject.written, subject.file, random_states(PATHS, STATES))[:1]:
            says, state, result = f"{odd.method} {odd.says}", odd.state, FAILS
    return Answer("sane", SANE, subject.name, result, says, state=state)
