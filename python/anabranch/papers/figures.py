"""The figures of an item, a type per kind."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from anabranch.experiments.drawings import check_column
from anabranch.papers.case import Case
from anabranch.typed_toml import Placed, Tag, Where


@dataclass(frozen=True)
class Bars(Placed):
    """Published numbers as hollow bars, measured as full bars with intervals, theory as lines."""

    kind: ClassVar = "bars"
    metrics: tuple[str, ...] | None = None
    """Some of the item's metrics; None is all."""


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

    def validate(self, where: Where) -> None:
        """Test that the column exists."""
        check_column(self.column, ("flow_samples", "path_samples", "link_samples"), where)


@dataclass(frozen=True, kw_only=True)
class FromRuns(Placed):
    """A figure that is drawn from whole runs."""

    group: str | None = None
    """The group of the runs; None is the item's."""
    cases: tuple[Case, ...] | None = None
    """Some of the group's cases; None is the item's."""


@dataclass(frozen=True)
class Series(FromRuns):
    """Columns of the samples over time."""

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


@dataclass(frozen=True)
class Sweep(Placed):
    """A metric over a swept value: a line per algorithm, a panel per other setting."""

    kind: ClassVar = "sweep"
    metric: str
    over: Mapping[str, float]
    """The swept value for a part of a case's name."""
    title: str = ""
    x: str = ""
    y: str | None = None
    """The labels of the axes; None is the metric."""
    log: Literal["", "x", "y", "xy"] = ""
    """The logarithmic axes."""


@dataclass(frozen=True)
class Tail(FromRuns):
    """The share of transfers that last x or longer, on log axes, over all seeds."""

    kind: ClassVar = "tail"
    flow: str | None = None
    title: str = ""
    low_s: float | None = None
    high_s: float | None = None
    """The range of the line that is fitted and drawn with its slope; None draws none."""
    rate_mbps: float | None = None
    """The rate at which the duration of each file is added; None adds none."""
    x: str = "duration x (s)"
    y: str = "share that lasts x or longer"

    def validate(self, where: Where) -> None:
        """Test that the fitted range has both ends or none."""
        if (self.low_s is None) != (self.high_s is None):
            key = "high_s" if self.high_s is None else "low_s"
            raise where.at(key).error("missing: a fitted line needs low_s and high_s")


Figure = Annotated[Bars | Series | Sweep | Tail, Tag("kind")]
