"""`reproduce` and `theory`."""

import csv
import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from anabranch.cli.main import app

# In the paper `tiny` a faster link carries more ("more"), by at least 5 % ("lost", our own claim).


def printed(*options: str) -> str:
    done = CliRunner().invoke(app, ["reproduce", "tiny", "--quick", *options])
    assert done.exit_code in (0, 1), done.output
    return done.stdout


@pytest.mark.usefixtures("tiny")
def test_the_scores_come_first() -> None:
    lines = printed().splitlines()
    assert lines[0] == "Tiny (nowhere)"
    assert any("within 10 %" in line for line in lines[1:5])
    assert lines[-1].startswith("All numbers and claims: in the report")


@pytest.mark.usefixtures("tiny")
def test_a_claim_that_holds_is_not_printed() -> None:
    decided = CliRunner().invoke(app, ["reproduce", "tiny"]).stdout  # by two seeds
    assert "A faster link carries more." not in decided
    assert "A faster link carries more." in printed()


def test_no_line_is_wider_than_80_columns(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from anabranch.cli import tables

    monkeypatch.setattr(tables.STDOUT, "_width", 80)
    assert max(map(len, printed().splitlines())) <= 80


@pytest.mark.usefixtures("tiny")
def test_a_record_has_the_verdict_on_each_claim(tmp_path: Path) -> None:
    file = tmp_path / "tiny.csv"
    CliRunner().invoke(app, ["reproduce", "tiny", "--quick", "--record", str(file)])
    head, *rows = csv.reader(file.read_text().splitlines())
    assert head == ["paper", "claim", "own", "verdict", "compared", "rests on"]
    assert [row[:4] for row in rows] == [
        ["tiny", "more", "", "undecided"],  # by one seed
        ["tiny", "lost", "own", "undecided"],
    ]
    assert all(row[4] for row in rows)


COMMANDS = typer.main.get_command(app).commands["theory"].commands
"""Commands of `anabranch theory`, by name."""

WITH_A_SCENARIO = [
    name
    for name, command in COMMANDS.items()
    if any("FILE" in str(p.metavar) for p in command.params if p.param_type_name == "argument")
]


@pytest.mark.parametrize("name", WITH_A_SCENARIO)
def test_a_command_that_reads_a_scenario_replaces_its_values(
    name: str, small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["theory", name, str(small), "--json"]
    app(command, standalone_mode=False)
    usual = json.loads(capsys.readouterr().out)
    settings = ["--set", "links.R1.rate_mbps=2", "--set", "name=slow"]
    app([*command, *settings], standalone_mode=False)
    slower = json.loads(capsys.readouterr().out)
    assert (usual.pop("scenario"), slower.pop("scenario")) == ("small", "slow")
    assert usual != slower


def test_three_commands_read_a_scenario() -> None:
    assert sorted(WITH_A_SCENARIO) == ["equilibrium", "fixed-points", "optimum"]
