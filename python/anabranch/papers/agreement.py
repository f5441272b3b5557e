"""Whether the backends agree: some of a paper's tables, run on each of them, side by side.

A paper's `experiments.toml` says under `[agreement]` which cases of which items, for how long and
with which seeds: real time is dear.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from rich import box
from rich.console import RenderableType
from rich.table import Table as Grid

from anabranch import runner
from anabranch.files import staged
from anabranch.papers.curves import theory_of
from anabranch.papers.folder import Paper, open_paper
from anabranch.papers.reproduce import measure_all, part
from anabranch.result import mean_with_interval
from anabranch.runner import Progress
from anabranch.scenario import ScenarioError

Means = dict[tuple[str, str, str], tuple[float, float] | None]
"""Mean and half its 95 % interval, by item, metric and case; None where theory found no solution.

What a backend has no number for is not in it.
"""


@dataclass(frozen=True)
class Line:
    """One case of a metric on every backend."""

    item: str
    metric: str
    case: str
    published: float | None
    theory: Mapping[str, float]
    """By name: `fixed_point`, `opt_probing`."""
    measured: Mapping[str, float | None]
    """By backend, the mean over runs; None where theory found no solution."""
    interval: Mapping[str, float | None]
    """By backend, half its 95 % interval."""

    def difference(self, backend: str, other: str) -> float | None:
        """What a backend measures less what another does, relative to the other."""
        of, base = self.measured.get(backend), self.measured.get(other)
        return None if of is None or not base else (of - base) / base

    def written(self, backend: str) -> str:
        """What a backend measured, with its interval."""
        mean, half = self.measured.get(backend), self.interval.get(backend)
        if backend in self.measured and mean is None:
            return "not converged"
        return _number(mean) if half is None else f"{_number(mean)} ± {half:.2g}"


@dataclass(frozen=True)
class Agreement:
    """A paper's numbers on several backends."""

    paper: str
    backends: Sequence[str]
    lines: Sequence[Line]
    labels: Mapping[str, str]
    runs: int

    def label(self, name: str) -> str:
        """A case or metric written out, part by part."""
        whole = self.labels.get(name)
        return whole or ", ".join(self.labels.get(part, part) for part in name.split("."))

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain data for JSON."""
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
        """A table per metric: published, theory, each backend, and how far it is from the first."""
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
                        _number(line.published),
                        *(_number(line.theory.get(kind)) for kind in kinds),
                        *(line.written(backend) for backend in self.backends),
                        *(_percent(line.difference(other, first)) for other in others),
                    ]
                    for line in lines
                ],
            )

    def markdown(self) -> str:
        """Its tables in Markdown."""
        blocks = []
        for header, rows in self.tables():
            rule = ["---", *["--:"] * (len(header) - 1)]
            blocks.append("".join("| " + " | ".join(row) + " |\n" for row in [header, rule, *rows]))
        return "\n".join(blocks)

    def __rich_console__(self, console: object, options: object) -> Iterator[RenderableType]:
        for header, rows in self.tables():
            grid = Grid(box=box.SIMPLE, pad_edge=False)
            for number, name in enumerate(header):
                grid.add_column(name, justify="right" if number else "left")
            for row in rows:
                grid.add_row(*row)
            yield grid


def agree(
    name: str,
    backends: Sequence[str],
    out: Path | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
    beside: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Agreement:
    """Run what a paper's `[agreement]` asks for on each backend.

    The first backend is what the others are compared with. `jobs`: runs at a time, which in real
    time are one by default. `out` gets agreement.json and agreement.md. `beside`: an agreement.json
    whose backends come after these, for runs that took another machine or a night.
    `overrides`: values of all scenarios, dotted keys. Raises `ScenarioError`; for an unknown
    backend before anything runs.
    """
    for backend in backends:
        runner.backend(backend)
    paper = narrowed(open_paper(name), overrides or {})
    earlier = _earlier(beside, name) if beside else {}
    with staged(out) if out else nullcontext() as stage:
        means = {}
        for i, backend in enumerate(backends):
            of_backend = part(progress, i / len(backends), 1 / len(backends))
            means[backend] = _means(paper, backend, jobs, of_backend)
        means = {**earlier, **means}
        agreement = Agreement(
            paper=name,
            backends=list(dict.fromkeys([*backends, *earlier])),
            lines=list(_lines(paper, means)),
            labels=paper.experiments.get("labels", {}),
            runs=len(paper.experiments["seeds"]),
        )
        if stage:
            (stage / "agreement.md").write_text(agreement.markdown(), encoding="utf-8")
            data = json.dumps(agreement.as_dict(), indent=1, allow_nan=False)
            (stage / "agreement.json").write_text(data + "\n", encoding="utf-8")
    return agreement


def narrowed(paper: Paper, overrides: Mapping[str, Any]) -> Paper:
    """The paper with those items, cases, seeds and lengths of runs alone that it compares.

    `overrides` win over its own values.

    Raises `ScenarioError` for a paper that compares nothing.
    """
    wanted = paper.experiments.get("agreement")
    if wanted is None:
        raise ScenarioError(
            f"papers/{paper.name}/experiments.toml has no [agreement]: it says which cases are run "
            "on several backends"
        )
    wanted = {**wanted, "set": {**wanted.get("set", {}), **overrides}}
    items = [
        {**item, "measures": list(_chosen(item, wanted["items"][item["id"]])), "figures": []}
        for item in paper.experiments["items"]
        if item["id"] in wanted["items"]
    ]
    groups = {
        name: _as_wanted(group, wanted) for name, group in paper.experiments["groups"].items()
    }
    experiments = {**paper.experiments, "items": items, "groups": groups, "seeds": wanted["seeds"]}
    return replace(paper, experiments=experiments)


def _as_wanted(group: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """A group with the seeds and values that all backends share, which win over all others."""
    algorithms = {
        label: {**entry, "set": {**entry.get("set", {}), **wanted["set"]}}
        for label, entry in group["algorithms"].items()
    }
    return {**group, "algorithms": algorithms, "seeds": wanted["seeds"]}


def _chosen(item: Mapping[str, Any], cases: Sequence[str]) -> Iterator[dict[str, Any]]:
    """An item's measures for these cases, each written `group.case`."""
    for entry in item["measures"]:
        group = entry.get("group", item.get("group"))
        of_group = [case.partition(".")[2] for case in cases if case.partition(".")[0] == group]
        if of_group:
            yield {**entry, "cases": of_group}


