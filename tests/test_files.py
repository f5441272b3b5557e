"""Staged output on a disk without room."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from anabranch.files import staged
from conftest import Anabranch


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB; without the permission to mount one the test is skipped."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a file system can't be mounted here")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_full_disk_is_one_line_before_the_run(
    disk: Path, long: Path, anabranch: Anabranch
) -> None:
    (disk / "most").write_bytes(bytes(3_500_000))
    # The run itself would take days.
    result = anabranch("run", long, "--out", disk / "out")
    assert (result.returncode, result.stdout) == (2, "")
    expected = f"anabranch: [Errno 28] No space left on device: '{disk / 'out'}'\n"
    assert result.stderr == expected


def test_a_disk_that_becomes_full_does_not_cost_the_answer(
    disk: Path, small: Path, anabranch: Anabranch
) -> None:
    # Samples per ms make the files 2 MB.
    command = ["run", small, "--seeds", 4, "--set", "measure.sample_ms=1", "--out", disk / "out"]
    (disk / "most").write_bytes(bytes(3_000_000))
    result = anabranch(*command)
    assert "goodput (Mbps)" in result.stdout
    expected = f"anabranch: [Errno 28] No space left on device: '{disk / 'out'}'\n"
    assert (result.returncode, result.stderr) == (2, expected)


def test_a_disk_that_becomes_full_names_the_directory(disk: Path) -> None:
    table = pd.DataFrame({"x": range(2_000_000)})
    full = re.escape(f"[Errno 28] No space left on device: '{disk}'")
    with pytest.raises(OSError, match=full), staged(disk) as stage:
        table.to_parquet(stage / "x.parquet")
    assert list(disk.iterdir()) == []
    assert shutil.disk_usage(disk).free > 3_000_000
