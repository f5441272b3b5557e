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
from anabranch.formats import interval
from anabranch.papers.claims import PUBLISHED
from anabranch.papers.curves import Drawing, check, sweep, theory_of
from anabranch.papers.folder import Paper, seeds
from anabranch.papers.judge import Claim, Verdict, judge_claim
from anabranch.result import mean_with_interval, median_with_interval
from anabranch.scenario import ScenarioError, load
from anabranch.theory.statement import Statement

PLURAL = {Verdict.HOLDS: "hold", Verdict.FAILS: "fail"}


@dataclass(frozen=True)
class Row:
    """One case of a metric."""

    case: str
    """A setting and an algorithm, joined by a dot."""
    published: float | None
    measured: float | None
    """Mean over seeds, or their median."""
    interval: float | None
    """Half the 95 % interval of `measured`."""
    theory: Mapping[str, float]
    """By kind, such as `fixed_point` or `opt_probing`."""

    @property
    def difference(self) -> float | None:
        """(measured - published) / published; None where either is missing or published is 0."""
        if self.published is None or self.measured is None or self.published == 0:
            return None
        return (self.measured - self.published) / self.published


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
    """The number of the paper's claims with each verdict, of all five verdicts in order."""
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
            within_10=sum(difference <= 0.1 for difference in far),
            within_30=sum(difference <= 0.3 for difference in far),
        )

    @property
    def own_in_words(self) -> str:
        """How many of our own claims hold: "3 of 4", or nothing without any."""
        total = sum(self.own.values())
        return f"{self.own[Verdict.HOLDS]} of {total}" if total else ""

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

    @property
    def score(self) -> Score:
        """The verdicts on its claims, and how near its numbers are."""
        return Score.of([self])


