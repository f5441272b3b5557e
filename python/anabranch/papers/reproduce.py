"""Reproduce a paper: run its experiments, measure, judge its claims, write the report."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pandas as pd

from anabranch.experiments.case import Case
from anabranch.experiments.curves import Drawing, Extracts, drawn, extract, together
from anabranch.experiments.drawings import Distribution, Series
from anabranch.experiments.networks import Cell
from anabranch.experiments.runs import Runs, open_store
from anabranch.experiments.trial import part
from anabranch.files import output, refuse_full, staged
from anabranch.formats import json_text
from anabranch.papers.folder import known_papers, open_paper
from anabranch.papers.report import Report, Summary, report_of
from anabranch.papers.suite import Drop, Measure, Paper, takes
from anabranch.quantities.rates import drop_percent
from anabranch.result import Result
from anabranch.runner import BACKENDS, Progress, choices, known_backend
from anabranch.runner.asked import check_jobs
from anabranch.scenario import ScenarioError, load
from anabranch.statements.papers import PAPERS, statements_of

Name: TypeAlias = tuple[str, str, str]
"""Item, metric and case of a number."""

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
    store: Path | None = None,
    jobs: int | None = None,
) -> Report:
    """Run the experiments of a paper, test its statements and judge its claims.

    `quick` takes fewer seeds and shorter runs, as the folder defines, items with claims or printed
    numbers alone, and fewer random samples for statements. report.html and report.json are written
    to `out`, which must be empty unless `force`. `store` is a directory that keeps each run, so
    that the same call resumes. `progress` is called with the fraction done, 0 to 1.

    Raises `ScenarioError` for an unknown paper and for an inconsistent folder.
    """
    paper = open_paper(name).judged if quick else open_paper(name)
    with output(out, force) as stage:
        runs = 0.9 if name in PAPERS else 1.0
        measured = measure_all(paper, quick, part(progress, 0.0, runs), jobs=jobs, store=store)
        statements = (
            statements_of(name, part(progress, runs, 1 - runs), quick) if name in PAPERS else []
        )
        if paper.predictions:
            from anabranch.papers.predictions import predicted  # here, because few papers need it

            paper = predicted(paper)
        report = report_of(paper, measured.numbers, measured.drawings, quick, statements)
        if stage:
            from anabranch.papers import html  # here, because Matplotlib takes half a second

            (stage / "report.html").write_text(html.html(report), encoding="utf-8")
            document = json_text(report.as_dict())
            (stage / "report.json").write_text(document + "\n", encoding="utf-8")
    return report


def reproduce_all(
    quick: bool = False,
    out: Path | None = None,
    progress: Progress | None = None,
    force: bool = False,
    store: Path | None = None,
    jobs: int | None = None,
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
        place = out and out / name
        reports.append(reproduce(name, quick, place, of_paper, force, store, jobs))
    summary = Summary(reports, "anabranch reproduce all" + (" --quick" if quick else ""))
    if out:
        with staged(out) as stage:
            (stage / "index.html").write_text(summary.page(), encoding="utf-8")
            document = json_text(summary.as_dict())
            (stage / "summary.json").write_text(document + "\n", encoding="utf-8")
    return summary


def measure_all(
    paper: Paper,
    quick: bool,
    progress: Progress | None = None,
    *,
    on: str = "sim",
    jobs: int | None = None,
    store: Path | None = None,
) -> Measured:
    """Run all groups that an item needs on the backend `on`, and measure.

    Every run is checked before the first one. `quick`, `progress` and `store` are those of
    `reproduce`.

    Raises `ScenarioError` for an inconsistent folder, an unknown backend and a run that fails.
    """
    known_backend(on)
    check_jobs(jobs)
    plans = [made for name in paper.groups for made in planned(paper, name, quick, on)]
    extracts: Extracts = {}
    by_cell = {id(one.cell): one for one in plans}

    def see(cell: Cell, seed: int, result: Result) -> None:
        for place, figure in by_cell[id(cell)].figures:
            extracts.setdefault((place, id(cell)), {})[seed] = extract(figure, result)

    runs = Runs(open_store(store), jobs, strict=True)
    wanted = [(p.cell, seed, p.measures, bool(p.figures)) for p in plans for seed in p.seeds]
    try:
        runs.take(wanted, progress, see, paper.folder.name)
    finally:
        runs.store.close()
    rows: list[tuple[str, str, str, int, float]] = []
    unsolved: list[Name] = []
    late: list[Name] = []
    for one in plans:
        if reason := runs.failure(one.cell, one.seeds):
            if BACKENDS[on].random:
                raise ScenarioError(reason)
            unsolved += one.names
            continue
        if any(runs.point(one.cell, seed).key in runs.late for seed in one.seeds):
            late += one.names
        for seed in one.seeds:
            for name, taken in zip(one.names, one.measures, strict=True):
                rows.append((*name, seed, runs.value(one.cell, seed, taken) or 0.0))
    # Cases renamed to the same name are averaged seed by seed, such as over a sweep.
    frame = pd.DataFrame(rows, columns=[*NAMES, "value"])
    frame = frame.groupby(NAMES, sort=False, as_index=False)["value"].mean()
    numbers = pd.concat([frame, *(_dropped(frame, *one) for one in paper.drops)], ignore_index=True)
    for item, drop in paper.drops:
        if {(item, drop.of, drop.from_), (item, drop.of, drop.to)} & set(late):
            late.append((item, drop.metric, drop.case))
    drawings: dict[tuple[str, int], list[Drawing]] = {}
    for one in plans:
        for place, figure in one.figures:
            of_case = drawn(figure, extracts.get((place, id(one.cell)), {}), one.case)
            drawings.setdefault(place, []).append(of_case)
    figures = {place: together(each) for place, each in drawings.items()}
    return Measured(numbers, figures, unsolved, late)


@dataclass(frozen=True, eq=False)
class Planned:
    """A case of a group, and what is taken in its runs."""

    case: Case
    cell: Cell
    seeds: Sequence[int]
    names: Sequence[Name]
    measures: Sequence[Measure]
    """The measure of each number."""
    figures: Sequence[tuple[tuple[str, int], Series | Distribution]]
    """Drawings by item and index among the item's figures."""


