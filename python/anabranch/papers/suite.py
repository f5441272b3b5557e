"""The types of a paper's files, which together are one table, a `Paper`."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from anabranch import _core
from anabranch.experiments.case import Case
from anabranch.experiments.drawings import Bars, Distribution, Figure, FromRuns, Series
from anabranch.experiments.suite import Taken
from anabranch.papers.checks import Check
from anabranch.quantities import QUANTITIES
from anabranch.scenario import ScenarioError
from anabranch.typed_toml import KEY, Placed, Some, Values, Where, check_call

Seeds = Annotated[tuple[int, ...], Some("seed")]
During = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Setup:
    """A case of a group."""

    case: Case
    algorithm: str
    """As in a scenario file, such as `balia:cap=inf`."""
    overrides: Values
    """Values of the scenario to replace, by dotted key."""


@dataclass(frozen=True)
class Algorithm:
    """One algorithm of a group, under a label."""

    algorithm: str | None = None
    """As in a scenario file; None is the label."""
    set: Values = field(default_factory=dict)
    """Values of the scenario to replace, by dotted key."""


@dataclass(frozen=True)
class Group(Placed):
    """Runs of one scenario file: every setting with every algorithm."""

    scenario: str
    """The file, in the paper's folder."""
    algorithms: Mapping[str, Algorithm]
    """Algorithms by label, the last part of a case's name."""
    settings: Mapping[str, Values] = field(default_factory=dict)
    """Values of the scenario to replace, by the first parts of a case's name."""
    set: Values = field(default_factory=dict)
    """Values of the scenario to replace in every run, before those of the setting."""
    quick: Values | None = None
    """Values to replace with `--quick`; None is the `set` of `[quick]`."""
    seeds: Seeds | None = None
    """Seeds of the group, with and without `--quick`."""

    def validate(self, where: Where) -> None:
        """Test that the algorithms exist."""
        for label, name in self.named.items():
            try:
                _core.algorithm(name)
            except ScenarioError as error:
                raise where.at("algorithms").at(label).error(str(error)) from error

    @property
    def named(self) -> dict[str, str]:
        """The algorithms as in a scenario file, by label."""
        return {label: entry.algorithm or label for label, entry in self.algorithms.items()}

    def setups(self) -> list[Setup]:
        """Every setting with every algorithm; without settings a case has the algorithm's name."""
        return [
            Setup(Case.of(setting, label), name, {**self.set, **values, **own.set})
            for setting, values in (self.settings or {"": {}}).items()
            for (label, own), name in zip(self.algorithms.items(), self.named.values(), strict=True)
        ]


@dataclass(frozen=True)
class Quick:
    """Changes by `--quick`."""

    seeds: Seeds
    """The seeds with `--quick`."""
    set: Values = field(default_factory=dict)
    """Values of every scenario to replace, by dotted key."""


@dataclass(frozen=True)
class Measure(Taken):
    """A quantity taken in the runs of a group: one number per case and seed."""

    metric: str
    """The name of the number."""
    group: str = ""
    """The group of the runs; the item's if empty."""
    cases: tuple[Case, ...] | None = None
    """Some of the group's cases; None is the item's, or all."""
    case: str = "{case}"
    """The name of a case in the item, in which {case} and {algorithm} are replaced. The numbers of
    cases with the same name are averaged seed by seed."""
    during: During = field(default_factory=dict)
    """Intervals, in s, by the first part of the case's name; none is the item's."""

    def validate(self, where: Where) -> None:
        """Test that quantity, parameters and renaming exist."""
        super().validate(where)
        try:
            Case("setting.algorithm").renamed(self.case)
        except (LookupError, ValueError) as error:
            message = f"expected a name with {{case}} or {{algorithm}}, got {self.case!r}"
            raise where.at("case").error(message) from error

    def each(self) -> Iterator["Measure"]:
        """The measure over each of its intervals, unless it has an interval of its own."""
        if not self.during or self.parameters.keys() & {"from_s", "to_s"}:
            yield replace(self, during={})
            return
        for name, (from_s, to_s) in self.during.items():
            parameters = {**self.parameters, "from_s": from_s, "to_s": to_s}
            check_call(QUANTITIES[self.quantity], parameters, Measure, self.where)
            yield replace(self, case=f"{name}.{self.case}", during={}, parameters=parameters)


