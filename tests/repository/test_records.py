"""The records of papers and theory: they are complete, and pages have their counts."""

import csv
import re
import tomllib
from collections import Counter
from datetime import date
from pathlib import Path

import pytest

from anabranch.papers.judge import Verdict
from anabranch.papers.summary import RECORD
from anabranch.statements.quotes import QUOTES
from anabranch.statements.statement import CLASSES, OURS
from anabranch.theory.guarantees.proofs.queries import REQUIREMENTS

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "docs" / "records"
NAMES = sorted(file.stem for file in RECORDS.glob("*.csv") if file.stem != "index")
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
            (claim["id"], "own" if claim.get("own") else "", claim.get("rests_on", []))
            for file in paper.glob("claims*.toml")
            for claim in tomllib.loads(file.read_text())["claims"]
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
