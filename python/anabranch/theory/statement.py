"""A statement of a paper and its verdict, with the numbers that decide it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

HOLDS, FALSE, EMPTY = "holds", "false as printed", "true but empty"
WORDS = "not a statement that a machine can test"


@dataclass(frozen=True)
class Statement:
    """A statement of a paper, paraphrased."""

    place: str
    """Where the paper states it."""
    says: str
    verdict: str
    """One of `HOLDS`, `FALSE`, `EMPTY` and `WORDS`. The first is a search without a
    counterexample where `found` names a number of trials, not a proof."""
    found: str
    """The evidence, or why there is no test."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """The numbers in `found` that decide, by name."""

    @property
    def holds(self) -> bool:
        return self.verdict == HOLDS


def verdict(so: bool) -> str:
    """`HOLDS` or `FALSE`."""
    return HOLDS if so else FALSE


def counted(statements: Sequence[Statement]) -> str:
    """How many have which verdict, a sentence."""
    counts = Counter(one.verdict for one in statements)
    words = ", ".join(f"{number} {word}" for word, number in counts.items())
    return f"{len(statements)} statements: {words}."


def markdown(statements: Sequence[Statement]) -> Iterator[str]:
    """Lines of Markdown: the number of statements by verdict, then each as an entry of a list."""
    yield counted(statements)
    yield ""
    for one in statements:
        yield (
            f"- **{one.place}: {one.verdict}.** {one.says[0].upper()}{one.says[1:]}. "
            f"Found: {one.found}."
        )
