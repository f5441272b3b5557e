"""Completion in the shell: it knows the commands, and does not load what takes long."""

import os
import subprocess

import pytest

from conftest import CLI

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
