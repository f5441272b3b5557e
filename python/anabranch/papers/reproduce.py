"""Reproduce a paper: run its experiments, measure, judge its claims, write the report."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import pandas as pd

from anabranch.files import output, refuse_full, staged
from anabranch.papers import curves
from anabranch.papers.curves import Drawing
from anabranch.papers.entries.case import Case
from anabranch.papers.entries.experiments import Drop, Group, Measure, Setup
from anabranch.papers.entries.figures import Series, Tail
from anabranch.papers.entries.paper import Item, Paper
from anabranch.papers.folder import known_papers, open_paper
from anabranch.papers.report import Report, report_of
from anabranch.papers.summary import Summary
from anabranch.quantities import measure
from anabranch.quantities.rates import drop_percent
from anabranch.result import Result
from anabranch.runner import BACKENDS, Progress, collect, collect_parts, plan
from anabranch.scenario import ScenarioError, load
from anabranch.statements.papers import PAPERS, statements_of
from anabranch.theory.errors import NotConverged

Name: TypeAlias = tuple[str, str, str]
"""Item, metric and case of a number."""

Row: TypeAlias = tuple[str, str, str, int, float]
"""The same with seed and value."""

NAMES = ["item", "metric", "case", "seed"]
"""The columns that identify a value."""


@dataclass(frozen=True)
class Measured:
    """The numbers and figures measured in a paper's runs."""

    numbers: pd.DataFrame
    """A row per item, metric, case and seed, with its `value`."""
    drawings: Mapping[tuple[str, int], Drawing]
    """The figures drawn from whole runs, by item and index among the item's figures."""
    unsolved: Sequence[Name] = ()
    """The numbers for which theory did not converge."""
    late: Sequence[Name] = ()
    """The numbers with a run that was too late (docs/reference/lab.md)."""


def reproduce(
    name: str,
    quick: bool = False,
    out: Path | None = None,
    progress: Progress | None = None,
    force: bool = False,
) -> Report:
    """Run the experiments of a paper, test its statements and judge its claims.

    `quick` takes fewer seeds and shorter runs, as the folder defines, and fewer random samples for
    statements. report.html and report.json are written to `out`, which must be empty unless
    `force`. `progress` is called with the fraction done, 0 to 1.

    Raises `ScenarioError` for an unknown paper and for an inconsistent folder.
    """
    paper = open_paper(name)
    with output(out, force) as stage:
        runs = 0.9 if name in PAPERS else 1.0
        measured = measure_all(paper, quick, part(progress, 0.0, runs))
        statements = (
            statements_of(name, part(progress, runs, 1 - runs), quick) if name in PAPERS else []
        )
        if paper.predictions:
            from anabranch.papers.predictions import predicted  # here, because few papers need it

            paper = predicted(paper)
        report = report_of(paper, measured.numbers, measured.drawings, quick, statements)
        if stage:
            write(report, stage)
    return report


def reproduce_all(
    quick: bool = False,
    out: Path | None = None,
    progress: Progress | None = None,
    force: bool = False,
) -> Summary:
    """Reproduce all papers.

    index.html and summary.json are written to `out`, and the files of `reproduce` to a folder per
    paper in it. The results of one paper are freed before the next one runs.

    Raises `ScenarioError` as `reproduce` does.
    """
    if out and not force:
        refuse_full(out)
    names = known_papers()
    reports = []
    for i, name in enumerate(names):
        of_paper = part(progress, i / len(names), 1 / len(names))
        reports.append(reproduce(name, quick, out and out / name, of_paper, force))
    summary = Summary(reports, "anabranch reproduce all" + (" --quick" if quick else ""))
    if out:
        from anabranch.papers import html  # here, because Matplotlib takes half a second to load

        with staged(out) as stage:
            (stage / "index.html").write_text(html.index(summary), encoding="utf-8")
            data = json.dumps(summary.as_dict(), indent=1)
            (stage / "summary.json").write_text(data + "\n", encoding="utf-8")
    return summary


def write(report: Report, directory: Path) -> None:
    """Write report.html and report.json into an existing directory."""
    from anabranch.papers import html  # here, because Matplotlib takes half a second to load

    (directory / "report.html").write_text(html.html(report), encoding="utf-8")
    data = json.dumps(report.as_dict(), indent=1, allow_nan=False)
    (directory / "report.json").write_text(data + "\n", encoding="utf-8")