def planned(paper: Paper, name: str, quick: bool, on: str) -> Iterator[Planned]:
    """The cases of a group that a measure or figure takes."""
    group, items = paper.groups[name], paper.items.values()
    shorter = (paper.quick.set if group.quick is None else group.quick) if quick else {}
    asked = group.seeds or (paper.quick.seeds if quick else paper.seeds)
    for setup in group.setups():
        case = setup.case
        taken = [(item, one) for item in items for one in item.taken if takes(one, name, case)]
        figures = [
            ((item.id, index), figure)
            for item in items
            for index, figure in enumerate(item.drawn)
            if isinstance(figure, Series | Distribution) and takes(figure, name, case)
        ]
        if not (taken or figures):
            continue
        scenario = load(paper.folder / group.scenario, {**setup.overrides, **shorter})
        rules, seeds = choices(scenario, setup.algorithm, list(asked), on)
        names = [(item.id, one.metric, str(case.renamed(one.case))) for item, one in taken]
        cell = Cell(str(case), case.algorithm, scenario, on, next(iter(rules)))
        yield Planned(case, cell, seeds, names, [one for _, one in taken], figures)


def _dropped(frame: pd.DataFrame, item: str, drop: Drop) -> pd.DataFrame:
    """The decrease from one case of a metric to another, in percent, seed by seed."""
    of = frame[(frame["item"] == item) & (frame["metric"] == drop.of)]
    before = of[of["case"] == drop.from_].set_index("seed")["value"]
    after = of[of["case"] == drop.to].set_index("seed")["value"]
    lost = before.combine(after, drop_percent).rename("value").reset_index()
    return lost.assign(item=item, metric=drop.metric, case=str(drop.case))
