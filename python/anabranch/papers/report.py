"""A paper's report: published, measured and theoretical numbers, and the verdict on each claim."""

import math
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

import pandas as pd

from anabranch.core_types import PlainNetwork
from anabranch.formats import finite, interval, latex_table, number, percent
from anabranch.intervals import median_with_interval
from anabranch.papers.curves import Drawing, sweep
from anabranch.papers.entries import paper as entries
from anabranch.papers.entries.case import Case
from anabranch.papers.entries.checks import Number
from anabranch.papers.entries.figures import Bars, Sweep
from anabranch.papers.entries.published import About, Metric
from anabranch.papers.judge import Claim, Spread, Verdict, judge_claim
from anabranch.result import mean_with_interval
from anabranch.scenario import load
from anabranch.statements.statement import Statement

NEAR, OFF = 0.1, 0.3
"""Relative differences of a measured number from the printed one, to which both are compared."""

PLURAL = {Verdict.HOLDS: "hold", Verdict.FAILS: "fail"}


@dataclass(frozen=True)
class Row:
    """One case of a metric."""

    case: Case
    published: float | None
    measured: float | None
    """Mean over seeds, or their median."""
    interval: float | None
    """Half the 95 % interval of `measured`."""
    theory: Mapping[str, float]
    """Theory values by kind, such as `fixed_point` or `opt_probing`."""

    @property
    def difference(self) -> float | None:
        """(measured - published) / published; None where either is missing or published is 0."""
        if self.published is None or self.measured is None or self.published == 0:
            return None
        return (self.measured - self.published) / self.published

    @property
    def distance(self) -> str:
        """The difference as a class: near, within 10 %; off, within 30 %; far; nothing for None."""
        if self.difference is None:
            return ""
        away = abs(self.difference)
        return "near" if away <= NEAR else "off" if away <= OFF else "far"


@dataclass(frozen=True)
class Table:
    """One metric of an item, a row per case."""

    metric: str
    rows: Sequence[Row]
    repeats: bool = False
    """Whether its printed numbers are those of another table, or computed from them."""


@dataclass(frozen=True)
class Score:
    """The verdicts on claims, and how near measured numbers are to the printed ones."""

    counts: Mapping[Verdict, int]
    """The number of the paper's claims with each verdict, of all verdicts in order."""
    own: Mapping[Verdict, int]
    """The same for our own claims."""
    numbers: int
    """Printed numbers that were measured; one that is printed twice counts once."""
    within_10: int
    """How many of them differ by at most 10 %."""
    within_30: int

    @classmethod
    def of(cls, items: Sequence["Item"]) -> "Score":
        """The score of some tables and figures."""
        claims = [claim for item in items for claim in item.claims]
        tables = [table for item in items for table in item.tables if not table.repeats]
        away = [row.difference for table in tables for row in table.rows]
        far = [abs(difference) for difference in away if difference is not None]
        return cls(
            counts=count([claim for claim in claims if not claim.own]),
            own=count([claim for claim in claims if claim.own]),
            numbers=len(far),
            within_10=sum(difference <= NEAR for difference in far),
            within_30=sum(difference <= OFF for difference in far),
        )

    @property
    def own_in_words(self) -> str:
        """How many of our own claims hold: "3 of 4", or nothing without any."""
        total = sum(self.own.values())
        return f"{self.own[Verdict.HOLDS]} of {total}" if total else ""

    @property
    def own_undecided_in_words(self) -> str:
        """How many of our own claims the seeds do not decide: ", 1 undecided", or nothing."""
        undecided = self.own[Verdict.UNDECIDED]
        return f", {undecided} undecided" if undecided else ""

    @property
    def near_in_words(self) -> Sequence[str]:
        """Numbers within 10 %, within 30 % and all of them; nothing without any."""
        if not self.numbers:
            return ("", "", "")
        return (str(self.within_10), str(self.within_30), str(self.numbers))


@dataclass(frozen=True)
class Item:
    """A table or figure of the paper."""

    id: str
    title: str
    place: str
    tables: Sequence[Table]
    claims: Sequence[Claim]
    bars: Sequence[str] = ()
    """The metrics drawn as bars."""
    drawings: Sequence[Drawing] = ()
    """The other figures."""
    own: bool = False
    """Whether it is a study of ours, not a table or figure of the paper."""

    @property
    def score(self) -> Score:
        """The verdicts on its claims, and how near its numbers are."""
        return Score.of([self])

    @property
    def rows(self) -> int:
        """The number of numbers in its tables."""
        return sum(len(table.rows) for table in self.tables)