OfRuns = TypeVar("OfRuns", bound=Measure | Series | Distribution)


def takes(one: Measure | FromRuns, group: str, case: Case) -> bool:
    """Whether a measure or figure is taken in the runs of a case of a group."""
    return one.group == group and (one.cases is None or case in one.cases)


@dataclass(frozen=True)
class Drop(Placed):
    """The decrease from one case of a metric to another, in percent, seed by seed."""

    metric: str
    """The name of the number."""
    case: Case
    """The name of the decrease."""
    of: str
    """The metric that decreases."""
    from_: Case
    """The case with the first value."""
    to: Case
    """The case with the last value."""


@dataclass(frozen=True)
class Metric(Placed):
    """Printed numbers of a metric of one item."""

    published: Mapping[str, float] = field(default_factory=dict)
    """The paper's measurements by case."""
    theory: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The paper's calculations by kind, and by case or setting."""
    repeats: bool = False
    """Whether the numbers are those of another item, or computed from them."""
    inferred: tuple[Case, ...] = ()
    """Cases that the paper says to have the number of another, and does not print; not counted."""

    def validate(self, where: Where) -> None:
        for case in self.inferred:
            if case not in self.published:
                raise where.at("inferred").error(f"{case} is not among the published cases")

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
class Item(Placed):
    """A table or figure of the paper: what is printed, measured and drawn."""

    id: str = field(metadata=KEY)
    title: str = ""
    """Quantities that the table or figure shows; required."""
    place: str = ""
    """Where in the paper; required."""
    own: bool = False
    """Whether it is a study of ours, and in no table or figure of the paper."""
    printed: Mapping[str, Metric] = field(default_factory=dict)
    """Printed numbers by metric."""
    measures: tuple[Measure, ...] = ()
    """Numbers of the table or figure."""
    figures: tuple[Figure, ...] | None = None
    """None draws bars of all metrics."""
    drops: tuple[Drop, ...] = ()
    """Decreases from one of its numbers to another."""
    group: str = ""
    """The group of the measures and figures without one of their own."""
    cases: tuple[Case, ...] | None = None
    """The cases of the measures and figures without their own; None is all of the group."""
    during: During = field(default_factory=dict)
    """Intervals, in s, of the measures without their own."""

    @cached_property
    def taken(self) -> list[Measure]:
        """The measures with the item's group and cases, one for each interval."""
        found = [replace(self._own(one), during=one.during or self.during) for one in self.measures]
        return [each for one in found for each in one.each()]

    @cached_property
    def drawn(self) -> list[Figure]:
        """The figures, those drawn from runs with the item's group and cases."""
        found = (Bars(),) if self.figures is None else self.figures
        return [self._own(one) if isinstance(one, Series | Distribution) else one for one in found]

    def _own(self, one: OfRuns) -> OfRuns:
        """A measure or figure with the item's group and cases, where it has none of its own."""
        cases = self.cases if one.cases is None else one.cases
        return replace(one, group=one.group or self.group, cases=cases)

    def metric(self, name: str) -> Metric:
        """Printed numbers of a metric; none for one that the paper does not print."""
        return self.printed.get(name, Metric())

    def with_theory(self, metric: str, kind: str, case: str, value: float) -> "Item":
        """The item with one more theory value."""
        facts = self.metric(metric)
        theory = {**facts.theory, kind: {**facts.theory.get(kind, {}), case: value}}
        return replace(self, printed={**self.printed, metric: replace(facts, theory=theory)})

    def measured(self, groups: Mapping[str, Group]) -> dict[str, list[Case]]:
        """The cases of the numbers taken in runs, by metric."""
        cases: dict[str, list[Case]] = {}
        for measure in self.taken:
            for setup in groups[measure.group].setups():
                if takes(measure, measure.group, setup.case):
                    cases.setdefault(measure.metric, []).append(setup.case.renamed(measure.case))
        return cases


@dataclass(frozen=True)
class Stated(Placed):
    """A claim of the paper, or ours, and what decides it."""

    id: str = field(metadata=KEY)
    """Name, such as f2."""
    item: str
    """The table or figure, by its id."""
    text: str
    """The claim in our words."""
    check: Check
    """Test that decides it."""
    band: str = ""
    """The reason for the width of the check's band."""
    not_reproduced: str = ""
    """Why the claim fails, found by experiment."""
    own: bool = False
    """Whether the claim is ours and not the paper's."""
    rests_on: tuple[str, ...] = ()
    """The choices without which the verdict would be another."""


