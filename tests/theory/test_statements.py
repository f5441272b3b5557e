"""The statements of a paper by the name of its folder."""

import json
from pathlib import Path

import pytest

from anabranch import ScenarioError
from anabranch.theory.statement import EMPTY, FALSE, HOLDS, WORDS
from anabranch.theory.statements import PAPERS, statements_of
from conftest import Anabranch

ROOT = Path(__file__).parents[2]


def test_every_paper_of_the_project_has_statements() -> None:
    folders = {file.parent.name for file in (ROOT / "papers").glob("*/claims.toml")}
    assert set(PAPERS) == folders


def test_statements_have_a_place_a_verdict_and_numbers() -> None:
    found = statements_of("olia")
    assert len(found) == 5
    for one in found:
        assert one.verdict in (HOLDS, FALSE, EMPTY, WORDS)
        assert all([one.place, one.says, one.found])
        assert bool(one.numbers) == (one.verdict != WORDS)


def test_the_command_prints_them_as_words_or_json(anabranch: Anabranch) -> None:
    done = anabranch("theory", "statements", "olia", "--json")
    document = json.loads(done.stdout)
    assert document["paper"] == "olia"
    assert [one["verdict"] for one in document["statements"]] == [HOLDS, WORDS, HOLDS, HOLDS, FALSE]
    words = anabranch("theory", "statements", "olia").stdout
    assert "5 statements: 3 holds, 1 not a statement that a machine can test, 1 false" in words


def test_an_unknown_paper_is_an_error_of_one_line(anabranch: Anabranch) -> None:
    with pytest.raises(ScenarioError, match="statements of reno: expected one of balia, itcp"):
        statements_of("reno")
    done = anabranch("theory", "statements", "reno")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
