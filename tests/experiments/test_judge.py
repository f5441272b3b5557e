"""`anabranch judge` from a rule to its directory, and three bad rules."""

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from anabranch.experiments import counterexample, report
from anabranch.experiments.decision import Looks
from anabranch.experiments.numbers import Answer
from anabranch.experiments.outcome import Outcome, judge
from anabranch.experiments.runs import Runs
from anabranch.experiments.suite import Item
from anabranch.scenario import rules
from anabranch.sweeps.store import Directory, Nowhere
from conftest import Anabranch
from experiments.tiny import JUDGE, write_judge

ROOT = Path(__file__).parents[2]
BAD = ROOT / "examples" / "bad_rules.py"


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder beside that of the items that there are."""
    (tmp_path / "judge").mkdir()
    write_judge(tmp_path / "judge", monkeypatch)
    return tmp_path


Edit = Callable[[str, str], None]


@pytest.fixture
def edit(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Edit:
    """Replaces a piece of the tiny folder's file."""
    return lambda old, new: write_judge(tiny / "judge", monkeypatch, JUDGE.replace(old, new, 1))


def test_a_bad_rule_from_its_file_to_a_counterexample_that_runs(
    tiny: Path, anabranch: Anabranch
) -> None:
    out = tiny / "out"
    rule = f"{BAD}:Stubborn"
    run = anabranch("judge", rule, "--out", out)
    assert run.returncode == 1, run.stderr

    found = json.loads((out / "report.json").read_text())
    by_name = {one["item"]: one for one in found["answers"]}
    assert by_name["sane"]["result"] == "holds"
    assert by_name["later"]["result"] == "not tested"
    harm = by_name["victim"]
    assert harm["result"] == "fails"
    # Who never backs off leaves a Reno flow far less than a half; the smallest network shows it.
    assert harm["counterexample"]["case"] == "1 flow"
    assert harm["counterexample"]["value"] < harm["counterexample"]["bound"]
    assert found["counts"]["fails"] == 1

    file = out / "counterexamples" / "victim.toml"
    again = anabranch("judge", rule, "--again", file, "--json")
    assert again.returncode == 1, again.stderr
    (number,) = json.loads(again.stdout)
    assert not number["holds"]
    (seed,) = number["seeds"]
    assert number["seeds"][seed] == harm["counterexample"]["seeds"][seed], "the same run"
    assert anabranch("judge", "reno", "--again", file).returncode == 0

    manifest = json.loads((out / "manifest.json").read_text())
    written = {str(f.relative_to(out)) for f in out.rglob("*") if f.is_file()}
    assert set(manifest["files"]) == written - {"manifest.json"}
    assert manifest["suite"]["rules"] == [rule]


def test_a_counterexample_of_a_named_rule_is_a_scenario_of_its_own(
    tiny: Path, edit: Edit, anabranch: Anabranch
) -> None:
    edit("at_least_of = 0.75", "at_least_of = 1.5")
    assert anabranch("judge", "lia", "--items", "victim", "--out", tiny / "out").returncode == 1
    file = tiny / "out" / "counterexamples" / "victim.toml"
    assert 'algorithm = "lia"' in file.read_text()
    assert anabranch("run", file).returncode == 0


def test_a_counterexample_is_as_short_as_it_can_be_and_clears_the_control(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counterexample, "SHORTEST_S", 3.0)
    found = judge(f"{BAD}:Stubborn", ["victim"])
    assert found.subject is not None
    durations = []
    for number in found["victim"].numbers:
        short, cleared = counterexample.shortened(found.subject, "reno", number)
        assert cleared
        assert short.margin < 1
        scenario = short.network.scenario
        durations.append(scenario.duration_s)
        assert scenario.warmup_s == pytest.approx(scenario.duration_s / 5)
        half = counterexample._lasting(short.network, scenario.duration_s / 2)
        runs, seeds, how = Runs(Nowhere()), list(short.seeds), (number.measure, number.bound)
        shorter, control = (
            counterexample.at(runs, half, rule, seeds, *how, number.each) for rule in half.rules
        )
        shortest = scenario.duration_s / 2 < 3.0
        assert shorter.margin >= 1 or control.margin < 1 or shortest
    # A flow that never backs off harms more, and sooner, where there are two.
    assert durations[0] >= durations[1]


