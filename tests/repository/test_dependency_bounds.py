"""The lower bounds of the dependencies are the versions that `make matrix` tests."""

import tomllib
from collections import defaultdict
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def bounds(requirements: list[str], operator: str) -> dict[str, Version]:
    """The smallest version that is named for each dependency with this operator alone."""
    named = defaultdict(list)
    for line in requirements:
        requirement = Requirement(line)
        (specifier,) = requirement.specifier
        assert specifier.operator == operator, line
        named[requirement.name].append(Version(specifier.version))
    return {name: min(versions) for name, versions in named.items()}


def test_the_oldest_versions_tested_are_the_lower_bounds() -> None:
    pins = (ROOT / "requirements-oldest.txt").read_text().splitlines()
    pins = [line for line in pins if not line.startswith("#")]
    assert bounds(pins, "==") == bounds(PROJECT["dependencies"], ">=")


def test_the_pythons_of_the_matrix_are_those_of_the_metadata() -> None:
    claimed = [
        name.rpartition(" ")[2]
        for name in PROJECT["classifiers"]
        if name.startswith("Programming Language :: Python :: 3.")
    ]
    assert f"@nox.session(python={claimed})".replace("'", '"') in (ROOT / "noxfile.py").read_text()
    assert PROJECT["requires-python"] == f">={claimed[0]}"