@dataclass(frozen=True)
class Report:
    """The reproduction of one paper."""

    paper: str
    """The name of its folder."""
    name: str
    """Its short name in a summary."""
    title: str
    source: str
    authors: Sequence[str]
    summary: str
    items: Sequence[Item]
    labels: Mapping[str, str]
    """Text for each part of the names of metrics and cases."""
    algorithms: Mapping[str, str]
    """The algorithm that the last part of a case stands for."""
    theory: Mapping[str, str]
    """The meaning of each kind of theory value."""
    assumed: Sequence[Mapping[str, str]]
    choices: Mapping[str, Mapping[str, str]]
    """What was chosen after results were seen, by name: `text`, `when`, `otherwise`."""
    errata: Sequence[Mapping[str, str]]
    statements: Sequence[Statement]
    """What the paper states, tested by calculation."""
    scenarios: Mapping[str, str]
    """The text of the scenario files, by name."""
    networks: Mapping[str, PlainNetwork]
    """Their links and flows, by the same names."""
    seeds: Sequence[int]
    average: str
    """How measured numbers are averaged over the seeds: mean or median."""
    command: str
    versions: Mapping[str, str]

    @property
    def claims(self) -> list[Claim]:
        """All claims, in the order of the items."""
        return [claim for item in self.items for claim in item.claims]

    @property
    def failed(self) -> list[Claim]:
        """Claims that fail without a known reason; with any, `anabranch reproduce` exits with 1."""
        return [claim for claim in self.claims if claim.verdict is Verdict.FAILS]

    @property
    def score(self) -> Score:
        """The verdicts on all claims, and how near all numbers are."""
        return Score.of(self.items)

    def resting_on(self, choice: str) -> list[Claim]:
        """The claims that hold only under a choice."""
        holding = [claim for claim in self.claims if claim.verdict is Verdict.HOLDS]
        return [claim for claim in holding if choice in claim.rests_on]

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
            words += f"; {score.own_in_words} of our own hold"
        if score.numbers:
            near = f"{score.within_10} are within 10 %, {score.within_30} within 30 %"
            words += f". Of {score.numbers} printed numbers {near}"
        return words

    def label(self, name: str) -> str:
        """The text for a metric, case or part of a case: `N1 = 10, LIA` for `n1_10.lia`."""
        return ", ".join(self.labels.get(part, part) for part in name.split("."))

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data for JSON; NaN and infinity become None."""
        return {**_plain(asdict(self)), **asdict(self.score), "failed": len(self.failed)}


AVERAGES = {"mean": mean_with_interval, "median": median_with_interval}
"""The averages over seeds, by the name that `average = "..."` in an `experiments.toml` gives."""


def report_of(
    paper: Paper,
    frame: pd.DataFrame,
    drawings: Mapping[tuple[str, int], Drawing],
    quick: bool,
    statements: Sequence[Statement] = (),
) -> Report:
    """The report of the numbers measured and the statements tested.

    `frame` has the columns `item`, `metric`, `case`, `seed` and `value`. `drawings` are the figures
    drawn from whole runs, by item and index among the item's figures.

    Raises `ScenarioError` for an unknown average, figure, check or choice.
    """
    experiments, facts = paper.experiments, paper.published["paper"]
    average = experiments.get("average", "mean")
    if average not in AVERAGES:
        raise ScenarioError(f"average = {average!r}: expected one of {', '.join(AVERAGES)}")
    for claim in paper.claims:
        if unknown := set(claim.get("rests_on", ())) - set(paper.choices):
            raise ScenarioError(f"claim {claim['id']}: unknown choice {', '.join(sorted(unknown))}")
    means = AVERAGES[average](frame, ["item", "metric", "case"], ["value"])
    algorithms = {
        label: entry.get("algorithm", label)
        for group in experiments["groups"].values()
        for label, entry in group["algorithms"].items()
    }
    files = sorted(paper.folder.glob("scenario*.toml"))
    return Report(
        paper=paper.name,
        name=facts.get("name", paper.name),
        title=facts["title"],
        source=facts["source"],
        authors=facts["authors"],
        summary=facts["summary"],
        items=[_item(paper, id, means, drawings, statements) for id in paper.published["items"]],
        labels=experiments.get("labels", {}),
        algorithms=algorithms,
        theory=paper.published.get("theory", {}),
        assumed=experiments.get("assumed", []),
        choices=paper.choices,
        errata=paper.errata,
        statements=statements,
        scenarios={file.name: file.read_text(encoding="utf-8") for file in files},
        networks={file.name: load(file).network() for file in files},
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
    paper: Paper,
    id: str,
    means: pd.DataFrame,
    drawings: Mapping[tuple[str, int], Drawing],
    statements: Sequence[Statement],
) -> Item:
    facts = paper.published["items"][id]
    of_item = means[means["item"] == id]
    metrics = [name for name, entry in facts.items() if isinstance(entry, dict)]
    tables = [
        _table(name, facts.get(name, {}), of_item[of_item["metric"] == name])
        for name in dict.fromkeys([*of_item["metric"], *metrics])
    ]
    numbers = {
        table.metric: named_numbers(
            facts.get(table.metric, {}),
            {row.case: row.measured for row in table.rows if row.measured is not None},
        )
        for table in tables
    }
    mine = [entry for entry in paper.claims if entry["item"] == id]
    claims = [judge_claim(entry, numbers, statements) for entry in mine]
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
    """The figures of an item; by default bars of all its metrics."""
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
    return Table(metric, rows, facts.get("repeats", False))


def named_numbers(facts: Mapping[str, Any], measured: Mapping[str, float]) -> dict[str, float]:
    """A metric's theory, printed and measured numbers by their names in claims."""
    published = {case + PUBLISHED: value for case, value in facts.get("published", {}).items()}
    return {**theory_cases(facts), **published, **measured}


def theory_cases(facts: Mapping[str, Any]) -> dict[str, float]:
    """A metric's theory values by their name in claims, such as `n1_10.opt_probing`."""
    return {
        f"{key}.{label}": value
        for label, values in facts.get("theory", {}).items()
        for key, value in values.items()
    }


def count(claims: Sequence[Claim]) -> dict[Verdict, int]:
    """The number of claims with each verdict, of all five verdicts in order."""
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


def _plain(value: Any) -> Any:
    """The value with None for NaN and infinity, which JSON lacks."""
    match value:
        case dict():
            return {key: _plain(entry) for key, entry in value.items()}
        case list() | tuple():
            return [_plain(entry) for entry in value]
        case float() if not math.isfinite(value):
            return None
        case _:
            return value
