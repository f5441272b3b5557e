"""Options that every command has, and those that several share."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from anabranch.cli import main
from conftest import CLI, Anabranch


def commands(group: Any, words: tuple[str, ...] = ()) -> dict[str, Any]:
    """Every command by its words; not the groups."""
    found: dict[str, Any] = {}
    for name, command in getattr(group, "commands", {}).items():
        if hasattr(command, "commands"):
            found |= commands(command, (*words, name))
        else:
            found[" ".join((*words, name))] = command
    return found


COMMANDS = commands(typer.main.get_command(main.app))


@pytest.mark.parametrize("words", [words for words in COMMANDS if words != "lab"])
def test_every_command_has_quiet_and_verbose(words: str) -> None:
    options = {name for param in COMMANDS[words].params for name in param.opts}
    assert options >= {"--quiet", "-q", "--verbose", "-v"}


def test_a_quiet_sweep_prints_nothing_on_stderr(
    small: Path, tmp_path: Path, anabranch: Anabranch
) -> None:
    sweep = ["sweep", small, "--over=links.R1.rate_mbps=5,10", "--out", tmp_path / "store"]
    usual, quiet = anabranch(*sweep), anabranch(*sweep, "-q")
    assert "Points and tables are in" in usual.stderr
    assert (quiet.returncode, quiet.stderr, quiet.stdout) == (0, "", usual.stdout)
    status = anabranch("sweep", "status", tmp_path / "store", "--verbose")
    assert re.fullmatch(r"anabranch sweep status: \d+\.\d s\n", status.stderr)


@pytest.mark.parametrize("command", ["run", "compare"])
def test_seeds_may_be_a_list(command: str, small: Path, anabranch: Anabranch) -> None:
    done = anabranch(command, small, "-a", "lia", "--seeds", "7,3", "--json")
    assert '"seeds": [7, 3],' in done.stdout


def test_seeds_of_other_commands_may_be_a_list(
    small: Path, tmp_path: Path, anabranch: Anabranch
) -> None:
    over = "--over=links.R1.rate_mbps=5"
    swept = anabranch("sweep", small, over, "--seeds", "7,3", "--json", "-q")
    assert '"seeds": [7, 3],' in swept.stdout
    queueing = ["theory", "queueing", "--files", 2000, "--share", "0.5", "--seeds", "7,3", "-q"]
    assert "2000 files in" in (printed := anabranch(*queueing).stdout)
    assert ", 2 seeds" in printed


def test_an_unknown_schema_is_answered_in_plain_words(anabranch: Anabranch) -> None:
    done = anabranch("schema", "foo")
    assert done.returncode == 2
    assert done.stderr == (
        "anabranch: Invalid value for 'what': 'foo' is not one of 'scenario', 'result'.\n"
    )


def test_an_algorithm_that_is_named_twice_is_said_to_run_once(
    small: Path, anabranch: Anabranch
) -> None:
    done = anabranch("compare", small, "-a", "lia,olia,lia", "--seeds", 1)
    expected = "anabranch: warning: --algorithm lia,olia,lia: lia is given more than once"
    assert (done.returncode, done.stderr) == (0, f"{expected}: it runs once\n")


@pytest.mark.parametrize("words", [["--help"], ["shell", "--help"], ["-h"]], ids=" ".join)
def test_lab_prints_help_without_its_program(
    words: list[str], anabranch: Anabranch, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("ANABRANCH_LAB", raising=False)
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    # `make lab` installs the program beside Python.
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    done = anabranch("lab", *words)
    assert done.returncode == 0
    assert "anabranch lab check" in done.stdout
    assert "needs the program anabranch-lab: build it with" in done.stderr


SLOW_TO_LOAD = ["cvxpy", "jinja2", "matplotlib", "numpy", "pandas", "pyarrow", "scipy"]


def complete(words: str) -> subprocess.CompletedProcess[str]:
    """Completions in Bash of the last of these words, and on stderr every import."""
    asked = {
        "_ANABRANCH_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
        "PYTHONPROFILEIMPORTTIME": "1",
    }
    environment = {**os.environ, **asked}
    return subprocess.run(CLI, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("anabranch re", ["reproduce"]),
        ("anabranch theory fi", ["fixed-points"]),
        ("anabranch run --al", ["--algorithm"]),
    ],
)
def test_commands_and_options_are_completed(words: str, expected: list[str]) -> None:
    assert complete(words).stdout.split() == expected


def test_completion_does_not_load_what_takes_long() -> None:
    imported = {
        line.split("|")[-1].strip() for line in complete("anabranch re").stderr.splitlines()
    }
    assert "anabranch.cli.main" in imported
    assert imported.isdisjoint(SLOW_TO_LOAD)


def test_help_keeps_the_name_of_an_extra(anabranch) -> None:
    done = anabranch("theory", "prove", "--help")
    assert 'pip install "anabranch[prove]"' in " ".join(done.stdout.split())