class Judged:
    """The claims of several tables and figures."""

    items: Sequence[Item]

    @property
    def claims(self) -> list[Claim]:
        """All claims, in the order of the items."""
        return [claim for item in self.items for claim in item.claims]

    def of(self, verdict: str) -> list[Claim]:
        """The claims with a verdict."""
        return [claim for claim in self.claims if claim.verdict == verdict]

    @property
    def failed(self) -> list[Claim]:
        """Claims that fail without a known reason; with any, `anabranch reproduce` exits with 1."""
        return self.of(Verdict.FAILS)

    @property
    def undecided(self) -> list[Claim]:
        """Claims that the seeds do not decide."""
        return self.of(Verdict.UNDECIDED)

    @property
    def score(self) -> Score:
        """The verdicts on all claims, and how near all numbers are."""
        return Score.of(self.items)

    def counted(self) -> dict[str, Any]:
        """The score as plain data, with the numbers of claims that fail and are undecided."""
        numbers = {"failed": len(self.failed), "undecided": len(self.undecided)}
        return {**asdict(self.score), **numbers}


@dataclass(frozen=True, kw_only=True)
class Report(About, entries.Described, Judged):
    """The reproduction of one paper."""

    paper: str
    """The name of its folder."""
    items: Sequence[Item]
    algorithms: Mapping[str, str]
    """The algorithm that the last part of a case stands for."""
    statements: Sequence[Statement]
    """Statements of the paper, tested by calculation."""
    scenarios: Mapping[str, str]
    """The text of the scenario files, by name."""
    networks: Mapping[str, PlainNetwork]
    """Links and flows of the networks, by the same names."""
    seeds: Sequence[int]
    command: str
    versions: Mapping[str, str]
    quick: bool = False
    """Whether the runs are few and short."""

    @property
    def not_reproduced(self) -> list[Claim]:
        """Claims that fail, with the reason found."""
        return self.of(Verdict.NOT_REPRODUCED)

    @property
    def in_order(self) -> list[Item]:
        """The paper's own tables and figures, then our studies."""
        return sorted(self.items, key=lambda item: item.own)

    def resting_on(self, choice: str) -> list[Claim]:
        """The claims that hold only under a choice."""
        return [claim for claim in self.of(Verdict.HOLDS) if choice in claim.rests_on]

    def chosen(self) -> list[tuple["Report", str, list[Claim]]]:
        """Every choice made after results were seen, and the claims that hold only under it."""
        return [(self, name, self.resting_on(name)) for name in self.choices]

    def theories(self, item: Item) -> list[str]:
        """The kinds of theory value in an item's tables."""
        rows = [row for table in item.tables for row in table.rows]
        return [name for name in self.theory if any(name in row.theory for row in rows)]

    def tally(self) -> str:
        """The score in words, without verdicts that no claim got."""
        score = self.score
        words = ", ".join(
            f"{n} {PLURAL.get(verdict, verdict) if n > 1 else verdict}"
            for verdict, n in score.counts.items()
            if n
        )
        if score.own_in_words:
            words += f"; {score.own_in_words} of our own hold{score.own_undecided_in_words}"
        if score.numbers:
            near = f"{score.within_10} are within 10 %, {score.within_30} within 30 %"
            words += f". Of {score.numbers} printed numbers {near}"
        return words

    def label(self, name: str) -> str:
        """The text for a metric, case or part of a case: `N1 = 10, LIA` for `n1_10.lia`."""
        return ", ".join(self.labels.get(part, part) for part in Case(name).parts)

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data for JSON; NaN and infinity become None."""
        return {**finite(asdict(self)), **self.counted()}


AVERAGES = {"mean": mean_with_interval, "median": median_with_interval}
"""The averages over seeds, by the name that `average = "..."` in an `experiments.toml` gives."""


def report_of(
    paper: entries.Paper,
    frame: pd.DataFrame,
    drawings: Mapping[tuple[str, int], Drawing],
    quick: bool,
    statements: Sequence[Statement] = (),
) -> Report:
    """The report of the numbers measured and the statements tested.

    `frame` has the columns `item`, `metric`, `case`, `seed` and `value`. `drawings` are the figures
    drawn from whole runs, by item and index among the item's figures.

    Raises `ScenarioError` for a statement that a claim names and that does not exist.
    """
    means = AVERAGES[paper.average](frame, ["item", "metric", "case"], ["value"])
    algorithms = {
        label: entry.named(label)
        for group in paper.groups.values()
        for label, entry in group.algorithms.items()
    }
    files = sorted(paper.folder.glob("scenario*.toml"))
    return Report(
        paper=paper.name,
        **vars(paper.about),
        **paper.described(),
        items=[
            _item(
                item,
                means[means["item"] == item.id],
                Spread.of(frame[frame["item"] == item.id], paper.average),
                drawings,
                statements,
            )
            for item in paper.items.values()
        ],
        algorithms=algorithms,
        statements=statements,
        scenarios={file.name: file.read_text(encoding="utf-8") for file in files},
        networks={file.name: load(file).network() for file in files},
        seeds=list(paper.quick.seeds if quick else paper.seeds),
        command=f"anabranch reproduce {paper.name}" + (" --quick" if quick else ""),
        quick=quick,
        versions={
            "anabranch": version("anabranch"),
            "Python": platform.python_version(),
            **{name: version(name) for name in ("numpy", "pandas", "scipy", "matplotlib")},
        },
    )


def _item(
    item: entries.Item,
    means: pd.DataFrame,
    spread: Spread,
    drawings: Mapping[tuple[str, int], Drawing],
    statements: Sequence[Statement],
) -> Item:
    """An item's tables, judged claims and figures."""
    tables = [
        _table(name, item.metric(name), means[means["metric"] == name])
        for name in dict.fromkeys([*means["metric"], *item.metrics])
    ]
    numbers: dict[str, dict[str, Number]] = {
        table.metric: {
            **item.metric(table.metric).named(),
            **{row.case: row.measured for row in table.rows if row.measured is not None},
        }
        for table in tables
    }
    claims = [judge_claim(stated, numbers, statements, spread) for stated in item.claims]
    bars: list[str] = []
    made = []
    for index, figure in enumerate(item.figures):
        if isinstance(figure, Bars):
            all_metrics = [table.metric for table in tables]
            bars += all_metrics if figure.metrics is None else figure.metrics
        elif isinstance(figure, Sweep):
            of_metric = means[means["metric"] == figure.metric]
            made.append(sweep(figure, of_metric, item.metric(figure.metric)))
        elif (item.id, index) in drawings:
            made.append(drawings[item.id, index])
    return Item(item.id, item.title, item.place, tables, claims, bars, made, item.own)


