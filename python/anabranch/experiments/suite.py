"""The types of a suite's file (`study.toml`, `judge*.toml`, `harm.toml`): items, runs, bounds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from anabranch.conversion.described import Delays, Steps, Walk, csv, mahimahi
from anabranch.experiments.drawings import FromRuns, OfStudy, cases_of
from anabranch.quantities import QUANTITIES
from anabranch.sweeps import space
from anabranch.typed_toml import REST, Placed, Some, Tag, Values, Where, check_call

Backend = Literal["sim", "quic", "fluid", "kernel", "equilibrium"]
Trace = Annotated[Steps | Walk | Delays, Tag("kind")]
Family = Literal["reno", "cubic", "bbr"]
"""Controllers of one specification: RFC 5681, RFC 9438, draft-ietf-ccwg-bbr."""
OWN = "own"
"""The level of what RFC 9743 does not ask."""


@dataclass(frozen=True)
class Source:
    """A publication from which the suite takes its setup."""

    work: str
    """Authors, title, and where it was published."""
    year: int
    read: str
    """Part of it that was read, such as "abstract" or "section 2"."""
    takes: str
    """Content that the suite takes from it."""


@dataclass(frozen=True)
class Lack:
    """A sentence about what is missing, and what would end it, of which a test says if it is true:
    a key that scenarios do not have, such as `links.*.fading`, a rule that the table does not have,
    or a key that scenarios have and that is left out here."""

    text: str
    key: str | None = None
    rule: str | None = None
    left_out: str | None = None


@dataclass(frozen=True)
class Case:
    """A network."""

    label: str = ""
    """Name in tables and figures; that of the case by default."""
    scenario: str = ""
    """The file, in the folder; the item's or the suite's by default."""
    set: Values = field(default_factory=dict)
    """Values of the scenario to replace, by dotted key; `rate_mbps`, `rtt_ms` and `buffer_bdp` set
    the link `bottleneck`."""
    rules: tuple[str, ...] | None = None
    """The rules of a baseline; None is every rule."""
    on: tuple[Backend, ...] | None = None
    """The backends that have it; None is every backend of the suite."""
    quick: bool = True
    """Whether --quick runs it."""


@dataclass(frozen=True, kw_only=True)
class Taken(Placed):
    """A quantity of each run, with its parameters."""

    quantity: str
    """The function of a run that gives it (docs/reference/paper-files.md)."""
    parameters: Values = field(default_factory=dict, metadata=REST)
    """The parameters of the quantity."""

    def validate(self, where: Where) -> None:
        """Test that quantity and parameters exist."""
        where.at("quantity").one_of(self.quantity, list(QUANTITIES))
        check_call(QUANTITIES[self.quantity], self.parameters, type(self), where)


@dataclass(frozen=True)
class Measure(Taken):
    """A number of each run under a name."""

    label: str
    """Words for the number, with its unit."""
    cases: Annotated[tuple[str, ...], Some("case")] | None = None
    """Some of the cases; None is all of them."""
    over: tuple[str, ...] = ()
    """Baselines; the number is divided by the largest one that these cases give, and its bounds are
    multiples of it."""
    digits: int = 2
    """Decimals in tables."""


@dataclass(frozen=True)
class Bound(Placed):
    """An inequality of a measure."""

    measure: str
    why: str
    """The reason for it."""
    case: str | None = None
    """One of the measure's cases; None is each of them."""
    at_least: float | None = None
    at_most: float | None = None
    at_least_of: float | None = None
    """A multiple of the reference; with `at_least` one of the two suffices."""
    at_most_of: float | None = None

    def validate(self, where: Where) -> None:
        """Test that there is a bound."""
        if not self.sides:
            raise where.at("at_least").error("missing: a bound needs at_least, at_most or both")

    @property
    def sides(self) -> list[tuple[int, float | None, float | None]]:
        """Sides: 1 from below or -1 from above, multiple of the reference, number."""
        both = [(1, self.at_least_of, self.at_least), (-1, self.at_most_of, self.at_most)]
        return [side for side in both if side[1:] != (None, None)]

    @property
    def is_relative(self) -> bool:
        """Whether it depends on a reference."""
        return any(factor is not None for _, factor, _ in self.sides)

    @property
    def in_words(self) -> str:
        """The bound as it is set, such as "at most 1.25 x the reference's, or 5"."""
        found = []
        for sign, factor, plain in self.sides:
            parts = [] if factor is None else [f"{factor:g} x the reference's"]
            parts += [] if plain is None else [f"{plain:g}"]
            found.append(f"{'at least' if sign > 0 else 'at most'} {', or '.join(parts)}")
        return " and ".join(found)


