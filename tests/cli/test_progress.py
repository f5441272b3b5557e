"""Progress where stderr is no terminal: lines, with an estimate once it means something."""

import time
from itertools import pairwise

import pytest

from anabranch.cli import progress


def test_a_line_names_the_command_and_the_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.05)
    monkeypatch.setattr(progress, "QUIET_S", 0.0)
    with progress.progress("reproduce olia") as report:
        report(0.5)
        time.sleep(0.2)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[0] == "anabranch reproduce olia: 50 %, 0 s elapsed, about 0 s left"


def test_without_a_report_the_line_has_the_time_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.05)
    monkeypatch.setattr(progress, "QUIET_S", 0.0)
    with progress.progress("theory wvegas"):
        time.sleep(0.2)
    assert capsys.readouterr().err.splitlines()[0] == "anabranch theory wvegas: 0 s elapsed"


def test_a_short_command_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress("run") as report:
        report(1.0)
    assert capsys.readouterr() == ("", "")


def test_a_long_command_prints_a_line_per_tenth(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "QUIET_S", 0.0)
    with progress.progress("run") as report:
        # Of 100 reports, 1 % apart, those after 10 %, 20 %, ..., 90 % are due; a line may be later
        # than its report, but not by the time between two reports.
        for percent in range(101):
            report(percent / 100)
            time.sleep(0.02)
    lines = capsys.readouterr().err.splitlines()
    shown = [float(line.split()[2]) for line in lines]
    assert 5 <= len(shown) <= 9
    assert all(later - earlier >= 9.9 for earlier, later in pairwise(shown))


@pytest.mark.parametrize(
    ("elapsed_s", "fraction", "expected"),
    [
        (10, 0.0, ""),
        (10, 0.01, ""),  # a hundredth says nothing about the rest
        (30, 0.75, "about 10 s left"),
        (20, 0.25, "about 1 min left"),
        (30, 0.25, "about 1 min 30 s left"),  # 30 * 0.75 / 0.25 = 90 s
        (100, 0.25, "about 5 min left"),
        (100, 1.0, "about 0 s left"),
    ],
)
def test_the_estimate_is_the_average_speed_so_far(
    elapsed_s: float, fraction: float, expected: str
) -> None:
    assert progress.time_left(elapsed_s, fraction) == expected