def test_a_control_that_is_beyond_the_bound_too_is_named(edit: Edit) -> None:
    """Reno leaves Reno what it leaves: no seed clears it where 1.5 times as much is asked for."""
    edit("at_least_of = 0.75", "at_least_of = 1.5")
    found = judge("lia", ["victim"])
    answer = found["victim"]
    assert found.subject is not None
    assert answer.counterexample is not None
    written, _ = counterexample.text_of(found.subject, answer, answer.counterexample)
    assert "# reno is beyond the bound in this run, too." in written
    assert "with seed 1 and 2 and 3 and 4" in written, "the first look's"


def test_reno_is_its_own_reference(tiny: Path) -> None:
    found = judge("reno", ["victim"])
    (one, two) = found["victim"].numbers
    assert [one.margin, two.margin] == pytest.approx([1 / 0.75] * 2)


def test_the_worst_network_is_searched_for_and_decided_on_fresh_seeds(tiny: Path) -> None:
    answer = judge("reno", ["box"], quick=True)["box"]
    # Two cases and, in a round of the search, two around the worst of them, by the first look.
    assert len(answer.searched) == 4
    assert {seed for one in answer.searched for seed in one.seeds} == {1, 2, 3, 4}
    worst = min(answer.searched[:2], key=lambda one: one.margin)
    for near in answer.searched[2:]:
        ratio = near.network.sampled["rate_mbps"] / worst.network.sampled["rate_mbps"]
        # A quarter of log(8) to either side.
        assert 8**-0.26 < ratio < 8**0.26
    (decided,) = answer.numbers
    chosen = min(answer.searched, key=lambda one: one.margin)
    assert decided.network is chosen.network
    assert set(decided.seeds) == {9, 10, 11, 12}, "beyond the 8 of the last look"


def test_more_seeds_go_to_what_is_undecided_alone(edit: Edit) -> None:
    found = judge("reno", ["victim"])  # equal to the bit: decided at the first look
    assert {len(one.seeds) for one in found["victim"].numbers} == {4}
    # A bound at Reno's own number is decided by nothing but chance.
    edit("at_least_of = 0.75", "at_least_of = 1.0")
    near = judge("lia", ["victim"])["victim"]
    assert max(len(one.seeds) for one in near.numbers) == 8
    assert judge("lia", ["victim"], seeds=range(33, 41)).seeds == [33, 34, 35, 36]
    assert judge("lia", ["victim"], seeds=2)["victim"].numbers[0].looks == Looks.one(2)


def test_an_undecided_item_exits_with_3_if_that_is_asked_for(
    edit: Edit, anabranch: Anabranch
) -> None:
    edit("at_least_of = 0.75", "at_least_of = 1.0")
    command = ("judge", "reno:coupling=never", "--items", "victim", "--seeds", "1")
    run = anabranch(*command)
    assert (run.returncode, "undecided" in run.stdout) == (0, True), run.stderr
    assert anabranch(*command, "--strict").returncode == 3


def test_what_cannot_fail_counts_only_if_it_fails(edit: Edit, anabranch: Anabranch) -> None:
    edit("bounds =", 'cannot_fail = "so it is"\nbounds =')
    found = judge("reno", ["victim", "later"])
    assert found["victim"].result == "holds"
    assert (found.counts["holds"], found.counts["not tested"]) == (1, 1), "of item zero alone"
    assert found.in_words.startswith("RFC 9743: 0 hold, 0 fail, 1 not tested, 1 cannot fail; ")
    assert "Not counted unless it fails: so it is." in report.html(found)
    assert "(holds)" in anabranch("judge", "reno", "--items", "victim").stdout
    # One seed decides nothing, and what does not count is not open.
    assert not judge("lia", ["victim"], seeds=1).open_items

    # A failure shows that the reason is wrong, or not of this rule.
    failed = judge(f"{BAD}:Stubborn", ["victim"])
    assert failed.counts["fails"] == 1
    assert failed.in_words.startswith("RFC 9743: 0 hold, 1 fail, 0 not tested; ")


