"""Records are complete and shown, and the numbers and counts of pages are theirs."""

import csv
import re
import tomllib
from collections import Counter
from datetime import date
from pathlib import Path

import pytest

from anabranch.experiments.folder import known_studies, open_judge, open_study
from anabranch.experiments.numbers import RESULTS
from anabranch.papers.judge import Verdict
from anabranch.papers.report import RECORD
from anabranch.scenario import rules
from anabranch.statements.quotes import QUOTES
from anabranch.statements.statement import CLASSES, OURS
from anabranch.theory.guarantees.proofs.queries import REQUIREMENTS

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "docs" / "records"
NAMES = sorted(file.stem for file in RECORDS.glob("*.csv") if file.stem != "index")
STUDIED = {row["studied_as"] for row in rules()}
NUMBER = r"-?[\d.e+-]+ ± [\d.e+-]+"
VERDICT = r" (holds|fails|undecided)"
PAGES = ("harm", "competitors", "queues-checked", "gateway-measured")
Row = dict[str, str]


def rows(name: str) -> list[Row]:
    with (RECORDS / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, strict=True))


@pytest.mark.parametrize("row", rows("index"), ids=lambda row: row["record"])
def test_a_record_has_a_date_and_a_commit(row: Row) -> None:
    assert date(2026, 11, 1) < date.fromisoformat(row["date"])
    assert re.fullmatch("[0-9a-f]{8}", row["commit"])


@pytest.mark.parametrize("name", NAMES)
def test_every_row_of_a_record_has_all_columns(name: str) -> None:
    for row in rows(name):
        assert None not in row
        assert None not in row.values(), row


def test_the_record_of_papers_has_every_claim_with_its_verdict() -> None:
    """Claims by paper: a record of an earlier `claims*.toml` fails."""
    found = rows("papers")
    assert tuple(found[0]) == RECORD
    assert {row["verdict"] for row in found} <= set(Verdict)
    for paper in sorted((ROOT / "papers").iterdir()):
        claims = [
            (id, "own" if claim.get("own") else "", claim.get("rests_on", []))
            for file in paper.glob("claims*.toml")
            for id, claim in tomllib.loads(file.read_text())["claims"].items()
        ]
        recorded = [
            (row["claim"], row["own"], row["rests on"].split())
            for row in found
            if row["paper"] == paper.name
        ]
        assert sorted(recorded) == sorted(claims), paper.name


def test_the_page_counts_the_verdicts_of_the_record() -> None:
    page = (ROOT / "docs" / "notebook" / "is-it-right.md").read_text()
    titles = {"Balia": "balia", "I-TCP": "itcp", "OLIA draft": "olia", "RSF": "rsf"}
    counts = Counter((row["paper"], row["own"], row["verdict"]) for row in rows("papers"))
    lines = re.findall(r"^\| \*\*(.+?)\*\* \| (.+) \|$", page, re.M)
    papers = {titles.get(title, title.lower()): cells.replace("*", "") for title, cells in lines}
    assert set(papers) == {*QUOTES, "all"}
    for paper, cells in papers.items():
        of = [paper] if paper != "all" else list(QUOTES)
        own = {
            verdict: sum(counts[one, "own", verdict] for one in of)
            for verdict in ("holds", "undecided", "not reproduced")
        }
        expected = [
            str(sum(counts[one, "", verdict] for one in of))
            for verdict in ("holds", "undecided", "not reproduced", "fails")
        ]
        expected.append(f"{own['holds']} of {sum(own.values())}" if any(own.values()) else "")
        assert [cell.strip() for cell in cells.split("|")][:5] == expected, paper
    assert {verdict for _, _, verdict in counts} <= {
        Verdict.HOLDS,
        Verdict.UNDECIDED,
        Verdict.NOT_REPRODUCED,
        Verdict.FAILS,
    }


def test_the_record_of_statements_has_every_printed_statement() -> None:
    found = rows("statements")
    assert {row["class"] for row in found} <= set(CLASSES)
    for paper, quotes in QUOTES.items():
        places = [row["place"] for row in found if row["paper"] == paper and row["class"] != OURS]
        assert set(places) <= set(quotes), paper
        assert len(places) == len(set(places)), paper


