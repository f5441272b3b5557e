"""SECURITY.md names tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEST = re.compile(r"\b[a-z]+(?:_[a-z0-9]+){2,}\b")
FUNCTION = re.compile(r"^\s*(?:async )?fn (\w+)", re.MULTILINE)


def bounds() -> list[str]:
    """The rows of the tables: what somebody cannot do, and the tests that show it."""
    lines = (ROOT / "SECURITY.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.startswith("| cannot")]
    return [row for row in rows if not row.startswith("|---")]


@pytest.mark.parametrize("row", bounds())
def test_each_bound_names_a_test_that_exists(row: str) -> None:
    functions = {
        name
        for file in (ROOT / "crates").glob("*/**/*.rs")
        for name in FUNCTION.findall(file.read_text())
    }
    named = TEST.findall(row.split("|")[2])
    assert named
    assert set(named) <= functions