@dataclass(frozen=True)
class Choice:
    """A choice made after results were seen."""

    text: str
    """The choice."""
    when: str
    """When it was made."""
    otherwise: str
    """Result of the other choice."""


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
class Assumed:
    """Gap in the paper's specification."""

    field: str
    """Detail that is not specified."""
    value: str
    """The value assumed."""
    why: str
    """The reason."""


@dataclass(frozen=True)
class Predictions(Placed):
    """The theory values computed in addition to the paper's own."""

    groups: tuple[str, ...]
    """The groups whose runs are predicted."""
    rtt_ms: float
    """The RTT of every path, queueing included."""


@dataclass(frozen=True)
class Agreed(Placed):
    """The cases that `anabranch agree` runs on several backends."""

    seeds: Seeds
    """The seeds on every backend."""
    items: Mapping[str, tuple[Case, ...]]
    """The cases by item, each after the name of its group: `C.n1_10.lia`."""
    set: Values = field(default_factory=dict)
    """Values of every scenario to replace, by dotted key."""


@dataclass(frozen=True, kw_only=True)
class Described:
    """The part of a paper's files that its report repeats."""

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
    labels: Mapping[str, str] = field(default_factory=dict)
    """The text for each part of the names of metrics and cases."""
    average: Literal["mean", "median"] = "mean"
    """How measured numbers are averaged over the seeds."""
    theory: Mapping[str, str] = field(default_factory=dict)
    """The meaning of each kind of theory value."""
    assumed: tuple[Assumed, ...] = ()
    """Details that the paper does not specify."""
    choices: Mapping[str, Choice] = field(default_factory=dict)
    """Choices made after results were seen, by name."""
    errata: Mapping[str, Erratum]
    """The errors by name."""


@dataclass(frozen=True, kw_only=True)
class Paper(Described):
    """A paper's folder."""

    folder: Path = field(default=Path(), metadata={"given": True})
    seeds: Seeds
    """The seeds of every case."""
    quick: Quick
    """Changes of `--quick`."""
    groups: Mapping[str, Group]
    """The runs, by the name of the group."""
    items: Mapping[str, Item]
    """The tables and figures by id."""
    claims: Mapping[str, Stated]
    """The claims by name."""
    predictions: Predictions | None = None
    """Theory values computed in addition to the paper's own."""
    agreement: Agreed | None = None
    """The cases that `anabranch agree` runs on several backends."""

    @property
    def drops(self) -> list[tuple[str, Drop]]:
        """The decreases, each with its item."""
        return [(item.id, drop) for item in self.items.values() for drop in item.drops]

    @property
    def judged(self) -> "Paper":
        """The paper without the items that have neither claims nor printed numbers of their own."""

        def counts(item: Item) -> bool:
            printed = item.printed.values()
            return bool(self.claims_of(item)) or any(m.published and not m.repeats for m in printed)

        return replace(self, items={id: item for id, item in self.items.items() if counts(item)})

    def claims_of(self, item: Item) -> list[Stated]:
        """The claims on a table or figure."""
        return [claim for claim in self.claims.values() if claim.item == item.id]


def repeated(claims: Iterable[Stated]) -> dict[str, Stated]:
    """The claims with the reasons that "As a1." refers to: "As a1: " and the reason of claim a1.

    What follows the reference comes after "Here: ". Applies to the texts `band` and
    `not_reproduced`.
    """
    known = {claim.id: claim for claim in claims}

    def whole(key: str, text: str) -> str:
        found = re.fullmatch(r"As (\w+)(?:[.;:,]\s*(.*))?", text, re.DOTALL)
        reason = getattr(known.get(found[1]), key, "") if found else ""
        if not (found and reason):
            return text
        there = f"As {found[1]}: {whole(key, reason)}"
        return f"{there} Here: {found[2]}" if found[2] else there

    def explained(one: Stated) -> Stated:
        band = whole("band", one.band)
        return replace(one, band=band, not_reproduced=whole("not_reproduced", one.not_reproduced))

    return {id: explained(one) for id, one in known.items()}
