"""Records: each is in the index and shown, and the tables of pages have their numbers."""

import csv
import re
from pathlib import Path

import pytest

from anabranch.judge.entries import open_items
from anabranch.scenario import rules
from anabranch.study.folder import known_studies, open_study

DOCS = Path(__file__).parents[2] / "docs"
RECORDS = {file.stem: file for file in sorted((DOCS / "records").glob("*.csv"))}
STUDIED = {row["studied_as"] for row in rules()}
PAGES = ("harm", "competitors", "queues-checked", "gateway-measured")


def rows(record: str) -> list[dict[str, str]]:
    return list(csv.DictReader(RECORDS[record].read_text().splitlines()))


def test_every_record_is_in_the_index_and_on_the_page_and_the_reverse() -> None:
    index = rows("index")
    assert {row["record"] for row in index} == set(RECORDS) - {"index"}
    pages = sorted((DOCS / "reference").glob("records*.md"))
    text = "".join(page.read_text() for page in pages)
    shown = re.findall(r":file: ../records/(.+)\.csv", text)
    assert sorted(shown) == sorted(RECORDS)
    for row in index:
        assert all(row.values()), row
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", row["date"]), row


def test_the_record_of_studies_has_every_number_of_every_study_and_rule() -> None:
    found = {(row["study"], row["measure"], row["case"], row["rule"]) for row in rows("studies")}
    for name in known_studies():
        entries = open_study(name).entries
        for measure in entries.measures.values():
            labels = [entries.cases[case].label for case in measure.cases]
            expected = {(name, measure.label, case, rule) for case in labels for rule in STUDIED}
            assert expected <= found, expected - found
        judged = [row for row in rows("studies") if row["study"] == name and row["verdict"]]
        assert {row["rule"] for row in judged} == STUDIED


def test_the_record_of_judgements_has_every_item_of_every_rule() -> None:
    items = {item.title for item in open_items().items.values()}
    found = {(row["rule"], row["item"]) for row in rows("judge")}
    assert found == {(rule, item) for rule in STUDIED for item in items}


@pytest.mark.parametrize("page", PAGES)
def test_the_numbers_of_a_table_are_those_of_the_records_that_the_page_names(page: str) -> None:
    text = (DOCS / "notebook" / f"{page}.md").read_text()
    named = [one for one in RECORDS if re.search(rf"`{re.escape(one)}`", text)]
    assert named, "the page names no record"
    known = {n for one in named for n in re.findall(r"\d+\.\d+", RECORDS[one].read_text())}
    tables = [line for line in text.splitlines() if line.startswith("|") and "`cargo" not in line]
    for line in tables[1:]:
        found = re.findall(r"\d+\.\d+", line)
        assert set(found) <= known, f"{line}: {set(found) - known}"
