"""Reproducing a paper: `papers/<paper>/` says what to run, what was published, what must hold.

A folder holds data only: scenario files, `experiments.toml` (groups of runs, and which quantities
are measured in them), `published.toml` (numbers as printed, with their place), `claims.toml` (what
must hold, and how near) and `errata.toml`. `papers/README.md` explains the words.
"""

import json
import platform
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from anabranch.claims import Numbers, Verdict, judge
from anabranch.files import staged
from anabranch.quantities import measure
from anabranch.quantities.rates import drop_percent
from anabranch.report import Claim, Item, Report, Row, Table
from anabranch.result import Result, mean_with_interval
from anabranch.runner import Progress, collect, plan
from anabranch.scenario import ScenarioError, load

FOLDER = Path(__file__).parent / "_papers"
FILES = ("experiments", "published", "claims", "errata")


@dataclass(frozen=True)
class Paper:
    """The data of one folder."""

    name: str
    folder: Path
    experiments: Mapping[str, Any]
    published: Mapping[str, Any]
    claims: Sequence[Mapping[str, Any]]
    errata: Sequence[Mapping[str, str]]


@dataclass(frozen=True)
class Case:
    """One line of a table: a scenario with some values replaced, and an algorithm."""

    name: str
    algorithm: str
    overrides: Mapping[str, Any]


def reproduce(
    name: str, quick: bool = False, out: Path | None = None, progress: Progress | None = None
) -> Report:
    """Run everything a paper's folder asks for, and judge its claims.

    `quick`: fewer seeds and shorter runs, as the folder says. `out`: where report.html and
    report.json go. `progress` is told the fraction done, 0 to 1.

    Raises `ScenarioError` for an unknown paper or a folder that does not fit together.
    """
    paper = open_paper(name)
    if out is None:
        return report_of(paper, measure_all(paper, quick, progress), quick)
    with staged(out) as stage:
        report = report_of(paper, measure_all(paper, quick, progress), quick)
        from anabranch import page  # here, because Matplotlib takes half a second to load

        (stage / "report.html").write_text(page.html(report), encoding="utf-8")
        data = json.dumps(report.as_dict(), indent=2, allow_nan=False)
        (stage / "report.json").write_text(data + "\n", encoding="utf-8")
    return report


def known_papers() -> list[str]:
    """The papers that can be reproduced."""
    return sorted(file.parent.name for file in FOLDER.glob("*/experiments.toml"))