def _table(metric: str, printed: Metric, means: pd.DataFrame) -> Table:
    measured = means.set_index("case")[["value", "value_ci95"]].T.to_dict("list")
    rows = []
    for case in map(Case, dict.fromkeys([*measured, *printed.published])):
        mean, half = measured.get(case, (None, None))
        rows.append(
            Row(
                case=case,
                published=printed.published.get(case),
                measured=mean,
                interval=None if half is None or pd.isna(half) else half,
                theory=printed.theory_of(case),
            )
        )
    return Table(metric, rows, printed.repeats)


def count(claims: Sequence[Claim]) -> dict[Verdict, int]:
    """The number of claims with each verdict, of all verdicts in order."""
    counter = Counter(claim.verdict for claim in claims)
    return {verdict: counter[verdict] for verdict in Verdict}


def measured(row: Row) -> str:
    """The mean with its interval: three significant digits, or more if the interval needs them."""
    if row.measured is None:
        return ""
    decimals = max(0, 2 - _magnitude(row.measured))
    if row.interval is not None:
        decimals = max(decimals, min(decimals + 2, -_magnitude(row.interval)))
    return interval(row.measured, row.interval, f".{decimals}f")


def _magnitude(value: float) -> int:
    """The exponent of the first significant digit."""
    return math.floor(math.log10(abs(value))) if value else 0


# The tables of a report for LaTeX.


def latex(report: Report) -> str:
    """A table of booktabs for each table and figure of the paper, below a comment with its title.

    The numbers are those of the page: published, measured with half the 95 % interval, difference,
    theory.
    """
    made = []
    for item in (item for item in report.in_order if item.tables):
        header, rows = in_cells(report, item)
        table = latex_table(pd.DataFrame(rows, columns=header))
        made.append(f"% {item.title} ({item.place})\n{table}")
    return "\n".join(made)


def in_cells(report: Report, item: Item) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of an item's numbers, as text."""
    theories = report.theories(item)
    header = ["metric", "case", "published", "measured", "difference", *map(report.label, theories)]
    rows = [
        [
            report.label(table.metric),
            report.label(row.case),
            number(row.published),
            measured(row),
            percent(row.difference),
            *(number(row.theory.get(name)) for name in theories),
        ]
        for table in item.tables
        for row in table.rows
    ]
    return header, rows
