"""Compare backends: some cases of a paper, run on each backend.

`[agreement]` in a paper's `experiments.toml` selects the items, cases, seeds and durations, because
runs on the kernel backend take real time.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from anabranch.experiments.trial import part
from anabranch.files import output
from anabranch.formats import csv_table, interval, markdown_table, number, percent
from anabranch.papers.entries.case import Case
from anabranch.papers.entries.experiments import Measure
from anabranch.papers.entries.paper import Item, Paper
from anabranch.papers.folder import open_paper
from anabranch.papers.reproduce import measure_all
from anabranch.result import mean_with_interval
from anabranch.runner import Progress, known_backend
from anabranch.scenario import ScenarioError
from anabranch.typed_toml import Values

Means = dict[tuple[str, str, str], tuple[float, float, bool] | None]
"""Mean, half its 95 % interval and whether a run was too late (docs/reference/lab.md), by item,
metric and case; None where theory did not converge.

Cases for which a backend has no number are absent.
"""


@dataclass(frozen=True)
class Line:
    """One case of a metric on all backends."""

    item: str
    metric: str
    case: str
    published: float | None
    theory: Mapping[str, float]
    """Theory values by kind, such as `fixed_point` or `opt_probing`."""
    measured: Mapping[str, float | None]
    """Mean over runs by backend; None where theory did not converge."""
    interval: Mapping[str, float | None]
    """Half the 95 % interval by backend."""
    late: Sequence[str] = ()
    """The backends with a run that was too late (docs/reference/lab.md)."""

    def difference(self, backend: str, other: str) -> float | None:
        """The difference of two backends' means relative to that of `other`."""
        of, base = self.measured.get(backend), self.measured.get(other)
        return None if of is None or not base else (of - base) / base

    def written(self, backend: str) -> str:
        """A backend's mean with its interval, as text."""
        mean, half = self.measured.get(backend), self.interval.get(backend)
        if backend in self.measured and mean is None:
            return "not converged"
        late = " (late)" if backend in self.late else ""
        return interval(mean, half, ".3g", ".2g", missing="") + late


@dataclass(frozen=True)
class Agreement:
    """A paper's numbers on several backends; differences are relative to the first."""

    paper: str
    backends: Sequence[str]
    lines: Sequence[Line]
    labels: Mapping[str, str]
    runs: int
    """The number of seeds."""

    def label(self, name: str) -> str:
        """The text for a case or metric."""
        whole = self.labels.get(name)
        return whole or ", ".join(self.labels.get(part, part) for part in Case(name).parts)

    def as_dict(self) -> dict[str, Any]:
        """The comparison as plain data for JSON."""
        first = self.backends[0]
        rows = [
            {
                **vars(line),
                "theory": dict(line.theory),
                "difference": {b: line.difference(b, first) for b in self.backends[1:]},
            }
            for line in self.lines
        ]
        return {
            "paper": self.paper,
            "backends": list(self.backends),
            "runs": self.runs,
            "rows": rows,
        }

    def tables(self) -> Iterator[tuple[list[str], list[list[str]]]]:
        """Header and rows of a table per metric; differences are relative to the first backend."""
        first, *others = self.backends
        for metric in dict.fromkeys(line.metric for line in self.lines):
            lines = [line for line in self.lines if line.metric == metric]
            kinds = list(dict.fromkeys(kind for line in lines for kind in line.theory))
            header = [self.label(metric), "published", *map(self.label, kinds), *self.backends]
            header += [f"{other} from {first}" for other in others]
            yield (
                header,
                [
                    [
                        self.label(line.case),
                        number(line.published, ".3g"),
                        *(number(line.theory.get(kind), ".3g") for kind in kinds),
                        *(line.written(backend) for backend in self.backends),
                        *(percent(line.difference(other, first)) for other in others),
                    ]
                    for line in lines
                ],
            )

    def record(self) -> str:
        """A row per case of a metric as CSV: each backend's mean, and half its 95 % interval."""
        columns = [name for backend in self.backends for name in (backend, f"{backend} ci95")]
        rows = [
            [
                line.metric,
                line.case,
                number(line.published, ".3g"),
                *(
                    number(values.get(backend), form)
                    for backend in self.backends
                    for values, form in ((line.measured, ".3g"), (line.interval, ".2g"))
                ),
            ]
            for line in self.lines
        ]
        return csv_table(["metric", "case", "published", *columns], rows)

    def markdown(self) -> str:
        """The tables in Markdown."""
        blocks = ("\n".join(markdown_table(*table)) + "\n" for table in self.tables())
        return "\n".join(blocks)