def open_paper(name: str) -> Paper:
    """Read a paper's folder."""
    if name not in known_papers():
        raise ScenarioError(f"unknown paper {name!r}: expected one of {', '.join(known_papers())}")
    folder = FOLDER / name
    data = {}
    for file in FILES:
        try:
            data[file] = tomllib.loads((folder / f"{file}.toml").read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise ScenarioError(f"{name}/{file}.toml: {error}") from error
    return Paper(
        name=name,
        folder=folder,
        experiments=data["experiments"],
        published=data["published"],
        claims=data["claims"]["claims"],
        errata=data["errata"]["errata"],
    )


def cases(group: Mapping[str, Any]) -> list[Case]:
    """Every setting of a group with every algorithm; `<setting>.<algorithm>` is the case's name.

    Without settings the algorithm alone is.
    """
    made = []
    for setting, values in group.get("settings", {"": {}}).items():
        for label, entry in group["algorithms"].items():
            name = f"{setting}.{label}" if setting else label
            overrides = {**group.get("set", {}), **values, **entry.get("set", {})}
            made.append(Case(name, entry.get("algorithm", label), overrides))
    return made


def measure_all(paper: Paper, quick: bool, progress: Progress | None = None) -> pd.DataFrame:
    """Run all groups; one row per item, metric, case and seed, its number in `value`.

    Groups run one after the other, so that no more than one is in memory; within a group all
    cases and seeds run in parallel.
    """
    groups = paper.experiments["groups"]
    asked = {name: list(_measures(paper, name)) for name in groups}
    sizes = {name: len(cases(groups[name])) for name in groups if asked[name]}
    rows: list[dict[str, Any]] = []
    done = 0.0
    for name, size in sizes.items():
        share = size / sum(sizes.values())
        result = run_group(paper, name, quick, _part(progress, done, share))
        for case in cases(groups[name]):
            for seed in result.seeds:
                rows += _numbers(asked[name], case.name, seed, one_run(result, case.name, seed))
        done += share
    frame = pd.DataFrame(rows)
    return pd.concat([frame, *_drops(paper, frame)], ignore_index=True)


def _part(progress: Progress | None, done: float, share: float) -> Progress | None:
    return progress and (lambda fraction: progress(done + share * fraction))


def run_group(paper: Paper, name: str, quick: bool, progress: Progress | None = None) -> Result:
    """One Result for all cases and seeds of a group; the column `case` tells them apart."""
    group = paper.experiments["groups"][name]
    file, shorter = paper.folder / group["scenario"], {}
    if quick:
        shorter = paper.experiments["quick"].get("set", {})
    jobs = []
    for case in cases(group):
        scenario = load(file, {**case.overrides, **shorter})
        jobs += plan(scenario, case.algorithm, seeds(paper, quick), {"case": case.name})
    return collect(load(file), jobs, "sim", None, progress)


def seeds(paper: Paper, quick: bool) -> list[int]:
    """The seeds every case runs with."""
    return list((paper.experiments["quick"] if quick else paper.experiments)["seeds"])


def one_run(result: Result, case: str, seed: int) -> Result:
    """The part of a Result that one case and seed gave."""
    tables = {
        name: table[(table["case"] == case) & (table["seed"] == seed)]
        for name, table in result.tables().items()
    }
    return replace(result, **tables)


def _measures(paper: Paper, group: str) -> Iterator[dict[str, Any]]:
    """Every measure of a group, with the item it belongs to and the cases it is for."""
    for item in paper.experiments["items"]:
        for entry in item["measures"]:
            if entry.get("group", item.get("group")) == group:
                yield {**entry, "item": item["id"], "cases": item.get("cases")}


WORDS = {"item", "cases", "metric", "quantity", "group", "case"}
"""The words of a measure that are not parameters of its quantity."""


def _numbers(
    measures: Sequence[Mapping[str, Any]], case: str, seed: int, run: Result
) -> Iterator[dict[str, Any]]:
    for entry in measures:
        if entry["cases"] is None or case in entry["cases"]:
            parameters = {word: value for word, value in entry.items() if word not in WORDS}
            yield {
                "item": entry["item"],
                "metric": entry["metric"],
                "case": entry.get("case", "{case}").format(case=case),
                "seed": seed,
                "value": measure(entry["quantity"], run, **parameters),
            }


def _drops(paper: Paper, frame: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """What got lost between two cases of a metric, seed by seed."""
    for item in paper.experiments["items"]:
        for drop in item.get("drops", []):
            of = frame[(frame["item"] == item["id"]) & (frame["metric"] == drop["of"])]
            before = of[of["case"] == drop["from"]].set_index("seed")["value"]
            after = of[of["case"] == drop["to"]].set_index("seed")["value"]
            lost = before.combine(after, drop_percent).rename("value").reset_index()
            yield lost.assign(item=item["id"], metric=drop["metric"], case=drop["case"])


def report_of(paper: Paper, frame: pd.DataFrame, quick: bool) -> Report:
    """Put the measured numbers beside the published ones, and judge."""
    means = mean_with_interval(frame, ["item", "metric", "case"], ["value"])
    experiments, facts = paper.experiments, paper.published["paper"]
    algorithms = {
        label: entry.get("algorithm", label)
        for group in experiments["groups"].values()
        for label, entry in group["algorithms"].items()
    }
    return Report(
        paper=paper.name,
        title=facts["title"],
        source=facts["source"],
        authors=facts["authors"],
        summary=facts["summary"],
        items=[_item(paper, id, means) for id in paper.published["items"]],
        labels=experiments.get("labels", {}),
        algorithms=algorithms,
        theory=paper.published.get("theory", {}),
        assumed=experiments.get("assumed", []),
        errata=paper.errata,
        scenarios={
            file.name: file.read_text(encoding="utf-8")
            for file in sorted(paper.folder.glob("scenario*.toml"))
        },
        seeds=seeds(paper, quick),
        command=f"anabranch reproduce {paper.name}" + (" --quick" if quick else ""),
        versions={
            "anabranch": version("anabranch"),
            "Python": platform.python_version(),
            **{name: version(name) for name in ("numpy", "pandas", "scipy", "matplotlib")},
        },
    )


def _item(paper: Paper, id: str, means: pd.DataFrame) -> Item:
    facts = paper.published["items"][id]
    of_item = means[means["item"] == id]
    metrics = [name for name, entry in facts.items() if isinstance(entry, dict)]
    tables = [
        _table(name, facts.get(name, {}), of_item[of_item["metric"] == name])
        for name in dict.fromkeys([*of_item["metric"], *metrics])
    ]
    numbers = {
        table.metric: {
            **theory_cases(facts.get(table.metric, {})),
            **{row.case: row.measured for row in table.rows if row.measured is not None},
        }
        for table in tables
    }
    claims = [_claim(entry, numbers) for entry in paper.claims if entry["item"] == id]
    return Item(id, facts["title"], facts["place"], tables, claims)


def _table(metric: str, facts: Mapping[str, Any], means: pd.DataFrame) -> Table:
    published, theory = facts.get("published", {}), facts.get("theory", {})
    measured = means.set_index("case")[["value", "value_ci95"]].T.to_dict("list")
    rows = []
    for case in dict.fromkeys([*measured, *published]):
        mean, half = measured.get(case, (None, None))
        rows.append(
            Row(
                case=case,
                published=published.get(case),
                measured=mean,
                interval=None if half is None or pd.isna(half) else half,
                theory={
                    label: value
                    for label, values in theory.items()
                    for key, value in values.items()
                    if case == key or case.startswith(f"{key}.")
                },
            )
        )
    return Table(metric, rows)


def theory_cases(facts: Mapping[str, Any]) -> dict[str, float]:
    """A metric's theory values by the name a claim calls them: `n1_10.opt_probing`."""
    return {
        f"{key}.{label}": value
        for label, values in facts.get("theory", {}).items()
        for key, value in values.items()
    }


def _claim(entry: Mapping[str, Any], numbers: Numbers) -> Claim:
    judgement = judge(entry["check"], numbers)
    verdict, reason = judgement.verdict, entry.get("not_reproduced", "")
    if verdict is Verdict.FAILS and reason:
        verdict = Verdict.NOT_REPRODUCED
    elif reason:
        reason = f"Marked as not reproduced; take the mark away: {reason}"
    return Claim(
        entry["id"], entry["text"], entry.get("band", ""), verdict, judgement.because, reason
    )