@dataclass(frozen=True)
class Sample(Placed):
    """Cases drawn from a box by a Latin hypercube, the smallest first; then a search.

    A round of the search draws as many again, in a box of half the width around the worst. What is
    found is chosen by some seeds, so that the worst are decided on fresh ones.
    """

    points: int
    quick: int
    """As many with --quick."""
    over: Mapping[str, str]
    """Intervals by key, in the notation of `sweep --over`."""
    rounds: int = 0
    quick_rounds: int = 0
    confirm: int = 2
    """The number of cases that are decided: the worst ones."""

    def validate(self, where: Where) -> None:
        """Test that every key has an interval."""
        for key, axis in space.axes(self.over).items():
            if isinstance(axis, list):
                raise where.at("over").at(key).error("expected an interval, such as log(1,100)")


@dataclass(frozen=True)
class Reference:
    """Runs to compare with in each case: the same network and seeds, with other rules."""

    rules: tuple[str, ...]
    set: Values = field(default_factory=dict)
    """Values to replace after those of the case, such as one path instead of several."""
    sets: Mapping[str, Values] = field(default_factory=dict)
    """Several such values, each by a name: the rules run with each of them."""
    than: Literal["any", "each"] = "any"
    """Whether a number has to keep its bound to any of them, or to each."""

    def each(self) -> Iterator[tuple[str, str, Values]]:
        """Name, rule and values of each."""
        for name, values in (self.sets or {"": self.set}).items():
            for rule in self.rules:
                yield f"{rule} {name}".rstrip(), rule, {**self.set, **values}


@dataclass(frozen=True)
class Item(Placed):
    """A question with bounds, which gets a verdict."""

    text: str
    """The question, or words for the number as the beginning of a sentence."""
    short: str = ""
    """Meaning of a number within the bounds, such as "at most a TCP's share"."""
    section: str = ""
    """Section of RFC 9743; "theory" for what it does not ask."""
    level: str = OWN
    """The RFC's word: MUST, SHOULD, should, ought, ..."""
    title: str = ""
    scenario: str = ""
    """The file, in the folder; the suite's by default."""
    on: Literal["sim", "fluid", "equilibrium"] | None = None
    """The backend; the one that is asked for by default."""
    set: Values = field(default_factory=dict)
    """Values of every case, before its own."""
    cases: Mapping[str, Case] = field(default_factory=dict)
    """The smallest first; the suite's by default."""
    sample: Sample | None = None
    reference: Reference | None = None
    measures: Mapping[str, Measure] = field(default_factory=dict)
    bounds: tuple[Bound, ...] = ()
    per: Literal["item", "case"] = "item"
    """Whether there is one verdict, or one for each case."""
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
    control: str = "reno"
    """The rule that a shortened counterexample has to clear."""
    family: tuple[Family, ...] = ()
    """The controllers that it is about; () is every one."""
    cannot_fail: str = ""
    """Why no window rule can fail it: that it holds is shown and not counted."""

    def validate(self, where: Where) -> None:
        """Test that there is one way to answer it, with all that this way needs."""
        ways = (self.own_cases, self.check, self.not_tested)
        if sum(bool(way) for way in ways) + (self.bounds != () and not self.own_cases) != 1:
            raise where.error("expected one of cases, sample, check, not_tested")
        if self.cases and self.sample:
            raise where.error("expected cases or a sample, got both")
        if self.own_cases and not self.bounds:
            raise where.at("bounds").error("missing: what runs has a bound")
        if self.own_cases and self.reference is None:
            for i, bound in enumerate(self.bounds):
                if bound.is_relative:
                    raise where.at("reference").error(f"missing: bounds[{i}] depends on it")
        if self.check == "operations" and self.at_most is None:
            raise where.at("at_most").error("missing: the check gives a number")

    @property
    def own_cases(self) -> bool:
        """Whether it has cases of its own."""
        return bool(self.cases or self.sample)

    @property
    def runs(self) -> bool:
        """Whether it is answered by runs."""
        return bool(self.bounds)


@dataclass(frozen=True)
class Quick:
    """Changes by `--quick`."""

    looks: tuple[int, ...] | None = None
    """Other looks; by default the first two."""
    set: Values = field(default_factory=dict)
    """Values of every scenario to replace, before those of the item."""


