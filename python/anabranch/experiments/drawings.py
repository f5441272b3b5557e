"""The figures of a study and of a paper's item, a type per kind.

`curves.py` computes their curves; `figures.py` draws those of a study, `papers/html.py` a paper's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from anabranch import _core
from anabranch.experiments.case import Case
from anabranch.typed_toml import Placed, Tag, Where


@dataclass(frozen=True)
class Bars(Placed):
    """Published numbers as hollow bars, measured as full bars with intervals, theory as lines."""

    kind: ClassVar = "bars"
    metrics: tuple[str, ...] | None = None
    """Some of the item's metrics; None is all."""


@dataclass(frozen=True)
class Plane(Placed):
    """A metric against another one: a panel per case, a marker per rule."""

    kind: ClassVar = "plane"
    x_metric: str
    y_metric: str
    cases: tuple[str, ...]
    x: str
    y: str


@dataclass(frozen=True)
class Sweep(Placed):
    """A metric over a swept value: a line per algorithm, a panel per other setting; in a study a
    panel per rule."""

    kind: ClassVar = "sweep"
    metric: str
    over: Mapping[str, float]
    """The swept value for a part of a case's name, or for a case of a study."""
    title: str = ""
    x: str = ""
    y: str | None = None
    """The labels of the axes; None is the metric."""
    log: Literal["", "x", "y", "xy"] = ""
    """The logarithmic axes."""
    reference: tuple[float, ...] = ()
    """A line to compare with, a value for each of `over`."""
    reference_label: str = ""

    def validate(self, where: Where) -> None:
        """Test that the reference has a value for each swept one."""
        if self.reference and len(self.reference) != len(self.over):
            counts = f"expected a value for each of {len(self.over)}, got {len(self.reference)}"
            raise where.at("reference").error(counts)

    @property
    def cases(self) -> tuple[str, ...]:
        """The cases of a study."""
        return tuple(self.over)


@dataclass(frozen=True)
class Line:
    """One line of a series."""

    column: str
    """Table and column of the samples: `path_samples.window_packets`."""
    flow: str | None = None
    """One flow, the mean over its users."""
    path: int | None = None
    """One path; None adds up all."""
    link: str | None = None
    """One link."""
    share: bool = False
    """Whether the value is divided by the sum over all rows of its time."""
    label: str = ""
    """The entry in the legend."""
    algorithm: str | None = None
    """Key of the colour; None is the case's algorithm."""
    levels: tuple[tuple[float, float, float], ...] = ()
    """Reference lines: from and to, in s, and value."""
    levels_label: str = "level"
    """Entry of the levels in the legend."""

    def validate(self, where: Where) -> None:
        """Test that the column exists."""
        columns = _core.columns()
        tables = ("flow_samples", "path_samples", "link_samples")
        known = [f"{table}.{name}" for table in tables for name in columns[table]]
        where.at("column").one_of(self.column, known)


@dataclass(frozen=True, kw_only=True)
class FromRuns(Placed):
    """A figure that is drawn from whole runs."""

    group: str | None = None
    """The group of a paper's runs; None is the item's."""
    cases: tuple[Case, ...] | None = None
    """Some of the group's cases, None is the item's; the one case of a study."""
    baselines: tuple[Case, ...] = ()
    """Cases of one rule, drawn in every panel of a study."""


@dataclass(frozen=True)
class Series(FromRuns):
    """Columns of the samples over time; in a study of the first seed, a panel per rule."""

    kind: ClassVar = "series"
    lines: tuple[Line, ...]
    title: str = ""
    panels: Literal["", "case", "line"] = ""
    """A panel per case, a panel per line, or one for all."""
    bin_s: float | None = None
    """The width of the bins that smooth, s."""
    from_s: float | None = None
    to_s: float | None = None
    seed: int | None = None
    """One seed; None is the mean over all."""
    y: str = ""
    """The label of the axis."""
    marks: tuple[float, ...] = ()
    """Times of events in a study, s."""
    marks_label: str = ""

    def validate(self, where: Where) -> None:
        """Test that bins have a width."""
        if self.bin_s is not None and self.bin_s <= 0:
            raise where.at("bin_s").error(f"expected more than 0, got {self.bin_s:g}")


@dataclass(frozen=True)
class Distribution(FromRuns):
    """The share of values below x, or of those that are x or larger, over all seeds; in a study a
    panel per rule."""

    kind: ClassVar = "distribution"
    of: Literal["transfers.duration_s", "flow_samples.goodput_mbps"] = "transfers.duration_s"
    flow: str | None = None
    title: str = ""
    tail: bool = False
    """Whether larger values are counted, on logarithmic axes."""
    bin_s: float = 0.0
    """Samples: the width of the bins over which a value is the mean, s."""
    low_s: float | None = None
    high_s: float | None = None
    """The range of the line that is fitted and drawn with its slope; None draws none."""
    rate_mbps: float | None = None
    """The rate at which the duration of each file is added; None adds none."""
    x: str = "duration x (s)"
    y: str = "share that lasts x or longer"

    def validate(self, where: Where) -> None:
        """Test that the fitted range has both ends or none, and that samples have bins."""
        if (self.low_s is None) != (self.high_s is None):
            key = "high_s" if self.high_s is None else "low_s"
            raise where.at(key).error("missing: a fitted line needs low_s and high_s")
        if self.of.endswith("goodput_mbps") and self.bin_s <= 0:
            raise where.at("bin_s").error(f"expected more than 0, got {self.bin_s:g}")
        if self.of.endswith("goodput_mbps") and self.rate_mbps is not None:
            raise where.at("rate_mbps").error("unknown key for samples, which have no bytes")


Figure = Annotated[Bars | Series | Sweep | Distribution, Tag("kind")]
"""A figure of a paper's item."""
OfStudy = Sweep | Plane | Series | Distribution
"""The figure of a study."""


def cases_of(figure: OfStudy) -> tuple[str, ...]:
    """The cases that the figure of a study draws."""
    baselines = figure.baselines if isinstance(figure, FromRuns) else ()
    return (*(figure.cases or ()), *baselines)
