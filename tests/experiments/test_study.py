"""`anabranch study`: every rule of the table, a table, a figure, a verdict, and what is kept."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from anabranch.experiments import figures, folder, outcome
from anabranch.experiments.drawings import Distribution, Line, Plane, Series
from anabranch.figures.style import style
from anabranch.result import Result
from anabranch.scenario import ScenarioError, rules
from conftest import Anabranch
from experiments.tiny import STUDY, write

STUDIES = folder.known_studies()


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder beside that of the one study that there is."""
    (tmp_path / "studies").mkdir()
    write(tmp_path / "studies", monkeypatch)
    return tmp_path


def test_a_study_from_its_folder_to_its_directory(tiny: Path, anabranch: Anabranch) -> None:
    out = tiny / "out"
    run = anabranch("study", "tiny", "--rules", "reno,lia", "--out", out, "--store", tiny / "kept")
    assert run.returncode == 0, run.stderr

    found = json.loads((out / "tiny" / "report.json").read_text())
    share = {row["rule"]: row for row in found["table"] if row["measure"] == "share"}
    # Two uncoupled paths beside one: two thirds of the link. LIA takes one path's share, a half.
    assert share["reno"]["value"] == pytest.approx(2 / 3, abs=0.1)
    assert share["lia"]["value"] == pytest.approx(0.5, abs=0.12)
    assert share["lia"]["value_ci95"] > 0
    assert found["verdict"].startswith("Share beside 1 TCP: lia 0.")
    assert {rule for of in found["results"]["share"].values() for rule in of} == {"reno", "lia"}
    assert found["verdict"] in " ".join(run.stdout.split())

    # Goodput beside a TCP over that of CUBIC alone, which has all of the link: about the share.
    gain = {row["rule"]: row["value"] for row in found["table"] if row["measure"] == "gain"}
    assert gain["reno"] == pytest.approx(share["reno"]["value"], abs=0.05)
    assert set(gain) == {"reno", "lia"}, "a baseline is no row"

    manifest = json.loads((out / "tiny" / "manifest.json").read_text())
    written = {file.name for file in (out / "tiny").iterdir()}
    assert set(manifest["files"]) == written - {"manifest.json"}
    assert {
        "figure.svg",
        "figure.png",
        "table.md",
        "table.tex",
        "values.parquet",
        "slow.trace",
        "report.html",
    } <= written
    assert manifest["suite"]["seeds"] == [1, 2, 3]
    page = (out / "tiny" / "report.html").read_text()
    assert found["verdict"] in page
    assert "<svg" in page


def test_a_record_has_a_cell_per_number_and_the_verdict_where_it_is_judged(
    tiny: Path, anabranch: Anabranch
) -> None:
    file = tiny / "record.csv"
    for chosen in ("reno,olia", "reno,lia"):
        run = anabranch("study", "tiny", "--rules", chosen, "--record", file)
        assert run.returncode == 0, run.stderr
    rows = list(csv.DictReader(file.read_text().splitlines()))
    found = outcome.study("tiny", ["reno", "lia"])
    assert (len(rows), len(found.table)) == (2, 4), "two measures in a case each, two rules"
    assert list(rows[0]) == ["study", "measure", "case", "reno", "olia", "lia"]
    assert all(row["olia"] for row in rows), "the run of other rules keeps its numbers"
    assert {(row["study"], row["case"]) for row in rows} == {("tiny", "1 TCP")}
    by_measure = {row["measure"]: row for row in rows}
    entries = found.suite.entries
    verdicts = {one.rule: one.result for one in found.answers}
    for cell in found.table.to_dict("records"):
        row = by_measure[entries.measures[cell["measure"]].label]
        value, sign, ci95, *verdict = row[cell["rule"]].split()
        assert float(value) == pytest.approx(cell["value"], rel=1e-3)
        assert sign == "±"
        assert float(ci95) == pytest.approx(cell["value_ci95"], rel=1e-3)
        judged = cell["measure"] == "share"
        assert verdict == ([verdicts[cell["rule"]]] if judged else [])


def test_a_case_of_some_backends_is_left_out_on_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = '[cases.more]\nlabel = "2 TCP"\non = ["quic"]\nset = { "flows.tcp.count" = 2 }\n\n'
    text = STUDY.replace("[measures.share]", f"{other}[measures.share]", 1)
    write(tmp_path, monkeypatch, text.replace('cases = ["one"]', 'cases = ["one", "more"]', 1))
    found = {on: outcome.study("tiny", ["lia"], on=on, quick=True) for on in ("sim", "quic")}
    titles = {on: [column.title for column in found[on].columns] for on in found}
    assert titles["quic"] == ["share, 1 TCP", "share, 2 TCP", "goodput over alone"]
    assert titles["sim"] == ["share, 1 TCP", "goodput over alone"]
    assert not found["sim"].failures


