"""The types of `judge/judge*.toml`: items, what each runs and measures, and its thresholds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from anabranch.papers.entries.reader import REST, Tag, Values, Where, check_call, read_files
from anabranch.papers.quantities import QUANTITIES
from anabranch.scenario import ScenarioError
from anabranch.study.lack import Lack
from anabranch.study.traces import Delays, Steps, Walk, csv, mahimahi
from anabranch.sweeps import space

FOLDER = Path(__file__).parents[1] / "_judge"

Trace = Annotated[Steps | Walk | Delays, Tag("kind")]

BOUNDS = ("at_most", "at_least", "at_most_of_reference", "at_least_of_reference")


@dataclass(frozen=True)
class Measure:
    """A number of each run and its bound: an item holds if all of its measures do."""

    quantity: str
    """The function of a run that gives it (docs/reference/paper-files.md)."""
    label: str
    """What it is, with its unit."""
    why: str
    """The reason for the bound."""
    at_most: float | None = None
    at_least: float | None = None
    at_most_of_reference: float | None = None
    """A multiple of the largest number of the references; with `at_most` the higher of both."""
    at_least_of_reference: float | None = None
    """A multiple of the smallest number of the references."""
    digits: int = 2
    parameters: Values = field(default_factory=dict, metadata=REST)
    """The parameters of the quantity."""
    where: Where = field(default=Where(), compare=False, repr=False)

    def validate(self, where: Where) -> None:
        """Test that quantity and parameters exist, and that there is one bound, on one side."""
        where.at("quantity").one_of(self.quantity, list(QUANTITIES))
        check_call(QUANTITIES[self.quantity], self.parameters, Measure, where)
        sides = {name.split("_")[1] for name in BOUNDS if getattr(self, name) is not None}
        if len(sides) != 1:
            raise where.error(f"expected a bound on one side, of {', '.join(BOUNDS)}")
        if self.at_least is not None and self.at_least_of_reference is not None:
            raise where.at("at_least").error("expected it alone, or at_least_of_reference")

    @property
    def is_relative(self) -> bool:
        """Whether the bound depends on a reference."""
        return self.at_most_of_reference is not None or self.at_least_of_reference is not None

    @property
    def lower(self) -> bool:
        """Whether the bound is one from below."""
        return self.at_least is not None or self.at_least_of_reference is not None

    def bound(self, references: Mapping[str, float]) -> float:
        """The bound, given the numbers of the references by their names."""
        if self.at_least is not None:
            return self.at_least
        if self.at_least_of_reference is not None:
            return self.at_least_of_reference * min(references.values())
        bounds = [] if self.at_most is None else [self.at_most]
        if self.at_most_of_reference is not None:
            bounds.append(self.at_most_of_reference * max(references.values()))
        return max(bounds)

    @property
    def in_words(self) -> str:
        """The bound as it is set, such as "at most 1.25 x the reference's, or 5"."""
        if self.lower:
            side, relative, plain = "at least", self.at_least_of_reference, self.at_least
        else:
            side, relative, plain = "at most", self.at_most_of_reference, self.at_most
        parts = [] if relative is None else [f"{relative:g} x the reference's"]
        parts += [] if plain is None else [f"{plain:g}"]
        return f"{side} {', or '.join(parts)}"


@dataclass(frozen=True)
class Point:
    """A network of an item."""

    label: str
    set: Values = field(default_factory=dict)
    """Values of the scenario to replace; `rate_mbps`, `rtt_ms` and `buffer_bdp` set the link
    `bottleneck`."""


@dataclass(frozen=True)
class Sample:
    """Points drawn from a box by a Latin hypercube, the smallest first; then a search.

    A round of the search draws as many points again, in a box of half the width around the worst.
    """

    points: int
    quick: int
    """As many with --quick."""
    over: Mapping[str, str]
    """Intervals by key, in the notation of `sweep --over`."""
    rounds: int = 0
    quick_rounds: int = 0
    where: Where = field(default=Where(), compare=False, repr=False)

    def validate(self, where: Where) -> None:
        """Test that every key has an interval."""
        for key, axis in space.axes(self.over).items():
            if isinstance(axis, list):
                raise where.at("over").at(key).error("expected an interval, such as log(1,100)")


@dataclass(frozen=True)
class Reference:
    """What the rule is compared with at each point: the same network, with other rules."""

    rules: tuple[str, ...]
    set: Values = field(default_factory=dict)
    """Values to replace after those of the point, such as one path instead of several."""


@dataclass(frozen=True)
class Needs:
    """What has to exist before an item can be tested."""

    rule: str | None = None
    """A rule of the table."""
    workload: str | None = None
    """A workload of scenarios."""


@dataclass(frozen=True)
class Item:
    """A question of the RFC, or one of ours, and how it is answered."""

    section: str
    """Section of RFC 9743; "theory" for what it does not ask."""
    level: str
    """The RFC's word: MUST, SHOULD, should, ought, ..."""
    title: str
    question: str
    scenario: str = "one_link.toml"
    """The file, in the folder."""
    on: Literal["sim", "fluid", "equilibrium"] = "sim"
    set: Values = field(default_factory=dict)
    """Values of every point, before its own."""
    points: tuple[Point, ...] = ()
    """The smallest first: the first one that fails is the counterexample."""
    quick: tuple[int, ...] | None = None
    """The points of the quick form, from 0; all by default."""
    sample: Sample | None = None
    reference: Reference | None = None
    measures: tuple[Measure, ...] = ()
    needs: Needs = field(default_factory=Needs)
    check: Literal["proof", "operations"] | None = None
    """A check that is no run."""
    requirement: str | None = None
    """The requirement of `theory prove`; the one of the item's name by default."""
    at_most: float | None = None
    """The bound of a check that gives a number."""
    why: str = ""
    """The reason for it."""
    not_tested: Lack | None = None
    """Why it cannot be tested."""
    where: Where = field(default=Where(), compare=False, repr=False)

    def validate(self, where: Where) -> None:
        """Test that there is one way to answer it, with all that this way needs."""
        ways = (self.points, self.sample, self.check, self.not_tested)
        if sum(bool(way) for way in ways) != 1:
            raise where.error("expected one of points, sample, check, not_tested")
        if self.runs and not self.measures:
            raise where.at("measures").error("missing: what runs is measured")
        if any(one.is_relative for one in self.measures) and self.reference is None:
            raise where.at("reference").error("missing: a bound depends on it")
        if any(not 0 <= number < len(self.points) for number in self.quick or ()):
            raise where.at("quick").error(
                f"expected numbers of points, 0 to {len(self.points) - 1}"
            )
        if self.check == "operations" and self.at_most is None:
            raise where.at("at_most").error("missing: the check gives a number")

    @property
    def runs(self) -> bool:
        """Whether it is answered by runs."""
        return bool(self.points or self.sample)