def test_rules_in_one_store_keep_each_others_points(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rule in ("lia", "olia"):
        judge(rule, ["victim", "box"], quick=rule == "olia", store=tiny / "kept")
    kept = Directory.existing(tiny / "kept")
    points = {key for one in kept.definitions() for key in one["points"]}
    # Cases of lia, olia and reno, and those of both searches, which gc would else remove.
    assert len(points) >= 24
    assert points == set(kept.stored())
    kept.close()
    assert capsys.readouterr().err == ""


def test_a_rule_without_equations_is_not_tested_by_them() -> None:
    found = judge("cubic", ["stability"], quick=True)
    assert found["stability"].result == "not tested"
    assert "cubic" in found["stability"].says
    python = judge(f"{BAD}:Starving", ["equilibrium"], quick=True)
    assert python["equilibrium"].result == "not tested"
    assert python["equilibrium"].says.startswith("Starving is written in Python")


def test_the_page_is_self_contained_and_small(tiny: Path) -> None:
    found = judge("lia", quick=True)
    page = report.html(found)
    for one in found.answers:
        assert one.item.title in page
    assert not re.search(r"(src|href)=\"(https?:)?//|<script|@import|url\(", page)
    assert len(page.encode()) < 300_000
    assert "prefers-color-scheme: dark" in page


def test_a_record_has_a_row_per_item(tiny: Path, anabranch: Anabranch) -> None:
    file = tiny / "record.csv"
    run = anabranch("judge", "lia", "--items", "victim,later", "--quick", "--record", file)
    assert run.returncode in (0, 1), run.stderr
    header, victim, later = csv.reader(file.read_text().splitlines())
    assert header == ["section", "item", "lia", "failures"]
    found = judge("lia", ["victim", "later"], quick=True)
    assert victim[:3] == ["5.2.1", "Harm", found["victim"].result]
    assert later == ["7.6", "Receivers", "not tested", ""]


def test_a_record_says_of_each_item_why_each_rule_fails_it() -> None:
    def judged(rule: str, *results: str) -> Outcome:
        items = [Item("?", section="5.1", title=name) for name in "abc"]
        zero = Answer("sane", Item("?", section="0"), rule, "holds", "")
        pairs = zip(items, results, strict=True)
        answers = [Answer(i.title, i, rule, r, f"{rule} of {i.title}") for i, r in pairs]
        return cast(Outcome, SimpleNamespace(answers=[zero, *answers]))

    found = [judged("r:x=1", "fails", "fails", "holds"), judged("s", *["fails"] * 3)]
    assert list(csv.reader(report.record_of_judgements(found).splitlines())) == [
        ["section", "item", "r:x=1", "s", "failures"],
        ["5.1", "a", "fails", "fails", "r:x=1: r:x=1 of a | s: s of a"],
        ["5.1", "b", "fails", "fails", "r:x=1: r:x=1 of b | s: s of b"],
        ["5.1", "c", "holds", "fails", "s: s of c"],
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected a RULE, such as lia or my_rule.py:MyRule, or --all"),
        (["lia", "--all"], "expected a RULE"),
        (["--again", "x.toml", "--all"], "--again needs the RULE"),
        (["lia", "--record", "missing/x.csv"], "expected a file to write in a folder that exists"),
        (["liaa"], "did you mean lia"),
        (["lia", "--items", "5.1.9"], "--items: unknown '5.1.9'"),
        (["lia", "--again", "missing.toml"], "missing.toml: No such file"),
        (
            ["lia", "--again", str(ROOT / "examples" / "two_links.toml")],
            "expected a counterexample",
        ),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], message: str, anabranch: Anabranch) -> None:
    run = anabranch("judge", *arguments)
    assert run.returncode == 2
    assert message in run.stderr
    assert len(run.stderr.splitlines()) == 1


