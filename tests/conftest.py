"""What the tests share: a small scenario, a long one, and the command line as a process."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

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

CLI = [sys.executable, "-c", "from anabranch.cli import main; main()"]

Anabranch = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Two links, two users with two paths, one with one: a run takes milliseconds."""
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    return file


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """The same for eleven days: nobody waits for its end."""
    file = tmp_path / "long.toml"
    file.write_text(LONG)
    return file


@pytest.fixture
def anabranch() -> Anabranch:
    """The command line in a process of its own."""

    def call(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [*CLI, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    return call


def interrupt(command: Sequence[object], begun: Callable[[], bool]) -> tuple[int, str, str]:
    """Start a process, send Ctrl-C a little after it has begun; its exit code, stdout, stderr."""
    process = subprocess.Popen(list(map(str, command)), stdout=-1, stderr=-1, text=True)
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