def measure_all(
    paper: Paper,
    quick: bool,
    progress: Progress | None = None,
    *,
    on: str = "sim",
    jobs: int | None = None,
) -> Measured:
    """Run all groups that an item needs on the backend `on`, and measure.

    Groups run one after the other. Within a group cases and seeds run in parallel, `jobs` at a
    time, and the result of only one case is kept in memory; on a theoretical backend cases run one
    after the other. `quick` and `progress` are those of `reproduce`.

    Raises `ScenarioError` for an inconsistent folder or an unknown backend.
    """
    plans = [made for name in paper.groups if (made := Planned.of(paper, name)).setups]
    rows: list[Row] = []
    drawings: dict[tuple[str, int], Drawing] = {}
    unsolved: list[Name] = []
    late: list[Name] = []
    done, total = 0.0, sum(len(planned.setups) for planned in plans)
    for planned in plans:
        share = len(planned.setups) / total
        of_group = part(progress, done, share)
        for case, result in run_group(paper, planned, quick, of_group, on, jobs):
            if isinstance(result, NotConverged):
                unsolved += (name for name, _ in planned.numbers(case))
                continue
            if not result.late_runs().empty:
                late += (name for name, _ in planned.numbers(case))
            for seed, run in each_run(result):
                for name, taken in planned.numbers(case):
                    rows.append((*name, seed, _value(taken, run)))
            for place, figure in planned.figures:
                if figure.takes(case):
                    drawing = curves.drawn(figure, result, [case])
                    drawings[place] = curves.joined(drawings.get(place), drawing)
        done += share
    # Cases renamed to the same name are averaged seed by seed, such as over a sweep.
    frame = pd.DataFrame(rows, columns=[*NAMES, "value"])
    frame = frame.groupby(NAMES, sort=False, as_index=False)["value"].mean()
    drops = [(item.id, drop) for item in paper.items.values() for drop in item.drops]
    numbers = pd.concat([frame, *(_dropped(frame, *one) for one in drops)], ignore_index=True)
    for item, drop in drops:
        if {(item, drop.of, drop.from_), (item, drop.of, drop.to)} & set(late):
            late.append((item, drop.metric, drop.case))
    return Measured(numbers, drawings, unsolved, late)


@dataclass(frozen=True)
class Planned:
    """A group, and what is taken in its runs."""

    group: Group
    setups: Sequence[Setup]
    """The cases that a measure or figure takes."""
    measures: Sequence[tuple[Item, Measure]]
    figures: Sequence[tuple[tuple[str, int], Series | Tail]]
    """Drawings by item and index among the item's figures."""

    @classmethod
    def of(cls, paper: Paper, name: str) -> "Planned":
        """Measures of a paper in the runs of a group."""
        group, measures, figures = paper.groups[name], paper.measures(name), paper.drawn(name)
        takers = [*(taken for _, taken in measures), *(figure for _, figure in figures)]
        setups = [one for one in group.setups() if any(taker.takes(one.case) for taker in takers)]
        return cls(group, setups, measures, figures)

    def numbers(self, case: Case) -> Iterator[tuple[Name, Measure]]:
        """Each number of a case with its measure."""
        for item, taken in self.measures:
            if taken.takes(case):
                yield (item.id, taken.metric, str(case.renamed(taken.case))), taken


def part(progress: Progress | None, done: float, share: float) -> Progress | None:
    """The progress of a part of the work, from `done` to `done + share` of the whole."""
    return progress and (lambda fraction: progress(done + share * fraction))


def run_group(
    paper: Paper,
    planned: Planned,
    quick: bool,
    progress: Progress | None = None,
    on: str = "sim",
    jobs: int | None = None,
) -> Iterator[tuple[Case, Result | NotConverged]]:
    """Each case of a group with the Result of all its seeds, in the order of the cases.

    A case for which theory does not converge yields its `NotConverged` instead of a Result.
    """
    file = paper.folder / planned.group.scenario
    own_seeds = paper.seeds_of(planned.group, quick)
    runs = {}
    for setup in planned.setups:
        scenario = load(file, paper.overrides(planned.group, setup, quick))
        runs[setup.case] = plan(scenario, setup.algorithm, own_seeds, {"case": str(setup.case)}, on)
    if BACKENDS[on].random:
        results = collect_parts(load(file), list(runs.values()), on, jobs, progress)
        yield from zip(runs, results, strict=True)
        return
    for number, (case, of_case) in enumerate(runs.items()):
        try:
            of_part = part(progress, number / len(runs), 1 / len(runs))
            yield case, collect(load(file), of_case, on, jobs, of_part)
        except NotConverged as error:
            yield case, error


def each_run(result: Result) -> Iterator[tuple[int, Result]]:
    """Each seed with its part of a case's Result."""
    tables = result.tables()
    parts = {name: dict(iter(table.groupby("seed"))) for name, table in tables.items()}
    for seed in parts["links"]:
        run = {name: part.get(seed, tables[name].iloc[:0]) for name, part in parts.items()}
        yield int(seed), replace(result, **run)


def _value(taken: Measure, run: Result) -> float:
    """The value of a measure in a run."""
    try:
        return measure(taken.quantity, run, **taken.parameters)
    except ScenarioError as error:  # such as a flow that the scenario does not have
        raise taken.where.error(str(error)) from error


def _dropped(frame: pd.DataFrame, item: str, drop: Drop) -> pd.DataFrame:
    """The decrease from one case of a metric to another, in percent, seed by seed."""
    of = frame[(frame["item"] == item) & (frame["metric"] == drop.of)]
    before = of[of["case"] == drop.from_].set_index("seed")["value"]
    after = of[of["case"] == drop.to].set_index("seed")["value"]
    lost = before.combine(after, drop_percent).rename("value").reset_index()
    return lost.assign(item=item, metric=drop.metric, case=str(drop.case))
