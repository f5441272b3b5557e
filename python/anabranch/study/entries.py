"""The types of `study.toml`: what a study asks, runs, measures, draws and concludes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from anabranch.papers.entries.reader import REST, Values, Where, check_call
from anabranch.papers.quantities import QUANTITIES
from anabranch.study.drawings import Drawing
from anabranch.study.lack import Lack
from anabranch.study.traces import Trace, mahimahi

Backend = Literal["sim", "quic", "fluid", "kernel"]


@dataclass(frozen=True)
class Source:
    """A publication from which the study takes its setup."""

    work: str
    """Authors, title, and where it was published."""
    year: int
    read: str
    """What was read of it, such as "abstract" or "section 2"."""
    takes: str
    """What the study takes from it."""


@dataclass(frozen=True)
class Case:
    """One network, in which every rule runs."""

    label: str
    """Name in tables and figures."""
    scenario: str = "scenario.toml"
    """The file, in the study's folder."""
    set: Values = field(default_factory=dict)
    """Values of the scenario to replace, by dotted key."""
    rules: tuple[str, ...] | None = None
    """The rules of a baseline; None is every rule."""
    on: tuple[Backend, ...] | None = None
    """The backends that have it; None is every backend of the study."""


@dataclass(frozen=True)
class Measure:
    """A number of each run: a column of the table per case."""

    quantity: str
    """The function of a run that gives it (docs/reference/paper-files.md)."""
    label: str
    """What it is, with its unit."""
    cases: tuple[str, ...]
    best_of: tuple[str, ...] = ()
    """Baselines; the number is divided by the largest one that these cases give."""
    digits: int = 2
    """Decimals in the table."""
    in_table: bool = True
    """Whether it is in the table, or only in the figure."""
    parameters: Values = field(default_factory=dict, metadata=REST)
    """The parameters of the quantity."""
    where: Where = field(default=Where(), compare=False, repr=False)

    def validate(self, where: Where) -> None:
        """Test that quantity and parameters exist."""
        where.at("quantity").one_of(self.quantity, list(QUANTITIES))
        check_call(QUANTITIES[self.quantity], self.parameters, Measure, where)
        if not self.cases:
            raise where.at("cases").error("expected at least one case, got []")


@dataclass(frozen=True)
class Verdict:
    """The number by which the study judges the rules, and its bounds."""

    measure: str
    case: str
    says: str
    """What the number is, as the beginning of a sentence."""
    holds: str
    """What it means that a number is within the bounds, such as "at most a TCP's share"."""
    at_least: float | None = None
    at_most: float | None = None
    where: Where = field(default=Where(), compare=False, repr=False)

    def validate(self, where: Where) -> None:
        """Test that there is a bound."""
        if self.at_least is None and self.at_most is None:
            raise where.at("at_least").error("missing: a verdict needs at_least, at_most or both")


@dataclass(frozen=True)
class Quick:
    """What `--quick` changes."""

    seeds: int
    set: Values = field(default_factory=dict)
    """Values of every scenario to replace, before those of the case."""


@dataclass(frozen=True)
class Entries:
    """The whole of `study.toml`."""

    title: str
    question: str
    on: tuple[Backend, ...]
    """The backends on which the study is defined."""
    seeds: int
    """The number of seeds."""
    quick: Quick
    sources: tuple[Source, ...]
    cases: Mapping[str, Case]
    measures: Mapping[str, Measure]
    verdict: Verdict
    figure: Drawing
    not_modelled: tuple[Lack, ...] = ()
    """What the field's experiments have and this study lacks."""
    traces: Mapping[str, Trace] = field(default_factory=dict)
    """Rate traces, by the name of the file that scenarios give."""
    where: Where = field(default=Where(), compare=False, repr=False)

    def validate(self, where: Where) -> None:
        """Test that there are seeds, and that every case and measure that is named exists."""
        for seeds, place in ((self.seeds, where), (self.quick.seeds, where.at("quick"))):
            if seeds < 1:
                raise place.at("seeds").error(f"expected 1 or more, got {seeds}")
        if not self.on:
            raise where.at("on").error("expected at least one backend, got []")
        for place, case in self._named_cases(where):
            place.one_of(case, list(self.cases))
        for place, measure in self._named_measures(where):
            place.one_of(measure, list(self.measures))
        for i, name in enumerate(getattr(self.figure, "capacity", ())):
            where.at("figure").at("capacity").at(i).one_of(name, list(self.traces))
        for case in (self.verdict.case, *self.figure.cases):
            if case in self.cases and self.cases[case].on is not None:
                raise (
                    where.at("cases")
                    .at(case)
                    .at("on")
                    .error(
                        "the verdict or the figure needs the case on every backend: remove the key"
                    )
                )
        judged = self.measures[self.verdict.measure]
        where.at("verdict").at("case").one_of(self.verdict.case, judged.cases)

    def _named_cases(self, where: Where) -> Iterator[tuple[Where, str]]:
        for name, measure in self.measures.items():
            place = where.at("measures").at(name)
            for key, cases in (("cases", measure.cases), ("best_of", measure.best_of)):
                yield from ((place.at(key).at(i), case) for i, case in enumerate(cases))
        yield from ((where.at("figure").at("cases"), case) for case in self.figure.cases)

    def _named_measures(self, where: Where) -> Iterator[tuple[Where, str]]:
        yield where.at("verdict").at("measure"), self.verdict.measure
        for key, name in self.figure.measures.items():
            yield where.at("figure").at(key), name


@dataclass(frozen=True)
class Study:
    """A study's folder, read and checked."""

    name: str
    folder: Path
    entries: Entries

    def inputs(self) -> dict[str, bytes]:
        """The trace files that the study describes, by name."""
        return {name: mahimahi(trace) for name, trace in self.entries.traces.items()}
