"""The items of `judge/`: all of RFC 9743's sections, every threshold with a reason, no mistakes."""

from pathlib import Path

import pytest

from anabranch._core import rules, schema
from anabranch.experiments.lack import Lack
from anabranch.judge.entries import FOLDER, Item, Measure, Needs, open_items
from anabranch.judge.networks import checked, networks, unmet
from anabranch.judge.outcome import workloads_of
from anabranch.scenario import ScenarioError
from judge.tiny import JUDGE, write

RFC_9743 = [
    *("5.1.1", "5.1.2", "5.1.3", "5.1.4", "5.1.5", "5.2.1", "5.2.2", "5.2.3", "5.3.1", "5.3.2"),
    *("6.1", "6.2", "6.3", "6.4"),
    *("7.1", "7.2", "7.3", "7.4", "7.5", "7.6", "7.7", "7.8", "7.9", "7.10", "7.11"),
]
"""The sections below 5, 6 and 7, from the table of contents."""


def test_every_section_of_the_rfc_has_an_item() -> None:
    sections = {item.section for item in open_items().items.values()}
    assert set(RFC_9743) <= sections
    assert sections - set(RFC_9743) == {"5.2", "6", "theory"}


def test_the_items_are_in_the_order_of_the_rfc() -> None:
    found = [item.section for item in open_items().items.values()]
    assert found[0] == "5.1.1"
    assert found.index("7.9") < found.index("7.10") < found.index("7.11") < found.index("theory")


def test_every_threshold_has_a_reason() -> None:
    for name, item in open_items().items.items():
        assert all(len(one.why) > 5 for one in item.measures), name
        assert item.at_most is None or item.why, name


def test_every_scenario_of_the_folder_is_used_and_every_point_is_accepted() -> None:
    entries = open_items()
    used = {item.scenario for item in entries.items.values() if item.runs}
    assert used == {file.name for file in FOLDER.glob("*.toml") if "judge" not in file.name}
    for name, item in entries.items.items():
        if item.runs and unmet(item, [], []) is None:
            for network in networks(entries, name, item, quick=True):
                assert network.scenario.warnings == [], (name, network.label)


def test_an_item_waits_until_what_it_needs_exists() -> None:
    item = open_items().items["harm-bbr"]
    known = [rule["name"] for rule in rules()]
    assert unmet(item, ["reno"], []) == "the table has no rule bbr"
    assert unmet(item, ["reno", "bbr"], []) is None
    media = open_items().items["media"]
    assert unmet(media, known, ["bulk"]) == "scenarios have no workload media"
    assert {"bulk", "file", "poisson"} <= set(workloads_of(schema()))


def test_what_exists_in_another_form_than_an_item_expects_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, monkeypatch, JUDGE.replace('"tiny.toml"\nref', _NEEDS, 1))
    entries = open_items()
    reason = checked(entries, "victim", entries.items["victim"], False)
    assert isinstance(reason, str)
    assert reason.startswith("its scenario is not accepted: judge/tiny.toml")


_NEEDS = '"tiny.toml"\nneeds = { rule = "reno" }\nset = { "flows.victim.workload" = "odd" }\nref'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '"link_utilization"',
            '"link_use"',
            r"items.box.measures\[0\].quantity: unknown 'link_use'",
        ),
        ('link = "bottleneck"', 'lnk = "bottleneck"', "lnk: unknown key"),
        ("at_least = 0.2", "", "expected a bound on one side"),
        ("at_least = 0.2", "at_least = 0.2\nat_most = 1", "expected a bound on one side"),
        ("at_least = 0.2", "at_least_of_reference = 0.2", "items.box.reference: missing"),
        ('why = "a fifth"', "", r"measures\[0\].why: missing"),
        ('"log(1,8)"', '"log(1,8,3)"', "expected an interval"),
        (
            'not_tested = { text = "there are none", key = "flows.*.receiver" }',
            "",
            "expected one of points, sample, check",
        ),
        ('scenario = "tiny.toml"', 'scenario = "tine.toml"', "did you mean tiny.toml"),
        (
            "[items.later]",
            '[traces."d.csv"]\nkind = "delays"\ndelays_ms = [[0, 5]]\n[items.later]',
            r'traces."d.csv".delays_ms: expected durations above 0',
        ),
        ("points = [", "quick = [2]\npoints = [", "expected numbers of points, 0 to 1"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(
    old: str, new: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert old in JUDGE
    write(tmp_path, monkeypatch, JUDGE.replace(old, new, 1))
    with pytest.raises(ScenarioError, match=message) as error:
        open_items()
    assert "\n" not in str(error.value)


def test_items_are_chosen_by_name_and_by_section() -> None:
    entries = open_items()
    assert list(entries.chosen(("shared", "5.1.2"))) == ["bufferbloat", "shared"]
    with pytest.raises(ScenarioError, match=r"unknown 'shard'.*did you mean shared"):
        entries.chosen(("shard",))


def measure(**bounds: float) -> Measure:
    return Measure("user_goodput_mbps", "goodput", "why not", **bounds)


def test_bounds_of_references() -> None:
    ours = {"reno": 2.0, "cubic": 3.0}
    assert measure(at_most_of_reference=1.5).bound(ours) == 4.5, "the larger of two standards"
    assert measure(at_least_of_reference=0.5).bound(ours) == 1.0, "the smaller of two standards"
    assert measure(at_most_of_reference=1.5, at_most=5).bound(ours) == 5.0
    assert measure(at_most_of_reference=1.5, at_most=4).bound(ours) == 4.5
    assert measure(at_least=0.9).bound({}) == 0.9
    assert measure(at_most_of_reference=1.5, at_most=5).in_words == (
        "at most 1.5 x the reference's, or 5"
    )


def test_an_item_without_needs_needs_nothing() -> None:
    item = Item("5.2", "MUST", "t", "q", not_tested=Lack("no", key="flows.*.no"), needs=Needs())
    assert unmet(item, [], []) is None