def agree(
    name: str,
    backends: Sequence[str],
    out: Path | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
    beside: Path | None = None,
    set: Values | None = None,
    force: bool = False,
    store: Path | None = None,
) -> Agreement:
    """Run the cases of a paper's `[agreement]` on each backend.

    Differences are relative to the first backend. `jobs` is the number of concurrent runs, by
    default one per core, and one on the kernel. agreement.json and agreement.md are written to
    `out`, which must be empty unless `force`. `beside` is the agreement.json of an earlier run,
    whose backends are appended.
    `set` replaces values of all scenarios, by dotted key. `progress` is called with the
    fraction done, 0 to 1.

    Raises `ScenarioError` for an unknown paper or backend, a paper without `[agreement]`, or a file
    `beside` that is not an agreement.json of the same paper.
    """
    for backend in backends:
        known_backend(backend)  # fails early, before the runs on another backend
    paper = narrowed(open_paper(name), set or {})
    earlier = _earlier(beside, name) if beside else {}
    with output(out, force) as stage:
        means = {}
        for i, backend in enumerate(backends):
            of_backend = part(progress, i / len(backends), 1 / len(backends))
            means[backend] = _means(paper, backend, jobs, of_backend, store)
        means = {**earlier, **means}
        agreement = Agreement(
            paper=name,
            backends=list(dict.fromkeys([*backends, *earlier])),
            lines=list(_lines(paper, means)),
            labels=paper.labels,
            runs=len(paper.seeds),
        )
        if stage:
            (stage / "agreement.md").write_text(agreement.markdown(), encoding="utf-8")
            data = json.dumps(agreement.as_dict(), indent=1, allow_nan=False)
            (stage / "agreement.json").write_text(data + "\n", encoding="utf-8")
    return agreement


def narrowed(paper: Paper, set: Values) -> Paper:
    """The paper reduced to the items, cases, seeds and durations of its `[agreement]`.

    The values of `set` take precedence over the paper's own values.

    Raises `ScenarioError` for a paper without `[agreement]`.
    """
    agreed = paper.agreement
    if agreed is None:
        raise ScenarioError(
            f"papers/{paper.name}/experiments.toml has no [agreement], which selects "
            "the cases to run on several backends"
        )
    values = {**agreed.set, **set}
    items = {
        id: replace(item, measures=list(_chosen(item, agreed.items[id])), figures=())
        for id, item in paper.items.items()
        if id in agreed.items
    }
    groups = {
        name: replace(
            group,
            algorithms={
                label: replace(one, set={**one.set, **values})
                for label, one in group.algorithms.items()
            },
            seeds=agreed.seeds,
        )
        for name, group in paper.groups.items()
    }
    return replace(paper, items=items, groups=groups, seeds=agreed.seeds)


def _chosen(item: Item, cases: Sequence[Case]) -> Iterator[Measure]:
    """An item's measures for these cases, each named `group.case`."""
    for measure in item.measures:
        of_group = [one for case in cases if (one := case.within(measure.group))]
        if of_group:
            yield replace(measure, cases=tuple(of_group))


def _means(
    paper: Paper, backend: str, jobs: int | None, progress: Progress | None, store: Path | None
) -> Means:
    """The means of one backend."""
    measured = measure_all(paper, False, progress, on=backend, jobs=jobs, store=store)
    numbers = measured.numbers.dropna(subset="value")
    means = mean_with_interval(numbers, ["item", "metric", "case"], ["value"])
    keys = means[["item", "metric", "case"]].itertuples(index=False, name=None)
    values = means[["value", "value_ci95"]].itertuples(index=False, name=None)
    late = set(measured.late)
    of_cases = zip(keys, values, strict=True)
    solved: Means = {key: (mean, half, key in late) for key, (mean, half) in of_cases}
    return solved | dict.fromkeys(measured.unsolved)


def _earlier(file: Path, name: str) -> dict[str, Means]:
    """The means in the agreement.json of an earlier run, by backend."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        if data["paper"] != name:
            raise ScenarioError(f"{file}: expected a run of {name}, got one of {data['paper']}")
        return {
            backend: {
                (row["item"], row["metric"], row["case"]): _mean(
                    row["measured"][backend],
                    row["interval"].get(backend),
                    backend in row.get("late", ()),
                )
                for row in data["rows"]
                if backend in row["measured"]
            }
            for backend in data["backends"]
        }
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, ScenarioError):
            raise
        raise ScenarioError(
            f"{file}: expected an agreement.json written by `anabranch agree`"
        ) from error


def _mean(mean: float | None, half: float | None, late: bool) -> tuple[float, float, bool] | None:
    return None if mean is None else (mean, float("nan") if half is None else half, late)


def _lines(paper: Paper, means: Mapping[str, Means]) -> Iterator[Line]:
    for item, metric, case in dict.fromkeys(key for of in means.values() for key in of):
        printed = paper.items[item].metric(metric)
        key = item, metric, case
        there = {backend: of[key] for backend, of in means.items() if key in of}
        yield Line(
            item=item,
            metric=metric,
            case=case,
            published=printed.published.get(case),
            theory=printed.theory_of(Case(case)),
            measured={backend: pair and pair[0] for backend, pair in there.items()},
            interval={
                backend: None if pd.isna(pair[1]) else pair[1]
                for backend, pair in there.items()
                if pair
            },
            late=[backend for backend, pair in there.items() if pair and pair[2]],
        )
