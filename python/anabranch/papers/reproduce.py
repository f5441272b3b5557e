"""Reproduce a paper: run its experiments, measure, judge its claims, write the report."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from anabranch.files import put_section, section, staged
from anabranch.papers import curves
from anabranch.papers.folder import Case, Paper, cases, known_papers, open_paper, seeds
from anabranch.papers.quantities import measure
from anabranch.papers.quantities.rates import drop_percent
from anabranch.papers.report import Report, report_of
from anabranch.papers.summary import Summary
from anabranch.result import Result
from anabranch.runner import BACKENDS, Progress, collect, collect_parts, plan
from anabranch.scenario import load
from anabranch.theory.errors import NotConverged
from anabranch.theory.statements import PAPERS, statements_of

COMMAND = "anabranch reproduce all"
"""The command that marks the section of the summary in a README."""


@dataclass(frozen=True)
class Measured:
    """The numbers and figures measured in a paper's runs."""

    numbers: pd.DataFrame
    """A row per item, metric, case and seed, with its `value`."""
    drawings: Mapping[tuple[str, int], curves.Drawing]
    """The figures drawn from whole runs, by item and index among the item's figures."""
    unsolved: Sequence[tuple[str, str, str]] = ()
    """Item, metric and case of the numbers for which theory did not converge."""
    late: Sequence[tuple[str, str, str]] = ()
    """The same of the numbers with a run that was too late (docs/lab.md)."""


def reproduce(
    name: str, quick: bool = False, out: Path | None = None, progress: Progress | None = None
) -> Report:
    """Run the experiments of a paper, test its statements and judge its claims.

    `quick` takes fewer seeds and shorter runs, as the folder defines, and fewer random samples for
    statements. report.html and report.json
    are written to `out`. `progress` is called with the fraction done, 0 to 1.

    Raises `ScenarioError` for an unknown paper and for an inconsistent folder.
    """
    paper = open_paper(name)
    with staged(out) if out else nullcontext() as stage:
        runs = 0.9 if name in PAPERS else 1.0
        measured = measure_all(paper, quick, part(progress, 0.0, runs))
        statements = (
            statements_of(name, part(progress, runs, 1 - runs), quick) if name in PAPERS else []
        )
        if "predictions" in paper.experiments:
            from anabranch.papers.predictions import predicted  # here, because few papers need it

            paper = predicted(paper)
        report = report_of(paper, measured.numbers, measured.drawings, quick, statements)
        if stage:
            write(report, stage)
    return report


def reproduce_all(
    quick: bool = False,
    out: Path | None = None,
    readme: Path | None = None,
    progress: Progress | None = None,
) -> Summary:
    """Reproduce all papers.

    index.html and summary.json are written to `out`, and the files of `reproduce` to a folder per
    paper in it. The summary with its date replaces the section between the markers of `readme`. The
    results of one paper are freed before the next one runs.

    Raises `ScenarioError` as `reproduce` does, and before any run if `readme` lacks the markers.
    """
    if readme:
        section(readme, COMMAND)  # fails early, before the runs
    names = known_papers()
    reports = []
    for i, name in enumerate(names):
        of_paper = part(progress, i / len(names), 1 / len(names))
        reports.append(reproduce(name, quick, out and out / name, of_paper))
    summary = Summary(reports, COMMAND + (" --quick" if quick else ""))
    if out:
        from anabranch.papers import html  # here, because Matplotlib takes half a second to load

        with staged(out) as stage:
            (stage / "index.html").write_text(html.index(summary), encoding="utf-8")
            data = json.dumps(summary.as_dict(), indent=1)
            (stage / "summary.json").write_text(data + "\n", encoding="utf-8")
    if readme:
        put_section(readme, COMMAND, summary.markdown(), summary.command)
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
    groups = paper.experiments["groups"]
    measures = {name: list(_measures(paper, name)) for name in groups}
    plotted = {name: list(_curves(paper, name)) for name in groups}
    wanted = {
        name: _wanted(groups[name], [*measures[name], *(c for _, c in plotted[name])])
        for name in groups
    }
    sizes = {name: len(of_group) for name, of_group in wanted.items() if of_group}
    rows: list[dict[str, Any]] = []
    drawings: dict[tuple[str, int], curves.Drawing] = {}
    unsolved: list[tuple[str, str, str]] = []
    late: list[tuple[str, str, str]] = []
    done = 0.0
    for name, size in sizes.items():
        share = size / sum(sizes.values())
        of_group = part(progress, done, share)
        for case, result in run_group(paper, name, quick, wanted[name], of_group, on, jobs):
            if isinstance(result, NotConverged):
                unsolved += _places(measures[name], case)
                continue
            if not result.late_runs().empty:
                late += _places(measures[name], case)
            for seed, run in each_run(result):
                rows += _numbers(measures[name], case, seed, run)
            for place, spec in plotted[name]:
                if case in (spec["cases"] or [case]):
                    drawing = DRAW[spec["kind"]](spec, result, [case])
                    drawings[place] = curves.joined(drawings.get(place), drawing)
        done += share
    # Cases renamed to the same name are averaged seed by seed, such as over a sweep.
    frame = pd.DataFrame(rows, columns=[*NAMES, "value"])
    frame = frame.groupby(NAMES, sort=False, as_index=False)["value"].mean()
    numbers = pd.concat([frame, *_drops(paper, frame)], ignore_index=True)
    late += list(_drops_of(paper, late))
    return Measured(numbers, drawings, unsolved, late)


