"""The figure of a suite, a type per kind. `figures.py` draws it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from anabranch import _core
from anabranch.typed_toml import Placed, Tag, Where


@dataclass(frozen=True)
class Curve(Placed):
    """A measure over the cases: a panel per rule, all others in grey."""

    kind: ClassVar = "curve"
    measure: str
    cases: tuple[str, ...]
    """In the order of the axis, on which each has the first word of its label."""
    x: str
    y: str
    reference: tuple[float, ...] = ()
    """A line to compare with, a value per case."""
    reference_label: str = ""

    def validate(self, where: Where) -> None:
        """Test that the reference has a value per case."""
        if self.reference and len(self.reference) != len(self.cases):
            counts = f"expected a value per case, {len(self.cases)}, got {len(self.reference)}"
            raise where.at("reference").error(counts)


@dataclass(frozen=True)
class Plane(Placed):
    """A measure against another one: a panel per case, a marker per rule."""

    kind: ClassVar = "plane"
    x_measure: str
    y_measure: str
    cases: tuple[str, ...]
    x: str
    y: str


@dataclass(frozen=True)
class Time(Placed):
    """Samples of one user over time: a panel per rule, first seed."""

    kind: ClassVar = "time"
    case: str
    column: str
    """Table and column of the samples: `flow_samples.goodput_mbps`."""
    flow: str
    y: str
    bin_s: float = 1.0
    """The width of the bins that smooth, s."""
    from_s: float = 0.0
    to_s: float = float("inf")
    marks: tuple[float, ...] = ()
    """Times of events, s."""
    marks_label: str = ""
    capacity: tuple[str, ...] = ()
    """Traces, of which the sum is drawn as an area."""
    base: float = 0.0
    """A constant capacity that is added to them, Mbps."""

    @property
    def cases(self) -> tuple[str, ...]:
        """The cases that it draws."""
        return (self.case,)

    def validate(self, where: Where) -> None:
        """Test that the column exists."""
        check_column(self.column, ("flow_samples", "path_samples"), where)
        _check_bin(self.bin_s, where)


@dataclass(frozen=True)
class Distribution(Placed):
    """How often a value of one case is exceeded, over all seeds: a panel per rule."""

    kind: ClassVar = "distribution"
    case: str
    of: Literal["transfers.duration_s", "flow_samples.goodput_mbps"]
    flow: str
    x: str
    y: str
    tail: bool = False
    """Whether values above are counted, on logarithmic axes, and not those below."""
    bin_s: float = 0.0
    """Samples: the width of the bins over which a value is the mean, s."""
    baselines: tuple[str, ...] = ()
    """Cases of one rule, drawn in every panel."""

    def validate(self, where: Where) -> None:
        """Test that samples have bins."""
        if self.of.endswith("goodput_mbps"):
            _check_bin(self.bin_s, where)

    @property
    def cases(self) -> tuple[str, ...]:
        """The cases that it draws."""
        return (self.case, *self.baselines)


def check_column(column: str, tables: Sequence[str], where: Where) -> None:
    """Test that one of the tables has a column, such as `flow_samples.goodput_mbps`."""
    columns = _core.columns()
    known = [f"{table}.{name}" for table in tables for name in columns[table]]
    where.at("column").one_of(column, known)


def _check_bin(bin_s: float, where: Where) -> None:
    """Raise the error of a bin without a width."""
    if bin_s <= 0:
        raise where.at("bin_s").error(f"expected more than 0, got {bin_s:g}")


Drawing = Annotated[Curve | Plane | Time | Distribution, Tag("kind")]
