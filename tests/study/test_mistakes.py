"""Each kind of mistake in a study's folder is one line: the file, the key and what is expected."""

from pathlib import Path

import pytest

from anabranch import ScenarioError
from anabranch.study import folder, runs
from study.tiny import STUDY, write

MISTAKES = {
    "file": ("[verdict]", "[verdict", "tiny/study.toml: "),
    "key": ("[verdict]", "[verdicts]", "verdicts: unknown key, expected one of title, "),
    "missing": ('question = "Which', 'title_ = "Which', "title_: unknown key"),
    "backend": ('on = ["sim"', 'on = ["sum"', "on[0]: unknown 'sum', expected one of sim, quic, "),
    "seeds": ("seeds = 2", "seeds = 0", "seeds: expected 1 or more, got 0"),
    "no case": ('cases = ["one"]', "cases = []", "measures.share.cases: expected at least one "),
    "case": (
        'cases = ["one"]',
        'cases = ["won"]',
        "measures.share.cases[0]: unknown 'won', expected ",
    ),
    "baseline": ('best_of = ["alone"]', 'best_of = ["lone"]', "gain.best_of[0]: unknown 'lone'"),
    "quantity": ('"goodput_share"', '"goodput_shared"', "share.quantity: unknown 'goodput_shared'"),
    "parameter": ('flow = "two"', 'flo = "two"', "measures.share.flo: unknown key"),
    "measure": ('measure = "share"\ncase', 'measure = "shares"\ncase', "verdict.measure: unknown"),
    "bound": ("at_most = 0.55", "", "verdict.at_least: missing: a verdict needs at_least, at_most"),
    "judged": ('case = "one"', 'case = "alone"', "verdict.case: unknown 'alone', expected one"),
    "figure": ('kind = "curve"', 'kind = "curved"', "figure.kind: unknown 'curved', expected one"),
    "reference": ("reference = [0.5]", "reference = [1, 2]", "reference: expected a value per cas"),
    "drawn": ('measure = "share"\nx', 'measure = "shore"\nx', "figure.measure: unknown 'shore'"),
    "scenario": (
        'label = "1 TCP"',
        'label = "1 TCP"\nscenario = "scenario_2.toml"',
        "cases.one.scenario: unknown 'scenario_2.toml', expected scenario.toml",
    ),
    "backends": (
        'label = "1 TCP"',
        'label = "1 TCP"\non = ["sim"]',
        "cases.one.on: the verdict or the figure needs the case on every backend: remove the key",
    ),
    "trace": ("[[20, 5]]", "[[20, -5]]", "rates: expected durations above 0 and rates of 0 or mo"),
    "no rate": ("[[20, 5]]", "[[20, 0]]", 'traces."slow.trace".rates: expected a rate above 0'),
}


@pytest.mark.parametrize(("old", "new", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line_with_file_and_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, message: str
) -> None:
    assert STUDY.count(old) >= 1
    write(tmp_path, monkeypatch, STUDY.replace(old, new, 1))

    with pytest.raises(ScenarioError) as raised:
        folder.open_study("tiny")
    assert str(raised.value).startswith("tiny/study.toml: ")
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'flow = "two"',
            'flow = "tow"',
            "tiny/study.toml: measures.share.flow: unknown 'tow', exp",
        ),
        (
            '"goodput_share"\nflow = "two"',
            '"link_utilization"\nlink = "b"',
            "share.link: unknown 'b'",
        ),
    ],
)
def test_a_name_that_a_scenario_lacks_is_found_before_the_first_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, message: str
) -> None:
    write(tmp_path, monkeypatch, STUDY.replace(old, new, 1))
    with pytest.raises(ScenarioError) as raised:
        runs.plan(folder.open_study("tiny"), ["lia"], "sim", True)
    assert message in str(raised.value)


def test_an_unknown_study_is_named_with_those_that_exist() -> None:
    with pytest.raises(ScenarioError, match=r"unknown study 'shard'.*did you mean shared\?"):
        folder.open_study("shard")
