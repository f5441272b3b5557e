"""The types of `published.toml` and `errata.toml`: what the paper prints, and its errors."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from anabranch.papers.entries.case import Case
from anabranch.typed_toml import KEY, REST, Placed


@dataclass(frozen=True)
class About:
    """The paper: what a report says first."""

    title: str
    """Title."""
    source: str
    """Where and when it was published."""
    authors: tuple[str, ...]
    """Names."""
    summary: str
    """Sentences of the paper about it, and those that are not reproduced."""
    name: str = ""
    """Short name in summaries; the folder's if empty."""


@dataclass(frozen=True)
class Metric(Placed):
    """Printed numbers of a metric of one item."""

    published: Mapping[str, float] = field(default_factory=dict)
    """The paper's measurements by case."""
    theory: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The paper's calculations by kind, and by case or setting."""
    repeats: bool = False
    """Whether the numbers are those of another item, or computed from them."""

    def theory_of(self, case: Case) -> dict[str, float]:
        """The theory values of a case by kind: its own, or those of its setting."""
        return {
            kind: value
            for kind, values in self.theory.items()
            for key, value in values.items()
            if case.is_of(key)
        }

    def named(self) -> dict[str, float]:
        """The theory and the printed numbers by their names in claims.

        >>> Metric({"a.lia": 2.0}, {"optimum": {"a": 3.0}}).named()
        {'a.optimum': 3.0, 'a.lia.published': 2.0}
        """
        named: dict[str, float] = {
            Case.of(key, kind): value
            for kind, values in self.theory.items()
            for key, value in values.items()
        }
        return named | {Case(case).printed: value for case, value in self.published.items()}


@dataclass(frozen=True)
class Printed:
    """Printed numbers of one table or figure."""

    title: str
    """Quantities that the table or figure shows."""
    place: str
    """Where in the paper."""
    own: bool = False
    """Whether it is a study of ours, and in no table or figure of the paper."""
    metrics: Mapping[str, Metric] = field(default_factory=dict, metadata=REST)
    """Metrics by name."""


@dataclass(frozen=True)
class Published:
    """The whole of `published.toml`."""

    paper: About
    """Summary with which a report begins."""
    items: Mapping[str, Printed]
    """The tables and figures by id."""
    theory: Mapping[str, str] = field(default_factory=dict)
    """The meaning of each kind of theory value."""


@dataclass(frozen=True)
class Erratum:
    """An error in the paper or in its extracted text, and the correction used."""

    id: str = field(metadata=KEY)
    """Name, such as e01."""
    place: str
    """Where in the paper."""
    printed: str
    """Sentence or formula as printed."""
    correct: str
    """The correction used."""
    evidence: str
    """Argument or number that shows the error."""


@dataclass(frozen=True)
class Errata:
    """The whole of `errata.toml`."""

    errata: Mapping[str, Erratum]
    """The errors by name."""