SUBTLE = {
    "LongPaths": "harm-long",
    "LargeWindows": "harm-long",
    "ThreePaths": "shared",
    "OnceInTen": "harm-reno",
    "IgnoringMarks": "ecn",
}
"""The item of the RFC that finds each rule of `subtle_rules.py`."""


@pytest.mark.slow
@pytest.mark.parametrize("name", SUBTLE)
def test_a_subtly_bad_rule_is_found_where_the_good_one_holds(name: str) -> None:
    file, item = Path(__file__).with_name("subtle_rules.py"), SUBTLE[name]
    assert judge(f"{file}:{name}", [item], quick=True)[item].result == "fails"
    assert judge(f"{file}:LIA", [item])[item].result == "holds"  # 1.2 of 1.25 takes 16 seeds


FAULTS = {"Stubborn": "heavy-loss", "Overfilling": "bufferbloat", "Starving": "fairness"}
"""The item of the RFC that names what is wrong with each bad rule."""


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_every_bad_rule_is_found_with_a_counterexample_that_runs(
    name: str, tmp_path: Path, anabranch: Anabranch
) -> None:
    out = tmp_path / "out"
    assert anabranch("judge", f"{BAD}:{name}", "--quick", "--out", out).returncode == 1
    found = json.loads((out / "report.json").read_text())
    failed = {one["item"] for one in found["answers"] if one["result"] == "fails"}
    assert FAULTS[name] in failed
    assert "harm-reno" in failed
    files = sorted((out / "counterexamples").glob("*.toml"))
    assert {file.stem for file in files} >= {FAULTS[name], "harm-reno"}
    for file in files:
        again = anabranch("judge", f"{BAD}:{name}", "--again", file)
        assert again.returncode == 1, file.stem
    assert (out / "report.html").stat().st_size < 300_000


def test_dctcp_does_not_run_as_reno_and_the_warnings_are_told(anabranch: Anabranch) -> None:
    # Beside Reno in one queue that marks, DCTCP has several times as much: its alpha is the share
    # of marks, Reno halves at each. With tcp.ecn = true both have the same.
    done = anabranch("judge", "dctcp", "--quick", "--items", "ecn,l4s", "--json")
    assert 'anabranch: warning: dctcp needs tcp.ecn = "accurate"' in done.stderr
    found = {one["item"]: one["result"] for one in json.loads(done.stdout)["answers"]}
    assert found["ecn"] == found["l4s"] == "fails"


def test_a_rule_that_takes_a_mark_as_a_loss_coexists_with_scalable_flows() -> None:
    # The references are Reno and CUBIC, and LIA over one path is Reno.
    assert judge("lia", ["l4s"], quick=True)["l4s"].result == "holds"


def test_a_warning_of_run_names_the_items_that_it_concerns() -> None:
    found = judge("bbr3", ["shared", "ecn"], quick=True)
    for warning in found.warnings:
        names, _, text = warning.partition(": ")
        assert set(names.split(", ")) <= {"shared", "ecn"}
        assert text
    assert len(set(found.warnings)) == len(found.warnings)


@pytest.mark.slow
def test_every_rule_of_the_table_is_judged() -> None:
    known: dict[tuple[str, str], float] = {}
    found: dict[str, Outcome] = {
        row["name"]: judge(row["studied_as"], quick=True, known=known) for row in rules()
    }
    for name, one in found.items():
        assert one["sane"].result == "holds", name
        assert one["silence"].result == "holds", f"{name}: the controller backs off, not the rule"
    # Over one path Reno is compared with itself; over two it is two flows, and is told so.
    assert found["reno"]["shared"].result == "fails"
    assert {one.item.section for one in found["reno"].of("fails")} == {"7.10", "theory"}
    for name in ("lia", "olia", "balia"):
        assert {one.item.section for one in found[name].of("fails")} <= {"theory"}, name
        assert judge(name, ["shared"])["shared"].result == "holds", "with more than 8 seeds"