def _wanted(group: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> list[Case]:
    """The cases of a group that a measure or figure needs."""
    everything = any(entry["cases"] is None for entry in entries)
    names = {name for entry in entries for name in entry["cases"] or []}
    return [case for case in cases(group) if everything or case.name in names] if entries else []


DRAW = {"series": curves.series, "tail": curves.tail}
"""The kinds of figure drawn from whole runs; the others are drawn from numbers."""


def part(progress: Progress | None, done: float, share: float) -> Progress | None:
    """The progress of a part of the work, from `done` to `done + share` of the whole."""
    return progress and (lambda fraction: progress(done + share * fraction))


def run_group(
    paper: Paper,
    name: str,
    quick: bool,
    wanted: Sequence[Case],
    progress: Progress | None = None,
    on: str = "sim",
    jobs: int | None = None,
) -> Iterator[tuple[str, Result | NotConverged]]:
    """Each wanted case of a group with the Result of all its seeds, in the order of the cases.

    A case for which theory does not converge yields its `NotConverged` instead of a Result.
    """
    group = paper.experiments["groups"][name]
    file, shorter = paper.folder / group["scenario"], {}
    if quick:
        shorter = group.get("quick", paper.experiments["quick"].get("set", {}))
    own_seeds = group.get("seeds", seeds(paper, quick))
    planned = {}
    for case in wanted:
        scenario = load(file, {**case.overrides, **shorter})
        planned[case.name] = plan(scenario, case.algorithm, own_seeds, {"case": case.name}, on)
    if BACKENDS[on].random:
        results = collect_parts(load(file), list(planned.values()), on, jobs, progress)
        yield from zip(planned, results, strict=True)
        return
    for number, (name_of_case, of_case) in enumerate(planned.items()):
        try:
            of_part = part(progress, number / len(planned), 1 / len(planned))
            yield name_of_case, collect(load(file), of_case, on, jobs, of_part)
        except NotConverged as error:
            yield name_of_case, error


def each_run(result: Result) -> Iterator[tuple[int, Result]]:
    """Each seed with its part of a case's Result."""
    tables = result.tables()
    parts = {name: dict(iter(table.groupby("seed"))) for name, table in tables.items()}
    for seed in parts["links"]:
        run = {name: part.get(seed, tables[name].iloc[:0]) for name, part in parts.items()}
        yield int(seed), replace(result, **run)


def _measures(paper: Paper, group: str) -> Iterator[dict[str, Any]]:
    """Every measure of a group, with its item and cases."""
    for item in paper.experiments["items"]:
        for entry in item.get("measures", []):
            if entry.get("group", item.get("group")) == group:
                words = {"cases": item.get("cases"), "during": item.get("during", {}), **entry}
                yield from ({**one, "item": item["id"]} for one in _during(words))


def _during(entry: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A measure for each of its intervals of time, unless it has an interval of its own."""
    if not entry["during"] or "from_s" in entry or "to_s" in entry:
        yield entry
        return
    for name, (from_s, to_s) in entry["during"].items():
        case = f"{name}.{entry.get('case', '{case}')}"
        yield {**entry, "case": case, "from_s": from_s, "to_s": to_s}


def _curves(paper: Paper, group: str) -> Iterator[tuple[tuple[str, int], dict[str, Any]]]:
    """Every figure drawn from the runs of a group: its item and index, and its entry."""
    for item in paper.experiments["items"]:
        for number, spec in enumerate(item.get("figures", [])):
            if spec["kind"] in DRAW and spec.get("group", item.get("group")) == group:
                yield (item["id"], number), {"cases": item.get("cases"), **spec}


NAMES = ["item", "metric", "case", "seed"]
"""The keys that identify a number."""

WORDS = {"item", "cases", "metric", "quantity", "group", "case", "during"}
"""The keys of a measure that are not parameters of its quantity."""


def _numbers(
    measures: Sequence[Mapping[str, Any]], case: str, seed: int, run: Result
) -> Iterator[dict[str, Any]]:
    for names, entry in _asked(measures, case):
        parameters = {word: value for word, value in entry.items() if word not in WORDS}
        value = measure(entry["quantity"], run, **parameters)
        yield {**names, "seed": seed, "value": value}


def _asked(
    measures: Sequence[Mapping[str, Any]], case: str
) -> Iterator[tuple[dict[str, str], Mapping[str, Any]]]:
    """The item, metric and case name of each number of a case, and its measure."""
    for entry in measures:
        if entry["cases"] is None or case in entry["cases"]:
            name = entry.get("case", "{case}")
            called = name.format(case=case, algorithm=case.rpartition(".")[2])
            yield {"item": entry["item"], "metric": entry["metric"], "case": called}, entry


def _places(measures: Sequence[Mapping[str, Any]], case: str) -> list[tuple[str, str, str]]:
    """Item, metric and case name of each number of a case."""
    return [(names["item"], names["metric"], names["case"]) for names, _ in _asked(measures, case)]


def _drops_of(paper: Paper, late: Sequence[tuple[str, str, str]]) -> Iterator[tuple[str, str, str]]:
    """The decreases from or to one of these numbers."""
    for item in paper.experiments["items"]:
        for drop in item.get("drops", []):
            ends = {(item["id"], drop["of"], drop[end]) for end in ("from", "to")}
            if not ends.isdisjoint(late):
                yield item["id"], drop["metric"], drop["case"]


def _drops(paper: Paper, frame: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The decrease from one case of a metric to another, in percent, seed by seed."""
    for item in paper.experiments["items"]:
        for drop in item.get("drops", []):
            of = frame[(frame["item"] == item["id"]) & (frame["metric"] == drop["of"])]
            before = of[of["case"] == drop["from"]].set_index("seed")["value"]
            after = of[of["case"] == drop["to"]].set_index("seed")["value"]
            lost = before.combine(after, drop_percent).rename("value").reset_index()
            yield lost.assign(item=item["id"], metric=drop["metric"], case=drop["case"])