@dataclass(frozen=True)
class Quick:
    """What `--quick` changes."""

    seeds: int
    set: Values = field(default_factory=dict)
    """Values of every scenario to replace, before those of the item."""


@dataclass(frozen=True)
class Entries:
    """All files together."""

    rfc: int
    seeds: int
    quick: Quick
    items: Mapping[str, Item]
    traces: Mapping[str, Trace] = field(default_factory=dict)
    """Traces, by the name of the file that scenarios give."""

    @cached_property
    def inputs(self) -> dict[str, bytes]:
        """The trace files, by name."""
        return {
            name: csv(trace) if isinstance(trace, Delays) else mahimahi(trace)
            for name, trace in self.traces.items()
        }

    def chosen(self, names: tuple[str, ...] | None) -> Mapping[str, Item]:
        """The items of these names, all for None, in the order of the files.

        Raises `ScenarioError` for an unknown one; a section names all of its items.
        """
        if names is None:
            return self.items
        found: set[str] = set()
        for name in names:
            own = {key for key, item in self.items.items() if name in (key, item.section)}
            if not own:
                known = [*self.items, *dict.fromkeys(item.section for item in self.items.values())]
                Where("--items").one_of(name, known)
            found |= own
        return {key: item for key, item in self.items.items() if key in found}


def open_items() -> Entries:
    """Read and check the folder. Raises `ScenarioError` with file and key."""
    entries = read_files(Entries, FOLDER, "judge")
    for name, item in entries.items.items():
        if item.runs and not (FOLDER / item.scenario).is_file():
            where = Where("judge", "items").at(name).at("scenario")
            where.one_of(item.scenario, sorted(f.name for f in FOLDER.glob("*.toml")))
    sections = [item.section for item in entries.items.values()]
    order = sorted(range(len(sections)), key=lambda i: _number(sections[i]))
    names = list(entries.items)
    if not names:
        raise ScenarioError("judge/judge.toml: no items")
    ordered = {names[i]: entries.items[names[i]] for i in order}
    return Entries(entries.rfc, entries.seeds, entries.quick, ordered, entries.traces)


def _number(section: str) -> tuple[float, ...]:
    """The order of sections: by number, and what is not the RFC's last."""
    if section == "theory":
        return (float("inf"),)
    return tuple(float(part) for part in section.split("."))