def _means(paper: Paper, backend: str, jobs: int | None, progress: Progress | None) -> Means:
    """What one backend gives."""
    measured = measure_all(paper, False, progress, on=backend, jobs=jobs)
    numbers = measured.numbers.dropna(subset="value")
    means = mean_with_interval(numbers, ["item", "metric", "case"], ["value"])
    keys = means[["item", "metric", "case"]].itertuples(index=False, name=None)
    values = means[["value", "value_ci95"]].itertuples(index=False, name=None)
    return dict(zip(keys, values, strict=True)) | dict.fromkeys(measured.unsolved)


def _earlier(file: Path, name: str) -> dict[str, Means]:
    """By backend, the means that an earlier run wrote."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        if data["paper"] != name:
            raise ScenarioError(f"{file}: expected a run of {name}, got one of {data['paper']}")
        return {
            backend: {
                (row["item"], row["metric"], row["case"]): _pair(
                    row["measured"][backend], row["interval"].get(backend)
                )
                for row in data["rows"]
                if backend in row["measured"]
            }
            for backend in data["backends"]
        }
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, ScenarioError):
            raise
        raise ScenarioError(f"{file}: expected an agreement.json that `agree` wrote") from error


def _pair(mean: float | None, half: float | None) -> tuple[float, float] | None:
    return None if mean is None else (mean, float("nan") if half is None else half)


def _lines(paper: Paper, means: Mapping[str, Means]) -> Iterator[Line]:
    for item, metric, case in dict.fromkeys(key for of in means.values() for key in of):
        facts = paper.published["items"][item].get(metric, {})
        key = item, metric, case
        there = {backend: of[key] for backend, of in means.items() if key in of}
        yield Line(
            item=item,
            metric=metric,
            case=case,
            published=facts.get("published", {}).get(case),
            theory=theory_of(facts, case),
            measured={backend: pair and pair[0] for backend, pair in there.items()},
            interval={
                backend: None if pd.isna(pair[1]) else pair[1]
                for backend, pair in there.items()
                if pair
            },
        )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:+.0%}"
