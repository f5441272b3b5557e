"""Each kind of mistake in a suite's folder is one line: the file, the key and what is expected."""

from pathlib import Path

import pytest

from anabranch import ScenarioError
from anabranch.experiments import folder, outcome
from experiments.tiny import JUDGE, STUDY, write, write_judge

STUDIES = {
    "looks": ("looks = [3]", "looks = [3, 2]", "looks: expected ascending numbers of 1 or more"),
    "case": ('cases = ["one"]', 'cases = ["won"]', "measures.share.cases[0]: unknown 'won', expe"),
    "baseline": ('over = ["alone"]', 'over = ["lone"]', "gain.over[0]: unknown 'lone'"),
    "quantity": ('"goodput_share"', '"goodput_shared"', "share.quantity: unknown 'goodput_shared'"),
    "parameter": ('flow = "two"', 'flo = "two"', "measures.share.flo: unknown key"),
    "measure": ('measure = "share", c', 'measure = "shares", c', "bounds[0].measure: unknown"),
    "bound": ("at_most = 0.55, ", "", "at_least: missing: a bound needs at_least, at_most"),
    "judged": ('case = "one", at', 'case = "alone", at', "case: unknown 'alone', expected one"),
    "figure": ('kind = "sweep"', 'kind = "curve"', "figure.kind: unknown 'curve', expected one"),
    "reference": ("reference = [0.5]", "reference = [1, 2]", "reference: expected a value for eac"),
    "drawn": ('metric = "share"', 'metric = "shore"', "figure.metric: unknown 'shore'"),
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


LATER = 'not_tested = { text = "there are none", key = "flows.*.receiver" }'
ITEMS = {
    "bound": ("at_least = 0.2, ", "", "missing: a bound needs"),
    "reference": ("at_least = 0.2", "at_least_of = 0.2", "items.box.reference: missing: bounds[0]"),
    "interval": ('"log(1,8)"', '"log(1,8,3)"', "expected an interval"),
    "way": (LATER, "", "expected one of cases, sample, check"),
    "scenario": ('text = "Does', 'scenario = "tine.toml"\ntext = "Does', "did you mean tiny.toml"),
    "trace": (
        "[items.later]",
        '[traces."d.csv"]\nkind = "delays"\ndelays_ms = [[0, 5]]\n[items.later]',
        'traces."d.csv".delays_ms: expected durations above 0',
    ),
}


MISTAKES = {
    **{f"study: {name}": (STUDY, *mistake) for name, mistake in STUDIES.items()},
    **{f"judge: {name}": (JUDGE, *mistake) for name, mistake in ITEMS.items()},
}


@pytest.mark.parametrize(("text", "old", "new", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_in_a_suite_is_one_line_with_file_and_key(
    text: str, old: str, new: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert old in text
    make = write if text is STUDY else write_judge
    make(tmp_path, monkeypatch, text.replace(old, new, 1))
    with pytest.raises(ScenarioError) as raised:
        folder.open_study("tiny") if text is STUDY else folder.open_judge()
    assert text is not STUDY or str(raised.value).startswith("tiny/study.toml: ")
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"two"', '"tow"', "tiny/study.toml: measures.share.flow: unknown 'tow', exp"),
        ('"goodput_share"\nflow = "two"', '"link_utilization"\nlink = "b"', "share.link: unknown"),
    ],
)
def test_a_name_that_a_scenario_lacks_is_found_before_the_first_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, message: str
) -> None:
    write(tmp_path, monkeypatch, STUDY.replace(old, new, 1))
    with pytest.raises(ScenarioError) as raised:
        outcome.planned(folder.open_study("tiny"), ["lia"], "sim", True)
    assert message in str(raised.value)
