"""The statements of a paper by the name of its folder."""

import csv
import hashlib
import json
from functools import cache
from pathlib import Path

import pytest

from anabranch import ScenarioError
from anabranch.statements import papers as statements
from anabranch.statements import quotes
from anabranch.statements.papers import PAPERS, statements_of
from anabranch.statements.quotes import QUOTES, quoted
from anabranch.statements.statement import CLASSES, CONDITION, HOLDS, OURS, WORDS, WRONG, Statement
from conftest import Anabranch

ROOT = Path(__file__).parents[2]
OF_OLIA = cache(statements_of)


def test_every_paper_of_the_project_has_statements() -> None:
    folders = {file.parent.name for file in (ROOT / "papers").glob("*/claims.toml")}
    assert set(PAPERS) == folders


def test_statements_have_a_place_a_verdict_and_numbers() -> None:
    found = OF_OLIA("olia")
    assert len(found) == 7
    for one in found:
        assert one.verdict in CLASSES
        assert bool(one.needs) == (one.verdict == CONDITION)
        assert all([one.place, one.says, one.found])
        assert bool(one.numbers) == (one.verdict != WORDS)


def test_the_command_prints_them_as_words_or_json_and_writes_a_record(
    anabranch: Anabranch, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(statements, "statements_of", lambda paper, *_: OF_OLIA(paper))
    done = anabranch("theory", "statements", "olia", "--json")
    document = json.loads(done.stdout)
    assert document["paper"] == "olia"
    classes = [one["verdict"] for one in document["statements"]]
    assert classes == [*[HOLDS] * 6, CONDITION]
    printed = {one["place"]: one["printed"] for one in document["statements"]}
    assert printed == QUOTES["olia"]
    anabranch("theory", "statements", "olia", "--record", str(tmp_path / "olia.csv"))
    head, *rows = csv.reader((tmp_path / "olia.csv").read_text().splitlines())
    assert head == ["paper", "place", "statement", "class", "needs", "found"]
    assert [row[:2] for row in rows] == [["olia", one["place"]] for one in document["statements"]]
    assert [row[3] for row in rows] == classes
    words = anabranch("theory", "statements", "olia").stdout
    assert "7 statements: 6 holds, 1 needs a condition." in words
    assert "7, OLIA beside LIA: needs a condition: a path that counts as best" in words
    assert all(f"Printed: “{quote}”" in words for quote in printed.values())


DIGESTS = {
    "balia": "2de39bdef2089828",
    "itcp": "606fea0be6308144",
    "olia": "88c7b5106c5afb56",
    "rsf": "2278e8f16997d5fe",
    "wvegas": "21f11d718cd1fe14",
}
"""SHA-256 of each paper's quotes, all of which `benches/theory/quotes.py` found in the paper's text
on 2026-11-27. A quote that changes has to be compared with the text again."""


@pytest.mark.parametrize("paper", QUOTES)
def test_quotes_are_those_that_were_compared_with_the_papers(paper: str) -> None:
    text = json.dumps(dict(QUOTES[paper]), sort_keys=True, ensure_ascii=True)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == DIGESTS[paper]


def test_a_printed_statement_without_its_quote_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(quotes.QUOTES, "olia", {"1": "it is so"})
    (one,) = quoted("olia", [Statement("1", "so", WRONG, "not so")])
    assert one.printed == "it is so"
    with pytest.raises(LookupError, match=r"olia, 2 .holds.: the quote is ''"):
        quoted("olia", [Statement("2", "so", HOLDS, "so")])
    with pytest.raises(LookupError, match=r"olia, 1 .not stated .ours..: the quote is 'it is so'"):
        quoted("olia", [Statement("1", "so", OURS, "so")])


def test_an_unknown_paper_is_an_error_of_one_line(anabranch: Anabranch) -> None:
    with pytest.raises(ScenarioError, match="statements of reno: expected one of balia, itcp"):
        statements_of("reno")
    done = anabranch("theory", "statements", "reno")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
