"""Wrong arguments of Python functions are one line of ScenarioError, in Python's words."""

from pathlib import Path
from typing import Any

import pytest

import anabranch
from anabranch import ScenarioError
from anabranch.experiments.outcome import harm
from anabranch.scenario import path_names
from conftest import SMALL

WRONG = {
    "seeds as text": ({"seeds": "3"}, r"seeds = '3': expected n for the seeds 1 to n, or a list"),
    "half a seed": ({"seeds": 2.5}, r"seeds = 2.5: expected n for the seeds 1 to n, or a list"),
    "half seeds": ({"seeds": [1, 2.5]}, "expected n for the seeds 1 to n, or a list"),
    "a seed beyond 64 bits": ({"seeds": [1, 2**64]}, "none below 0 or beyond 64 bits"),
    "jobs as text": ({"jobs": "2"}, "jobs = '2': expected 1 or more"),
    "no number of jobs": ({"jobs": float("nan")}, "jobs = nan: expected 1 or more"),
    "a key of set that is no text": ({"set": {1: 2}}, "set = {1: 2}: expected a dict of keys to"),
    "set as a list": ({"set": ["a=1"]}, r"set = \['a=1'\]: expected a dict of keys to values"),
    "two backends": ({"on": ["sim", "quic"]}, r"on = \['sim', 'quic'\]: expected the name of one"),
    "a wrong value": (
        {"set": {"links.R1.rate_mbps": "fast"}},
        r"""set\['links.R1.rate_mbps'\] = "fast": expected a number, got "fast\"""",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_argument_is_named_with_what_was_expected(case: str, small: Path) -> None:
    arguments, message = WRONG[case]
    with pytest.raises(ScenarioError, match=message) as error:
        anabranch.run(small, **arguments)
    assert "\n" not in str(error.value)
    assert "--set" not in str(error.value)


@pytest.mark.parametrize("case", ["seeds as text", "set as a list", "two backends"])
def test_sweep_and_harm_check_them_too(case: str, small: Path) -> None:
    arguments, message = WRONG[case]
    with pytest.raises(ScenarioError, match=message):
        anabranch.sweep(small, {"links.R1.rate_mbps": [5]}, **arguments)
    with pytest.raises(ScenarioError, match=message):
        harm(quick=True, **arguments)


@pytest.mark.parametrize(
    ("source", "got"), [({"links": {}}, "got a dict"), (7, "got a int"), (SMALL, "got text")]
)
def test_what_is_no_path_names_the_function_that_reads_it(source: Any, got: str) -> None:
    with pytest.raises(ScenarioError, match=rf"{got}: Scenario.parse\(text\) reads") as error:
        anabranch.run(source)
    assert "\n" not in str(error.value)


def test_a_scenario_is_not_built_from_text() -> None:
    with pytest.raises(TypeError, match=r"Scenario.load\(path\) .* Scenario.parse\(text\)"):
        anabranch.Scenario(SMALL)  # type: ignore[call-arg, unused-ignore]


class Misspelt(anabranch.Rule):
    def increase(self, r: int, paths: Any) -> float:
        return 1 / paths[r].cwnd


def test_an_attribute_that_a_path_has_not_is_named_with_those_it_has(small: Path) -> None:
    expected = rf"{__file__}:\d+: a path has no cwnd: expected one of .*rtt, .*window"
    for call in (anabranch.run, lambda *args: anabranch.sweep(*args[:1], RATE, *args[1:])):
        with pytest.raises(ScenarioError, match=expected) as error:
            call(small, Misspelt(), 1)
        assert error.value.__cause__ is None
        assert error.value.__suppress_context__


RATE = {"links.R1.rate_mbps": [5]}


class Broken(anabranch.Rule):
    def increase(self, r: int, paths: Any) -> float:
        return self.gain / paths[r].window  # type: ignore[attr-defined, no-any-return]


def test_another_missing_attribute_is_the_rule_s_own_error(small: Path) -> None:
    with pytest.raises(AttributeError, match="'Broken' object has no attribute 'gain'"):
        anabranch.run(small, Broken(), 1)


def test_an_algorithm_for_flows_that_have_their_own_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    unnamed = SMALL.replace('name = "small"\nalgorithm = "lia"\n', "")
    file.write_text(unnamed.replace('"two"', '"two"\nalgorithm = "lia"'), encoding="utf-8")
    with pytest.raises(ScenarioError, match=r"own\.toml: every flow names its own algorithm"):
        anabranch.run(file, "olia")


def test_links_are_joined_and_equal_paths_are_numbered(small: Path) -> None:
    paths = 'paths = [["R1", "R2"], { links = ["R2"], return_delay_ms = 5 }, ["R2"]]'
    small.write_text(SMALL.replace('paths = [["R1"], ["R2"]]', paths))
    names = path_names(anabranch.load(small))
    assert names == {"two": ["R1+R2", "R2 (1)", "R2 (2)"], "one": ["R2"]}


def test_the_figure_of_windows_names_the_links(small: Path) -> None:
    figure = anabranch.run(small, seeds=1).plot("windows")
    (legend,) = [axes.get_legend() for axes in figure.axes if axes.get_legend()]
    assert [text.get_text() for text in legend.get_texts()] == ["via R1", "via R2"]
