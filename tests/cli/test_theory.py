"""The options that all commands of `anabranch theory` share."""

import json
from pathlib import Path

import pytest
import typer

from anabranch.cli.main import app

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
