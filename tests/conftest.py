"""Common part of the tests: scenarios, small and long; the command line, here and as a process."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import settings

from anabranch.cli import progress
from anabranch.papers import folder
from anabranch.papers.report import Report
from anabranch.result import Result

# Tables fit the terminal; the tests expect the width of a pipe.
os.environ.pop("COLUMNS", None)

# `make test-all` has --hypothesis-profile=all. The gate tries the same few examples each time.
settings.register_profile("gate", max_examples=10, deadline=None, derandomize=True)
settings.register_profile("all", max_examples=100, deadline=None, print_blob=True)
settings.load_profile("gate")

SMALL = """\
name = "small"
algorithm = "lia"
seeds = [1, 2]

[measure]
duration_s = 6
warmup_s = 2
sample_ms = 100

[links.R1]
rate_mbps = 10
delay_ms = 10

[links.R2]
rate_mbps = 10
delay_ms = 10
queue.red = {}

[[flows]]
name = "two"
count = 2
paths = [["R1"], ["R2"]]
start_spread_s = 1

[[flows]]
name = "one"
paths = [["R2"]]
algorithm = "reno"
"""

LONG = SMALL.replace("duration_s = 6", "duration_s = 1e6").replace(
    "sample_ms = 100", "sample_ms = 1e9"
)

CLI = [sys.executable, "-m", "anabranch"]


def assert_identical(one: Result, other: Result) -> None:
    """Assert that the tables are equal to the bit, and their types."""
    for name, table in one.tables().items():
        pd.testing.assert_frame_equal(table, other.tables()[name], check_exact=True, obj=name)


Anabranch = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(autouse=True)
def _no_progress_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process a command of a few seconds prints no progress, however long it takes."""
    monkeypatch.setattr(progress, "QUIET_S", 600.0)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Two links, two users with two paths, one with one: a run takes milliseconds."""
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    return file


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results without figures, which take most of the time (figures/test_result.py has them)."""
    monkeypatch.setattr("anabranch.figures.result.write", lambda *_, **__: None)


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """The same for eleven days, to be interrupted."""
    file = tmp_path / "long.toml"
    file.write_text(LONG)
    return file


@pytest.fixture
def anabranch(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Anabranch:
    """Runs the command line in this process, from its arguments to its exit code."""
    from anabranch.cli.main import main  # which reads COLUMNS: after it was removed

    def call(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = ["anabranch", *map(str, arguments)]
        monkeypatch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert ended.value.code is None or isinstance(ended.value.code, int)
        return subprocess.CompletedProcess(command, ended.value.code or 0, out, err)

    return call


@pytest.fixture
def process() -> Anabranch:
    """Runs the command line as a process, which takes 1 to 2 s where the other takes milliseconds.

    For what a process has of its own: exit code, signals, pipes, what it imports.
    """

    def call(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [*CLI, *map(str, arguments)]
        # Without COLUMNS, which readline puts into the environment of a process that pytest runs.
        environment = dict(os.environ)
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)

    return call


def accept_sigint() -> None:
    """Before a program starts: it ends at Ctrl-C where the tests run in the background, too.

    A shell lets what it runs in the background ignore SIGINT, and children inherit that.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def interrupt(command: Sequence[object], begun: Callable[[], bool]) -> tuple[int, str, str]:
    """Start a process, send Ctrl-C a little after it has begun; its exit code, stdout, stderr."""
    process = subprocess.Popen(
        list(map(str, command)), stdout=-1, stderr=-1, text=True, preexec_fn=accept_sigint
    )
    try:
        while not begun():
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, stdout, stderr


def blank_report(**fields: Any) -> Report:
    """A report of a paper without a word, but for the fields given."""
    words = dict.fromkeys(("paper", "name", "title", "source", "summary", "command"), "")
    lists = {key: [] for key in ("authors", "items", "seeds", "statements")}
    maps = {key: {} for key in ("algorithms", "errata", "scenarios", "networks", "versions")}
    return Report(**{**words, **lists, **maps, **fields})


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of papers with one that takes milliseconds."""
    tiny = tmp_path / "tiny"
    tiny.mkdir()
    scenario = (folder.FOLDER / "olia" / "scenario_c.toml").read_text()
    scenario = scenario.replace("duration_s = 120", "duration_s = 6")
    scenario = scenario.replace("warmup_s = 20", "warmup_s = 2").replace("count = 10", "count = 1")
    scenario = scenario.replace("start_spread_s = 10", "start_spread_s = 1")
    (tiny / "scenario.toml").write_text(scenario)
    (tiny / "experiments.toml").write_text(
        """
        seeds = [3, 4]
        [quick]
        seeds = [3]
        set = { "measure.duration_s" = 4 }
        [groups.C]
        scenario = "scenario.toml"
        [groups.C.settings]
        slow = { "links.AP1.rate_mbps" = 1 }
        fast = { "links.AP1.rate_mbps" = 5 }
        [groups.C.algorithms]
        lia = {}
        [items.table]
        group = "C"
        measures = [{ metric = "mbps", quantity = "user_goodput_mbps", flow = "multipath" }]
        figures = [
          { kind = "bars" },
          { kind = "sweep", metric = "mbps", over = { slow = 1, fast = 5 }, x = "Mbps" },
          { kind = "series", lines = [{ column = "link_samples.queue_packets", link = "AP1" }] },
        ]
        drops = [{ metric = "drop", case = "lia", of = "mbps", from = "fast.lia", to = "slow.lia" }]
        [groups.one]
        scenario = "scenario.toml"
        [groups.one.algorithms]
        olia = {}
        [items.other]
        cases = ["fast.lia", "olia"]
        measures = [
          { metric = "mbps", quantity = "aggregate_goodput_mbps", group = "C", case = "C.{case}" },
          { metric = "mbps", quantity = "aggregate_goodput_mbps", group = "one" },
        ]
        [labels]
        """
    )
    (tiny / "published.toml").write_text(
        """
        name = "Tiny paper"
        title = "Tiny"
        source = "nowhere"
        authors = ["nobody"]
        summary = "Small."
        [items.table]
        title = "A table"
        place = "On a table"
        [items.table.printed.mbps]
        published = { "slow.lia" = 0.001, "fast.lia" = 1000 }
        [items.other]
        title = "Another"
        place = "Beside it"
        [items.other.printed.mbps]
        repeats = true
        published = { "C.fast.lia" = 1000 }
        """
    )
    (tiny / "claims.toml").write_text(
        """
        [choices.queue]
        text = "The queue is RED."
        when = "after the first run"
        otherwise = "With drop-tail it does not hold."
        [claims.more]
        rests_on = ["queue"]
        item = "table"
        text = "A faster link carries more."
        check = { type = "order", metric = "mbps", cases = ["slow.lia", "fast.lia"] }
        [claims.lost]
        item = "table"
        own = true
        text = "A slower one loses at least 5 %."
        check = { type = "range", metric = "drop", case = "lia", min = 5 }
        """
    )
    (tiny / "errata.toml").write_text("[errata]")
    monkeypatch.setattr(folder, "FOLDER", tmp_path)
    return tmp_path
