"""The examples in docstrings run, and what is public has one."""

import doctest
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import anabranch

ROOT = Path(__file__).parents[2]

OF_RUST = {"Cancelled", "Path", "Scenario", "ScenarioError", "rules", "schema"}
"""Names that are documented in `_core.pyi`."""


def examples() -> Iterator[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    for module in pkgutil.walk_packages(anabranch.__path__, "anabranch."):
        if not module.name.endswith(("__main__", "_core")):
            yield from finder.find(import_module(module.name))
    yield from finder.find(anabranch, "anabranch")


EXAMPLES = {example.name: example for example in examples() if example.examples}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_in_a_docstring_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # examples name files of the repository
    assert doctest.DocTestRunner().run(EXAMPLES[name]).failed == 0


def test_everything_public_has_an_example() -> None:
    documented = {name.rpartition(".")[2] for name in EXAMPLES}
    assert set(anabranch.__all__) - OF_RUST <= documented
    assert {f"anabranch.result.Result.{name}" for name in ("summary", "totals", "save")} <= set(
        EXAMPLES
    )
