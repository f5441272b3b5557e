"""A paper as a whole: what its files say, joined by table or figure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from anabranch.papers.entries.case import Case
from anabranch.papers.entries.claims import Choice, Stated
from anabranch.papers.entries.experiments import (
    Agreed,
    Assumed,
    Drop,
    Experiment,
    Group,
    Measure,
    Predictions,
    Quick,
    Setup,
)
from anabranch.papers.entries.figures import Bars, Figure, Series, Tail
from anabranch.papers.entries.published import About, Erratum, Metric, Printed
from anabranch.typed_toml import Values


@dataclass(frozen=True)
class Item:
    """A table or figure of the paper: what is printed, measured, drawn and claimed."""

    id: str
    title: str
    place: str
    metrics: Mapping[str, Metric]
    """Printed numbers, by metric."""
    measures: Sequence[Measure] = ()
    """Each with its group and cases."""
    drops: Sequence[Drop] = ()
    figures: Sequence[Figure] = ()
    claims: Sequence[Stated] = ()
    own: bool = False
    """Whether it is a study of ours."""

    @classmethod
    def of(
        cls, id: str, printed: Printed, experiment: Experiment | None, claims: Sequence[Stated]
    ) -> "Item":
        """One item of the three files; without `figures` it has bars of all metrics."""
        ours = experiment or Experiment(id)
        return cls(
            id=id,
            title=printed.title,
            place=printed.place,
            metrics=printed.metrics,
            measures=list(ours.each_measure()),
            drops=ours.drops,
            figures=[Bars()] if ours.figures is None else list(ours.each_figure()),
            claims=[claim for claim in claims if claim.item == id],
            own=printed.own,
        )

    def metric(self, name: str) -> Metric:
        """Printed numbers of a metric; none for one that the paper does not print."""
        return self.metrics.get(name, Metric())

    def with_theory(self, metric: str, kind: str, case: str, value: float) -> "Item":
        """The item with one more theory value."""
        facts = self.metric(metric)
        theory = {**facts.theory, kind: {**facts.theory.get(kind, {}), case: value}}
        return replace(self, metrics={**self.metrics, metric: replace(facts, theory=theory)})

    def measured(self, groups: Mapping[str, Group]) -> dict[str, list[Case]]:
        """The cases of the numbers taken in runs, by metric."""
        cases: dict[str, list[Case]] = {}
        for measure in self.measures:
            for setup in groups[measure.group].setups():
                if measure.takes(setup.case):
                    cases.setdefault(measure.metric, []).append(setup.case.renamed(measure.case))
        return cases


@dataclass(frozen=True, kw_only=True)
class Described:
    """The part of a paper's files that its report repeats."""

    labels: Mapping[str, str]
    """Text for each part of the names of metrics and cases."""
    average: str
    """How measured numbers are averaged over the seeds: mean or median."""
    theory: Mapping[str, str]
    """The meaning of each kind of theory value."""
    assumed: Sequence[Assumed]
    choices: Mapping[str, Choice]
    """Choices made after results were seen, by name."""
    errata: Sequence[Erratum]

    def described(self) -> dict[str, Any]:
        """These parts by name."""
        return {one.name: getattr(self, one.name) for one in fields(Described)}


@dataclass(frozen=True, kw_only=True)
class Paper(Described):
    """The contents of a paper's folder."""

    name: str
    folder: Path
    about: About
    seeds: Sequence[int]
    quick: Quick
    groups: Mapping[str, Group]
    items: Mapping[str, Item]
    """Items by id, in the order of `published.toml`."""
    predictions: Predictions | None
    agreement: Agreed | None

    @property
    def claims(self) -> list[Stated]:
        """All claims, in the order of the items."""
        return [claim for item in self.items.values() for claim in item.claims]

    def seeds_of(self, group: Group, quick: bool) -> list[int]:
        """The seeds of a group's cases."""
        return list(group.seeds or (self.quick.seeds if quick else self.seeds))

    def overrides(self, group: Group, setup: Setup, quick: bool) -> Values:
        """The values of the scenario that a case replaces."""
        shorter = self.quick.set if group.quick is None else group.quick
        return {**setup.overrides, **(shorter if quick else {})}

    def measures(self, group: str) -> list[tuple[Item, Measure]]:
        """Every measure of a group, with its item."""
        return [
            (item, measure)
            for item in self.items.values()
            for measure in item.measures
            if measure.group == group
        ]

    def drawn(self, group: str) -> list[tuple[tuple[str, int], Series | Tail]]:
        """Every figure drawn from the runs of a group, by item and index among its figures."""
        return [
            ((item.id, number), figure)
            for item in self.items.values()
            for number, figure in enumerate(item.figures)
            if isinstance(figure, Series | Tail) and figure.group == group
        ]
