"""Tables name the rule that a flow ran, not the algorithm that was asked for."""

from pathlib import Path

import pytest

import anabranch
from anabranch.cli import comparison, tables
from anabranch.scenario import Scenario
from conftest import SMALL

OWN = {"flows.two.algorithm": "balia"}
"""With it every flow of the scenario `small` names its own algorithm."""


def rows(printed: str, *first: str) -> list[list[str]]:
    """The leading words of the lines that begin with one of these words."""
    return [line.split()[:3] for line in printed.splitlines() if line.startswith(first)]


def test_a_flow_is_in_the_row_of_its_own_rule(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables.run(anabranch.run(small, "lia", seeds=1))
    flows, links = capsys.readouterr().out.split("\nalgorithm")
    assert rows(flows, "rule", "lia", "reno") == [
        ["rule", "flow", "users"],
        ["lia", "two", "2"],
        ["reno", "one", "1"],
    ]
    assert [row[:2] for row in rows(links, "lia")] == [["lia", "R1"], ["lia", "R2"]]


def test_several_algorithms_tell_the_runs_apart_beside_the_rule(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables.run(anabranch.run(small, ["lia", "olia"], seeds=1))
    flows = capsys.readouterr().out.split("\nalgorithm")[1]
    assert rows(flows, "lia", "olia") == [
        ["lia", "lia", "two"],
        ["lia", "reno", "one"],
        ["olia", "olia", "two"],
        ["olia", "reno", "one"],
    ]


def test_without_own_rules_the_table_has_one_column_of_names(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables.run(anabranch.run(small, "reno", seeds=1))
    assert rows(capsys.readouterr().out, "algorithm")[0] == ["algorithm", "flow", "users"]


def test_a_comparison_says_what_a_flow_of_its_own_rule_ran(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    comparison.comparison([anabranch.run(small, ["lia", "olia"], seeds=1)])
    printed = capsys.readouterr().out
    assert "2× two, Mbps each" in printed
    assert "one (reno), Mbps" in printed


def test_the_summary_has_the_rule(small: Path) -> None:
    summary = anabranch.run(small, ["lia", "olia"], seeds=1).summary()
    assert list(summary[["algorithm", "flow", "rule"]].itertuples(index=False, name=None)) == [
        ("lia", "two", "lia"),
        ("lia", "one", "reno"),
        ("olia", "two", "olia"),
        ("olia", "one", "reno"),
    ]


def test_a_comparison_of_equal_runs_is_a_warning_with_the_remedy(small: Path) -> None:
    result = anabranch.run(small, ["lia", "olia"], seeds=1, set=OWN)
    assert result.warnings == [
        f"{small}: every flow names its own algorithm: two (balia), one (reno): the runs of lia, "
        "olia are the same: remove `algorithm` of a flow"
    ]
    assert anabranch.run(small, ["lia", "olia"], seeds=1).warnings == []
    assert anabranch.run(small, "olia", seeds=1, set=OWN).warnings == []
    swept = anabranch.sweep(small, {"flows.two.algorithm": ["lia", "olia"]}, ["reno", "balia"], 1)
    assert swept.warnings == []


def test_seeds_that_change_nothing_are_said_with_what_would_change_it(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = SMALL.replace("queue.red = {}\n", "").replace("start_spread_s = 1\n", "")
    text = text.replace("[[flows]]\n", "[[flows]]\nstart_spread_s = 0\n")
    fixed = anabranch.run(Scenario.parse(text), "lia", seeds=2)
    for result, hint in ((fixed, f"{tables.CHANCE}\n"), (anabranch.run(small, "lia"), "")):
        tables.run(result)
        out, err = capsys.readouterr()
        assert (err, "deterministic: the same with 2 seeds" in out) == (hint, bool(hint))