def test_a_new_rule_of_the_table_joins(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    joins = {**rules()[0], "name": "new", "studied_as": "generalized:beta=0.5"}
    monkeypatch.setattr(outcome, "rules", lambda: [rules()[0], joins])
    found = outcome.study("tiny", quick=True)
    assert list(found.rules) == ["reno", "generalized:beta=0.5"]
    assert len(figures.draw(found).axes) == 2, "a panel each"


def test_every_rule_of_the_table_runs_where_the_backend_has_it() -> None:
    assert outcome.every_rule("sim") == [rule["studied_as"] for rule in rules()]
    assert "cubic" not in outcome.every_rule("fluid")
    assert "lia" in outcome.every_rule("fluid")


def test_a_backend_without_a_study_is_one_error_that_names_it() -> None:
    opened = [folder.open_study(name) for name in ("shared", "schedulers", "satellite")]
    with pytest.raises(ScenarioError) as raised:
        outcome.check_backend(opened, "fluid")
    assert str(raised.value) == (
        "not defined on fluid: schedulers, satellite; for the others: "
        "anabranch study shared --on fluid"
    )
    with pytest.raises(
        ScenarioError, match=r"^not defined on quic: schedulers: expected --on sim$"
    ):
        outcome.check_backend(opened[1:2], "quic")
    outcome.check_backend(opened[:1], "kernel")


def test_the_list_names_question_backends_sources_and_what_is_missing(
    anabranch: Anabranch,
) -> None:
    listed = json.loads(anabranch("study", "list", "--json").stdout)
    assert [one["study"] for one in listed] == STUDIES
    for one in listed:
        assert one["question"].endswith("?")
        assert one["sources"]
        assert one["not_modelled"]
        assert "sim" in one["on"]
    assert "shared" in anabranch("study", "list").stdout


def test_a_run_in_real_time_that_was_too_late_is_named(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, anabranch: Anabranch
) -> None:
    monkeypatch.setattr(Result, "late_runs", lambda _: pd.DataFrame({"seed": [1]}))
    run = anabranch("study", "tiny", "--quick", "--rules", "lia")
    assert "tiny: one, lia, seed 1: packets were too late to count" in run.stderr


@pytest.mark.parametrize("arguments", [[], ["shared", "--all"], ["shard"]])
def test_an_unclear_choice_is_one_line_with_a_remedy(
    anabranch: Anabranch, arguments: list[str]
) -> None:
    run = anabranch("study", *arguments)
    assert run.returncode == 2
    assert run.stderr.count("\n") == 1
    assert "expected" in run.stderr


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize("quick", [True, False])
def test_every_scenario_of_a_study_is_valid(name: str, quick: bool) -> None:
    study = folder.open_study(name)
    _, networks = outcome.planned(study, ["lia"], "sim", quick).blocks[""]
    scenarios = {case: network.scenario for case, network in networks.items()}
    assert set(scenarios) == set(study.entries.cases)
    for scenario in scenarios.values():
        assert scenario.warmup_s < scenario.duration_s
    for measure in study.entries.measures.values():
        ends_s = [scenarios[case].duration_s for case in measure.cases or scenarios]
        assert measure.parameters.get("to_s", 0) <= min(ends_s)


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_every_study_measures_and_draws(name: str) -> None:
    found = outcome.study(name, ["reno", "lia"], quick=True)
    assert not found.failures
    assert found.table["value"].notna().all()
    assert figures.draw(found).axes


def test_the_spread_of_a_baseline_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound of a measure over a baseline is a multiple of it, in the same seeds."""
    bound = 'measure = "gain", case = "one", at_least = 0.3, why = "w" }'
    old = 'measure = "share", case = "one", at_most = 0.55, why = "half, and a tenth more" }'
    write(tmp_path, monkeypatch, STUDY.replace(old, bound, 1))
    found = outcome.study("tiny", ["lia"])
    (answer,) = found.answers
    (number,) = answer.numbers
    alone = number.references["alone cubic"]
    assert set(alone) == set(number.seeds) == {1, 2, 3}
    (margin,) = number.margins.margins()
    expected = [number.seeds[seed] - 0.3 * alone[seed] for seed in (1, 2, 3)]
    assert list(margin.by_seed) == pytest.approx(expected)
    assert answer.result == "holds"


def test_every_kind_of_figure_has_a_panel_per_rule_or_case(tiny: Path) -> None:
    found = outcome.study("tiny", ["reno", "lia"], quick=True)
    entries = found.suite.entries
    goodput = "flow_samples.goodput_mbps"
    lines = (Line(goodput, "two", levels=((4, 8, 4),)),)
    beside = {"cases": ("one",), "baselines": ("alone",)}
    kinds = {
        Plane("share", "gain", ("one",), "x", "y"): 1,
        Series(lines, cases=("one",), bin_s=1, marks=(6,), marks_label="event"): 2,
        Distribution(goodput, flow="two", bin_s=1, **beside): 2,
    }
    for drawing, panels in kinds.items():
        suite = replace(found.suite, entries=replace(entries, figure=drawing))
        drawn_of = outcome.planned(suite, ["reno", "lia"], "sim", True)
        drawn = figures.draw(outcome._ran(drawn_of, None))
        assert len(drawn.axes) == panels, drawing
        if isinstance(drawing, Plane):  # in the order of rules, which a set would not have
            points = [point[0].get_color() for point in drawn.axes[0].containers]
            assert points == [style(rule)[0] for rule in ("reno", "lia")]
