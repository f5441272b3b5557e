"""A statement of a paper, the words in which it is printed, and its class."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from anabranch.formats import csv_table

HOLDS = "holds"
"""Printed, and no counterexample found; a search is not a proof."""

WRONG = "wrong as printed"
"""Printed, and false under every assumption printed with it."""

CONDITION = "needs a condition"
"""Printed without an assumption that it needs, which `needs` names."""

MEASURED = "measured"
"""Printed, as a limit: `found` has what finite runs give, which neither proves nor refutes it."""

OURS = "not stated (ours)"
"""Not printed: a result of this project about the paper's model."""

FAILS = "fails"
"""Expected by this project, but its own calculation does not confirm it."""

WORDS = "not a statement that a machine can test"

CLASSES = (HOLDS, WRONG, CONDITION, MEASURED, OURS, FAILS, WORDS)


@dataclass(frozen=True)
class Statement:
    """A statement of a paper, paraphrased, or one of ours about its model."""

    place: str
    """Where the paper states it, or what it is about."""
    says: str
    verdict: str
    """Class of the statement, one of `CLASSES`."""
    found: str
    """The evidence, or why there is no test."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """The numbers in `found` that decide, by name."""
    printed: str = ""
    """The printed words, with formulas as in the source's LaTeX and "..." for words left out; empty
    for a statement of ours, unless they are what it is about."""
    needs: str = ""
    """The assumption that is not printed, of a statement that needs a condition."""

    @property
    def holds(self) -> bool:
        return self.verdict == HOLDS

    @property
    def quotation(self) -> str:
        """The printed words in quotation marks, as a sentence of its own."""
        return f"“{self.printed}”" if self.printed.endswith(".") else f"“{self.printed}”."

    @property
    def named_class(self) -> str:
        """The class, with the condition that is needed."""
        return f"{self.verdict}: {self.needs}" if self.needs else self.verdict


def verdict(so: bool) -> str:
    """The class of a printed statement that a calculation confirms, or does not."""
    return HOLDS if so else WRONG


def ours(so: bool) -> str:
    """The class of a statement that is not printed."""
    return OURS if so else FAILS


def counted(statements: Sequence[Statement]) -> str:
    """How many are in which class, a sentence."""
    counts = Counter(one.verdict for one in statements)
    words = ", ".join(f"{counts[name]} {name}" for name in CLASSES if counts[name])
    return f"{len(statements)} statements: {words}."


def record(papers: Mapping[str, Sequence[Statement]]) -> str:
    """A row per statement as CSV, by paper: what it says, its class, and the evidence."""
    rows = [
        [paper, one.place, one.says, one.verdict, one.needs, one.found]
        for paper, statements in papers.items()
        for one in statements
    ]
    return csv_table(("paper", "place", "statement", "class", "needs", "found"), rows)
