"""From numbers to a report: measured beside published, each claim judged."""

import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import pandas as pd

from anabranch.papers.claims import Numbers, Verdict, judge
from anabranch.papers.curves import Drawing, check, sweep, theory_of
from anabranch.papers.folder import Paper, seeds
from anabranch.papers.report import Claim, Item, Report, Row, Table
from anabranch.result import mean_with_interval, median_with_interval
from anabranch.scenario import ScenarioError

AVERAGES = {"mean": mean_with_interval, "median": median_with_interval}
"""What `average = "..."` in an `experiments.toml` may name: what is taken over seeds."""


def report_of(
    paper: Paper,
    frame: pd.DataFrame,
    drawings: Mapping[tuple[str, int], Drawing],
    quick: bool,
) -> Report:
    """Put the measured numbers beside the published ones, and judge.

    `drawings` are the figures that the runs gave, by item and place among the item's figures.
    """
    experiments, facts = paper.experiments, paper.published["paper"]
    average = experiments.get("average", "mean")
    if average not in AVERAGES:
        raise ScenarioError(f"average = {average!r}: expected one of {', '.join(AVERAGES)}")
    means = AVERAGES[average](frame, ["item", "metric", "case"], ["value"])
    algorithms = {
        label: entry.get("algorithm", label)
        for group in experiments["groups"].values()
        for label, entry in group["algorithms"].items()
    }
    return Report(
        paper=paper.name,
        name=facts.get("name", paper.name),
        title=facts["title"],
        source=facts["source"],
        authors=facts["authors"],
        summary=facts["summary"],
        items=[_item(paper, id, means, drawings) for id in paper.published["items"]],
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
        average=average,
        command=f"anabranch reproduce {paper.name}" + (" --quick" if quick else ""),
        versions={
            "anabranch": version("anabranch"),
            "Python": platform.python_version(),
            **{name: version(name) for name in ("numpy", "pandas", "scipy", "matplotlib")},
        },
    )


def _item(
    paper: Paper, id: str, means: pd.DataFrame, drawings: Mapping[tuple[str, int], Drawing]
) -> Item:
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
    bars: list[str] = []
    made = []
    for number, spec in enumerate(_figures(paper, id)):
        check(spec, id)
        if spec["kind"] == "bars":
            bars += spec.get("metrics", [table.metric for table in tables])
        elif spec["kind"] == "sweep":
            metric = spec["metric"]
            of_metric = of_item[of_item["metric"] == metric]
            made.append(sweep(spec, of_metric, facts.get(metric, {})))
        elif (id, number) in drawings:
            made.append(drawings[id, number])
    return Item(id, facts["title"], facts["place"], tables, claims, bars, made)


def _figures(paper: Paper, id: str) -> list[dict[str, Any]]:
    """What an item draws: bars of all its metrics, if it does not say."""
    for item in paper.experiments["items"]:
        if item["id"] == id and "figures" in item:
            return list(item["figures"])
    return [{"kind": "bars"}]


def _table(metric: str, facts: Mapping[str, Any], means: pd.DataFrame) -> Table:
    published = facts.get("published", {})
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
                theory=theory_of(facts, case),
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
        reason = f"Marked as not reproduced, which these runs do not show: {reason}"
    return Claim(
        entry["id"], entry["text"], entry.get("band", ""), verdict, judgement.because, reason
    )
