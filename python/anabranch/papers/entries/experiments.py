"""The types of `experiments.toml`: runs, and what is measured in them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from anabranch import _core
from anabranch.papers.entries.case import Case
from anabranch.papers.entries.figures import Figure, Series, Tail
from anabranch.quantities import QUANTITIES
from anabranch.scenario import ScenarioError
from anabranch.typed_toml import KEY, REST, Placed, Some, Values, Where, check_call

Seeds = Annotated[tuple[int, ...], Some("seed")]


@dataclass(frozen=True)
class Setup:
    """Changes of the scenario in a case of a group."""

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

    def named(self, label: str) -> str:
        """The algorithm as in a scenario file."""
        return self.algorithm or label


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
        for label, entry in self.algorithms.items():
            try:
                _core.algorithm(entry.named(label))
            except ScenarioError as error:
                raise where.at("algorithms").at(label).error(str(error)) from error

    def setups(self) -> list[Setup]:
        """Every setting with every algorithm; without settings a case has the algorithm's name."""
        return [
            Setup(
                case=Case.of(setting, label),
                algorithm=entry.named(label),
                overrides={**self.set, **values, **entry.set},
            )
            for setting, values in (self.settings or {"": {}}).items()
            for label, entry in self.algorithms.items()
        ]


@dataclass(frozen=True)
class Quick:
    """Changes by `--quick`."""

    seeds: Seeds
    """The seeds with `--quick`."""
    set: Values = field(default_factory=dict)
    """Values of every scenario to replace, by dotted key."""


@dataclass(frozen=True)
class Measure(Placed):
    """A quantity taken in the runs of a group: one number per case and seed."""

    metric: str
    """The name of the number."""
    quantity: str
    """The function of a run that gives it."""
    group: str = ""
    """The group of the runs; the item's if empty."""
    cases: tuple[Case, ...] | None = None
    """Some of the group's cases; None is the item's, or all."""
    case: str = "{case}"
    """The name of a case in the item, in which {case} and {algorithm} are replaced. The numbers of
    cases with the same name are averaged seed by seed."""
    during: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Intervals, in s, by the first part of the case's name; none is the item's."""
    parameters: Values = field(default_factory=dict, metadata=REST)
    """The parameters of the quantity."""

    def validate(self, where: Where) -> None:
        """Test that quantity, parameters and renaming exist."""
        where.at("quantity").one_of(self.quantity, list(QUANTITIES))
        check_call(QUANTITIES[self.quantity], self.parameters, Measure, where)
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
            case = f"{name}.{self.case}"
            yield replace(self, case=case, during={}, parameters=parameters)

    def takes(self, case: Case) -> bool:
        """Whether it is taken in the runs of a case of its group."""
        return self.cases is None or case in self.cases


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
class Experiment(Placed):
    """Measures of one table or figure."""

    id: str = field(metadata=KEY)
    """Key in `published.toml`."""
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
    during: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Intervals, in s, of the measures without their own."""

    def each_measure(self) -> Iterator[Measure]:
        """The measures with the item's group and cases, one for each interval."""
        for one in self.measures:
            yield from replace(
                one,
                group=one.group or self.group,
                cases=self.cases if one.cases is None else one.cases,
                during=one.during or self.during,
            ).each()

    def each_figure(self) -> Iterator[Figure]:
        """The figures, those drawn from runs with the item's group and cases."""
        for one in self.figures or ():
            if isinstance(one, Series | Tail):
                cases = self.cases if one.cases is None else one.cases
                yield replace(one, group=one.group or self.group, cases=cases)
            else:
                yield one


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
class Experiments:
    """The whole of `experiments.toml`."""

    seeds: Seeds
    """The seeds of every case."""
    quick: Quick
    """Changes of `--quick`."""
    groups: Mapping[str, Group]
    """The runs, by the name of the group."""
    items: Mapping[str, Experiment]
    """Measurements by table or figure."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """The text for each part of a name."""
    assumed: tuple[Assumed, ...] = ()
    """Details that the paper does not specify."""
    average: Literal["mean", "median"] = "mean"
    """How measured numbers are averaged over the seeds."""
    predictions: Predictions | None = None
    """Theory values computed in addition to the paper's own."""
    agreement: Agreed | None = None
    """The cases that `anabranch agree` runs on several backends."""
