"""Compare backends: some cases of a paper, run on each backend.

`[agreement]` in a paper's `experiments.toml` selects the items, cases, seeds and durations, because
runs on the kernel backend take real time.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from anabranch.experiments.case import Case
from anabranch.experiments.trial import part
from anabranch.files import output
from anabranch.formats import csv_table, interval, json_text, markdown_table, number, percent
from anabranch.intervals import mean_with_interval
from anabranch.papers.folder import open_paper
from anabranch.papers.reproduce import Name, measure_all
from anabranch.papers.suite import Paper
from anabranch.runner import Progress, known_backend
from anabranch.scenario import ScenarioError
from anabranch.typed_toml import Values


@dataclass(frozen=True)
class Line:
    """One case of a metric on all backends; those without a number are absent."""

    item: str
    metric: str
    case: str
    published: float | None
    theory: Mapping[str, float]
    """Theory values by kind, such as `fixed_point` or `opt_probing`."""
    measured: dict[str, float | None] = field(default_factory=dict)
    """Mean over runs by backend; None where theory did not converge."""
    interval: dict[str, float | None] = field(default_factory=dict)
    """Half the 95 % interval by backend."""
    late: list[str] = field(default_factory=list)
    """The backends with a run that was too late (docs/reference/lab.md)."""

    @property
    def name(self) -> Name:
        """Item, metric and case."""
        return self.item, self.metric, self.case

    def difference(self, backend: str, other: str) -> float | None:
        """The difference of two backends' means relative to that of `other`."""
        of, base = self.measured.get(backend), self.measured.get(other)
        return None if of is None or not base else (of - base) / base

    def written(self, backend: str) -> str:
        """A backend's mean with its interval, as text."""
        mean = self.measured.get(backend)
        if backend in self.measured and mean is None:
            return "not converged"
        late = " (late)" if backend in self.late else ""
        return interval(mean, self.interval.get(backend), ".3g", ".2g", missing="") + late

    def take(self, other: "Line", but: Sequence[str] = ()) -> None:
        """Add the backends that another line has and this one lacks, but for some."""
        for backend, mean in other.measured.items():
            if backend not in self.measured and backend not in but:
                self.measured[backend] = mean
                self.interval[backend] = other.interval.get(backend)
                self.late.extend([backend] if backend in other.late else [])


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
        return Case(name).labelled(self.labels)

    def as_dict(self) -> dict[str, Any]:
        """The comparison as plain data for JSON."""
        first, *others = self.backends
        rows = []
        for line in self.lines:
            differences = {other: line.difference(other, first) for other in others}
            rows.append({**vars(line), "difference": differences})
        head = {"paper": self.paper, "backends": list(self.backends), "runs": self.runs}
        return {**head, "rows": rows}

    def tables(self) -> Iterator[tuple[list[str], list[list[str]]]]:
        """Header and rows of a table per metric; differences are relative to the first backend."""
        first, *others = self.backends
        for metric in dict.fromkeys(line.metric for line in self.lines):
            lines = [line for line in self.lines if line.metric == metric]
            kinds = list(dict.fromkeys(kind for line in lines for kind in line.theory))
            header = [self.label(metric), "published", *map(self.label, kinds), *self.backends]
            rows = []
            for line in lines:
                known = [line.published, *map(line.theory.get, kinds)]
                row = [self.label(line.case), *(number(value, ".3g") for value in known)]
                row += map(line.written, self.backends)
                rows.append([*row, *(percent(line.difference(b, first)) for b in others)])
            yield [*header, *(f"{other} from {first}" for other in others)], rows

    def record(self) -> str:
        """A row per case of a metric as CSV: each backend's mean, and half its 95 % interval."""
        columns = [name for backend in self.backends for name in (backend, f"{backend} ci95")]
        rows = []
        for line in self.lines:
            means = (number(line.measured.get(backend), ".3g") for backend in self.backends)
            halves = (number(line.interval.get(backend), ".2g") for backend in self.backends)
            names = [line.metric, line.case, number(line.published, ".3g")]
            rows.append(
                [*names, *(cell for pair in zip(means, halves, strict=True) for cell in pair)]
            )
        return csv_table(["metric", "case", "published", *columns], rows)

    def markdown(self) -> str:
        """The tables in Markdown."""
        return "\n".join("\n".join(markdown_table(*table)) + "\n" for table in self.tables())


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
    whose backends are appended. `set` replaces values of all scenarios, by dotted key. `store`
    keeps each run. `progress` is called with the fraction done, 0 to 1.

    Raises `ScenarioError` for an unknown paper or backend, a paper without `[agreement]`, or a file
    `beside` that is not an agreement.json of the same paper.
    """
    for backend in backends:
        known_backend(backend)  # fails early, before the runs on another backend
    paper = narrowed(open_paper(name), set or {})
    before = earlier(beside, name) if beside else []
    with output(out, force) as stage:
        lines: dict[Name, Line] = {}
        shown = list(backends)
        for i, backend in enumerate(backends):
            share = part(progress, i / len(backends), 1 / len(backends))
            for line in _measured(paper, backend, jobs, share, store):
                lines.setdefault(line.name, line).take(line)
        for line in before:
            lines.setdefault(line.name, line).take(line, but=backends)
            shown += [backend for backend in line.measured if backend not in shown]
        agreement = Agreement(name, shown, list(lines.values()), paper.labels, len(paper.seeds))
        if stage:
            data = json_text(agreement.as_dict()) + "\n"
            for suffix, text in (("md", agreement.markdown()), ("json", data)):
                (stage / f"agreement.{suffix}").write_text(text, encoding="utf-8")
    return agreement


def narrowed(paper: Paper, set: Values) -> Paper:
    """The paper reduced to the items, cases, seeds and durations of its `[agreement]`.

    The values of `set` take precedence over the paper's own values.

    Raises `ScenarioError` for a paper without `[agreement]`.
    """
    agreed = paper.agreement
    if agreed is None:
        raise ScenarioError(
            f"papers/{paper.folder.name}/experiments.toml has no [agreement], which selects "
            "the cases to run on several backends"
        )
    values = {**agreed.set, **set}
    items = {}
    for id in (id for id in paper.items if id in agreed.items):
        measures = []
        for one in paper.items[id].taken:
            named = (case.partition(".") for case in agreed.items[id])
            own = tuple(Case(case) for group, _, case in named if group == one.group)
            measures += [replace(one, cases=own)] if own else []
        items[id] = replace(paper.items[id], measures=tuple(measures), figures=())
    groups = {}
    for name, group in paper.groups.items():
        rules = group.algorithms.items()
        algorithms = {label: replace(one, set={**one.set, **values}) for label, one in rules}
        groups[name] = replace(group, algorithms=algorithms, seeds=agreed.seeds)
    return replace(paper, items=items, groups=groups, seeds=agreed.seeds)


def _measured(
    paper: Paper, backend: str, jobs: int | None, progress: Progress | None, store: Path | None
) -> Iterator[Line]:
    """The numbers of one backend."""
    measured = measure_all(paper, False, progress, on=backend, jobs=jobs, store=store)
    numbers = measured.numbers.dropna(subset="value")
    means = mean_with_interval(numbers, ["item", "metric", "case"], ["value"])
    rows = [*means.itertuples(index=False, name=None)]
    for item, metric, case, mean, half in [*rows, *((*n, None, None) for n in measured.unsolved)]:
        printed = paper.items[item].metric(metric)
        line = Line(item, metric, case, printed.published.get(case), printed.theory_of(Case(case)))
        line.measured[backend] = mean
        if mean is not None:
            line.interval[backend] = None if pd.isna(half) else half
        line.late.extend([backend] if line.name in measured.late else [])
        yield line


def earlier(file: Path, name: str) -> list[Line]:
    """The numbers in the agreement.json of an earlier run. Raises `ScenarioError`."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        paper, rows = data["paper"], data["rows"] if data["paper"] == name else []
        lines = [Line(**{key: row[key] for key in row if key != "difference"}) for row in rows]
    except (KeyError, TypeError, ValueError) as error:
        expected = "expected an agreement.json written by `anabranch agree`"
        raise ScenarioError(f"{file}: {expected}") from error
    if paper != name:
        raise ScenarioError(f"{file}: expected a run of {name}, got one of {paper}")
    return lines