@dataclass(frozen=True)
class Entries(Placed):
    """The whole of a suite's files."""

    items: Mapping[str, Item]
    title: str = ""
    question: str = ""
    rfc: int = 0
    on: Annotated[tuple[Backend, ...], Some("backend")] = ("sim",)
    """The backends on which the suite is defined."""
    looks: tuple[int, ...] = (4, 8, 16, 32)
    """The numbers of seeds at which a number is decided."""
    quick: Quick = field(default_factory=Quick)
    scenario: str = "scenario.toml"
    """The file of cases without their own."""
    asked: tuple[str, ...] | None = None
    """The rules that run if none are named; None is every rule."""
    beside: tuple[str, ...] = ()
    """Rules that always run, too."""
    sources: tuple[Source, ...] = ()
    cases: Mapping[str, Case] = field(default_factory=dict)
    reference: Reference | None = None
    measures: Mapping[str, Measure] = field(default_factory=dict)
    figure: Annotated[OfStudy, Tag("kind")] | None = None
    not_modelled: tuple[Lack, ...] = ()
    """Features of the field's experiments that this suite lacks."""
    traces: Mapping[str, Trace] = field(default_factory=dict)
    """Rate traces, by the name of the file that scenarios give."""

    @property
    def name(self) -> str:
        """The RFC of a judgement, or else the title."""
        return f"RFC {self.rfc}" if self.rfc else self.title

    def as_dict(self) -> dict[str, Any]:
        """Title, question, sources and gaps, as plain data for JSON."""
        return {
            "title": self.title,
            "question": self.question,
            "sources": [vars(source) for source in self.sources],
            "not_modelled": [lack.text for lack in self.not_modelled],
        }

    def validate(self, where: Where) -> None:
        """Test that looks ascend, and that every case and measure that is named exists."""
        for looks, place in ((self.looks, where), (self.quick.looks, where.at("quick"))):
            if looks is not None and (not looks or list(looks) != sorted({*looks}) or looks[0] < 1):
                expected = "expected ascending numbers of 1 or more"
                raise place.at("looks").error(f"{expected}, got {list(looks)}")
        if not self.items:
            raise where.at("items").error("expected at least one, got none")
        judged: list[str] = []
        for name, item in self.items.items():
            place = where.at("items").at(name)
            cases = item.cases if item.own_cases else self.cases
            measures = item.measures or self.measures
            _check_measures(measures, {**self.cases, **cases}, place.at("measures"))
            for i, bound in enumerate(item.bounds):
                at = place.at("bounds").at(i)
                at.at("measure").one_of(bound.measure, list(measures))
                if bound.case is not None:
                    at.at("case").one_of(bound.case, list(measures[bound.measure].cases or cases))
                    judged += [] if item.own_cases else [bound.case]
        _check_measures(self.measures, self.cases, where.at("measures"))
        self._check_figure(where, judged)

    def _check_figure(self, where: Where, judged: list[str]) -> None:
        figure, place = self.figure, where.at("figure")
        if figure is not None:
            for case in cases_of(figure):
                place.at("cases").one_of(case, list(self.cases))
            for key in ("metric", "x_metric", "y_metric"):
                if hasattr(figure, key):
                    place.at(key).one_of(getattr(figure, key), list(self.measures))
            if isinstance(figure, FromRuns) and len(figure.cases or ()) != 1:
                raise place.at("cases").error("expected the one case whose runs are drawn")
            judged = [*judged, *cases_of(figure)]
        for case in judged:
            if self.cases[case].on is not None:
                why = "the verdict or the figure needs the case on every backend: remove the key"
                raise where.at("cases").at(case).at("on").error(why)


def _check_measures(
    measures: Mapping[str, Measure], cases: Mapping[str, Case], where: Where
) -> None:
    for name, one in measures.items():
        for key, named in (("cases", one.cases or ()), ("over", one.over)):
            for i, case in enumerate(named):
                where.at(name).at(key).at(i).one_of(case, list(cases))


@dataclass(frozen=True)
class Block:
    """Cases that run together, and what is measured in them: an item's own, or the suite's."""

    name: str
    """The item's; empty for the suite's."""
    scenario: str
    on: str
    set: Values
    cases: Mapping[str, Case]
    sample: Sample | None
    measures: Mapping[str, Measure]
    reference: Reference | None


@dataclass(frozen=True)
class Suite:
    """A suite's folder, read and checked."""

    name: str
    folder: Path
    file: str
    """The place of its entries in errors."""
    entries: Entries

    @cached_property
    def inputs(self) -> dict[str, bytes]:
        """The trace files that it describes, by name."""
        return {
            name: csv(trace) if isinstance(trace, Delays) else mahimahi(trace)
            for name, trace in self.entries.traces.items()
        }

    def block(self, name: str, on: str) -> Block:
        """The block of an item; that of the suite for an item without cases of its own."""
        own, item = self.entries, self.entries.items.get(name)
        if item is None or not item.own_cases:
            return Block("", own.scenario, on, {}, own.cases, None, own.measures, own.reference)
        file, measures = item.scenario or own.scenario, item.measures or own.measures
        rest = (item.cases, item.sample, measures, item.reference)
        return Block(name, file, item.on or on, item.set, *rest)

    def chosen(self, names: tuple[str, ...] | None) -> Mapping[str, Item]:
        """The items of these names, all for None, in the order of the files.

        Raises `ScenarioError` for an unknown one; a section names all of its items.
        """
        items = self.entries.items
        if names is None:
            return items
        found: set[str] = set()
        for name in names:
            own = {key for key, item in items.items() if name in (key, item.section)}
            if not own:
                known = [*items, *dict.fromkeys(i.section for i in items.values() if i.section)]
                Where("--items").one_of(name, known)
            found |= own
        return {key: item for key, item in items.items() if key in found}
