"""Run a study and hold what it found: table, verdict, figure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from anabranch._core import VERSION
from anabranch.formats import interval, latex_table, markdown_table, records
from anabranch.runner import Progress
from anabranch.runner.asked import Algorithm, check_jobs
from anabranch.scenario import ScenarioError
from anabranch.study import values
from anabranch.study.entries import Study
from anabranch.study.folder import open_study
from anabranch.study.runs import execute, plan
from anabranch.study.samples import Samples
from anabranch.study.values import Column
from anabranch.study.verdict import judge, sentence


@dataclass(frozen=True)
class Outcome:
    """Result of a study."""

    study: Study
    backend: str
    quick: bool
    rules: Sequence[str]
    seeds: Sequence[int]
    rows: pd.DataFrame
    """A row per measure, case, rule and seed."""
    samples: Samples
    """Data of single runs that the figure draws."""
    failures: Mapping[str, str]
    """The runs that failed, with the reason."""
    late: Sequence[str]
    """The runs in real time that were too late to count (docs/reference/lab.md)."""

    @property
    def table(self) -> pd.DataFrame:
        """Per measure, case and rule: mean over the seeds, and half its 95 % interval."""
        return values.table(self.rows)

    @property
    def columns(self) -> list[Column]:
        """The columns of the table in words."""
        return values.columns(self.study.entries, self.backend)

    def cell(self, column: Column) -> dict[str, str]:
        """A column of the table in words, by rule; missing where nothing was measured."""
        found = values.numbers(self.table, self.rules, column.measure, column.case)
        form = f".{column.digits}f"
        return {
            rule: interval(number["value"], number["value_ci95"], form)
            for rule, number in found.items()
        }

    @property
    def verdict(self) -> str:
        """One sentence."""
        return sentence(self.study.entries, self._judged())

    def _judged(self) -> Mapping[str, pd.Series]:
        verdict = self.study.entries.verdict
        return values.numbers(self.table, self.rules, verdict.measure, verdict.case)

    def markdown(self) -> list[str]:
        """The table in Markdown: a row per rule."""
        return markdown_table(*self.in_words())

    def latex(self) -> str:
        """The table for LaTeX."""
        header, rows = self.in_words()
        return latex_table(pd.DataFrame(rows, columns=header))

    def in_words(self) -> tuple[list[str], list[list[str]]]:
        """The header of the table and its rows."""
        cells = [self.cell(column) for column in self.columns]
        header = ["rule", *(column.title for column in self.columns)]
        rows = [[rule, *(cell.get(rule, "-") for cell in cells)] for rule in self.rules]
        return header, rows

    def as_dict(self) -> dict[str, Any]:
        """As plain data for JSON."""
        entries = self.study.entries
        judged = judge(entries.verdict, self._judged())
        return {
            "anabranch": VERSION,
            "study": self.study.name,
            "title": entries.title,
            "question": entries.question,
            "sources": [vars(source) for source in entries.sources],
            "not_modelled": [lack.text for lack in entries.not_modelled],
            "backend": self.backend,
            "quick": self.quick,
            "rules": list(self.rules),
            "seeds": list(self.seeds),
            "cases": {name: case.label for name, case in entries.cases.items()},
            "measures": {name: one.label for name, one in entries.measures.items()},
            "table": records(self.table),
            "verdict": self.verdict,
            **{name: list(rules) for name, rules in vars(judged).items()},
            "failures": dict(self.failures),
            "late": list(self.late),
        }


def study(
    name: str,
    rules: Sequence[Algorithm] | None = None,
    *,
    on: str = "sim",
    quick: bool = False,
    store: Path | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Run a study of `studies/`.

    `rules`: names as in a scenario, or rules in Python; every rule of the table by default.
    `quick`: fewer seeds and shorter runs. `store`: a directory that keeps each run, so that the
    same call resumes a study that was stopped. `on`, `jobs` and `progress` are as in `run`.

    Raises `ScenarioError` for what cannot be run, and where every run failed.
    """
    check_jobs(jobs)
    planned = plan(open_study(name), rules, on, quick)
    entries = planned.study.entries
    rows: list[dict[str, object]] = []
    failures: dict[str, str] = {}
    late: list[str] = []
    samples = Samples(entries.figure)
    for done in execute(planned, store, jobs, progress):
        label = f"{done.case}, {done.rule}, seed {done.seed}"
        if done.result is None:
            failures[label] = done.failure or ""
            continue
        if len(done.result.late_runs()):
            late.append(label)
        rows += values.measured(entries, done)
        samples.add(done)
    if not rows:
        label, reason = next(iter(failures.items()))
        raise ScenarioError(f"study {name}: every run failed; {label}: {reason}")
    compared = [key for key, case in entries.cases.items() if case.rules is None]
    ran = dict.fromkeys(one.algorithm for one in planned.points if one.values["case"] in compared)
    found = values.relative(entries, pd.DataFrame(rows))
    what = (planned.study, on, quick, list(ran), planned.seeds)
    return Outcome(*what, found, samples, failures, late)
