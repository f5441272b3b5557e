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
NUMBER = r"-?[\d.e+-]+ ± [\d.e+-]+"
VERDICT = r" (holds|fails|undecided)"
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
    found = {(row["study"], row["measure"], row["case"]): row for row in rows("studies")}
    for name in known_studies():
        entries = open_study(name).entries
        judged = entries.verdict
        for key, measure in entries.measures.items():
            for case in measure.cases:
                row = found[name, measure.label, entries.cases[case].label]
                verdict = VERDICT if (key, case) == (judged.measure, judged.case) else ""
                for rule in STUDIED:
                    assert re.fullmatch(NUMBER + verdict, row[rule]), (row["study"], rule)


def test_the_record_of_judgements_has_every_item_of_every_rule() -> None:
    items = {item.title for item in open_items().items.values()}
    assert {row["item"] for row in rows("judge")} == items
    for row in rows("judge"):
        assert set(row) == {"section", "item", "failures", *STUDIED}
        assert {row[rule] for rule in STUDIED} <= {"holds", "fails", "not tested"}
        said = [one.partition(": ") for one in row["failures"].split(" | ") if one]
        failing = {rule for rule in STUDIED if row[rule] == "fails"}
        assert {rule for rule, _, reason in said if reason} == failing, row
        assert len(said) == len(failing), row


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