def test_the_record_of_proofs_has_every_requirement_of_every_rule() -> None:
    by_rule: dict[str, list[str]] = {}
    for row in rows("proofs"):
        by_rule.setdefault(row["rule"], []).append(row["requirement"])
        refuted = "refuted" in row["equal RTTs"] + row["any RTTs"]
        assert bool(row["counterexample"]) == refuted, row
    assert {"reno", "lia", "olia", "balia", "balia:cap=inf"} <= set(by_rule)
    assert all(names == list(REQUIREMENTS) for names in by_rule.values())


def test_the_page_counts_the_cells_of_theory_and_packets_within_their_band() -> None:
    found = rows("theory-packets")
    within = sum(row["within its band"] == "yes" for row in found)
    page = (ROOT / "docs" / "reference" / "records-papers.md").read_text()
    assert f"{within} of {len(found)} cells lie within their band" in page


def test_every_record_is_in_the_index_and_on_the_page_and_the_reverse() -> None:
    index = rows("index")
    assert {row["record"] for row in index} == set(NAMES)
    pages = sorted((ROOT / "docs" / "reference").glob("records*.md"))
    text = "".join(page.read_text() for page in pages)
    shown = re.findall(r"^\[(.+)\.csv\]\(\.\./records/\1\.csv\)$", text, re.M)
    assert sorted(shown) == sorted([*NAMES, "index"])
    for row in index:
        assert all(row.values()), row
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", row["date"]), row


def test_the_record_of_studies_has_every_number_of_every_study_and_rule() -> None:
    found = {(row["study"], row["measure"], row["case"]): row for row in rows("studies")}
    for name in known_studies():
        entries = open_study(name).entries
        judged = {(b.measure, b.case) for item in entries.items.values() for b in item.bounds}
        for key, measure in entries.measures.items():
            for case in measure.cases or ():
                row = found[name, measure.label, entries.cases[case].label]
                verdict = VERDICT if (key, case) in judged else ""
                for rule in STUDIED:
                    assert re.fullmatch(NUMBER + verdict, row[rule]), (row["study"], rule)


def test_the_record_of_controllers_has_every_item_and_why_one_fails() -> None:
    items = {item.title for item in open_judge("controller").entries.items.values()}
    found = rows("controllers")
    assert {row["item"] for row in found} == items
    for row in found:
        failed = {name for name, result in row.items() if result == "fails"}
        said = {one.partition(":")[0] for one in row["failures"].split(" | ") if one}
        assert failed == said, row["item"]


def test_the_record_of_judgements_has_every_item_of_every_rule() -> None:
    items = {item.title for item in open_judge().entries.items.values()}
    assert {row["item"] for row in rows("judge")} == items
    for row in rows("judge"):
        assert set(row) == {"section", "item", "failures", *STUDIED}
        assert {row[rule] for rule in STUDIED} <= set(RESULTS)
        said = [one.partition(": ") for one in row["failures"].split(" | ") if one]
        failing = {rule for rule in STUDIED if row[rule] == "fails"}
        assert {rule for rule, _, reason in said if reason} == failing, row
        assert len(said) == len(failing), row


@pytest.mark.parametrize("page", PAGES)
def test_the_numbers_of_a_table_are_those_of_the_records_that_the_page_names(page: str) -> None:
    text = (ROOT / "docs" / "notebook" / f"{page}.md").read_text()
    named = [one for one in NAMES if re.search(rf"`{re.escape(one)}`", text)]
    assert named, "the page names no record"
    known = {
        n for one in named for n in re.findall(r"\d+\.\d+", (RECORDS / f"{one}.csv").read_text())
    }
    tables = [line for line in text.splitlines() if line.startswith("|") and "`cargo" not in line]
    for line in tables[1:]:
        found = re.findall(r"\d+\.\d+", line)
        assert set(found) <= known, f"{line}: {set(found) - known}"
