"""The harm suite."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from anabranch import run
from anabranch.cli.main import app
from anabranch.experiments import outcome
from anabranch.experiments.folder import STUDIES, open_harm
from anabranch.experiments.outcome import harm

SHORT = {"measure.duration_s": 10, "measure.warmup_s": 2}
STEADY = {"measure.duration_s": 30, "measure.warmup_s": 5}
LINUX = {**STEADY, "tcp.kernel_programs": False}
LOSSY = "20 + 20 Mbps, 20 + 60 ms, 0% + 1%"


def test_a_lossy_second_path_harms_without_the_programs_of_the_kernel_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Without them LIA keeps what the clean path carries: 20 Mbps less the headers, 19.3.
    suite = open_harm()
    lossy = replace(suite.entries, cases={LOSSY: suite.entries.cases[LOSSY]})
    monkeypatch.setattr(outcome, "open_harm", lambda: replace(suite, entries=lossy))
    for overrides, result in (LINUX, "fails"), (STEADY, "holds"):
        # Seeds differ by some 3 Mbps: two of them decide nothing, six do (2.57 x 3 / sqrt(6) of 7).
        found = harm(["lia"], 6, set=overrides, quick=True)
        (answer,) = [one for one in found.answers if one.rule == "lia"]
        assert answer.result == result
        (number,) = answer.numbers
        assert 18.5 < number.means["reno a"] < 19.4
        assert number.means["reno b"] < number.means["reno a"]


def test_both_paths_are_used_where_nothing_is_lost() -> None:
    found = harm(["lia"], 2, set=SHORT, quick=True)
    assert found.rules == ["reno", "cubic", "lia"]
    (number,) = next(one for one in found.answers if one.rule == "lia").numbers
    assert number.value > 1.7 * max(number.means.values())


def test_the_goodput_of_a_transfer_is_its_size_by_its_duration() -> None:
    overrides = {**SHORT, "flows.user.workload": {"file": {"bytes": 1_000_000}}}
    found = harm(["lia"], 1, set=overrides, quick=True)
    transfers = run(STUDIES / "harm" / "scenario.toml", "lia", 1, set=overrides).transfers
    (number,) = next(one for one in found.answers if one.rule == "lia").numbers
    assert number.value == pytest.approx(8 / transfers["duration_s"][0])


def test_the_command_prints_a_table_latex_or_json() -> None:
    call = ["harm", "-a", "lia", "--quick", "--seeds", "1"]
    call += ["--set", "measure.duration_s=4", "--set", "measure.warmup_s=1"]
    table = CliRunner().invoke(app, call, catch_exceptions=False)
    assert table.exit_code == 0
    assert "best path" in table.stdout
    latex = CliRunner().invoke(app, [*call, "--latex"], catch_exceptions=False).stdout
    assert "network and loss & best path & reno & cubic & lia" in latex
    assert r"1\% + 0\%" in latex
    rows = json.loads(CliRunner().invoke(app, [*call, "--json"], catch_exceptions=False).stdout)
    assert len(rows["answers"]) == 7 * 3
    assert rows["rules"] == ["reno", "cubic", "lia"]
