"""Staged output: files appear together or not at all, also on a disk without room."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from anabranch import files
from anabranch.cli.main import app
from anabranch.files import staged
from anabranch.result import Result
from anabranch.result.manifest import SAMPLE_BYTES
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
    remedy = "free some space, or write to another disk"
    expected = f"anabranch: {disk / 'out'}: No space left on device: {remedy}\n"
    assert result.stderr == expected


def test_too_little_space_for_the_samples_is_one_line_before_the_run(
    disk: Path, long: Path, anabranch: Anabranch
) -> None:
    # Per sample and seed 3 users * 4 + 5 paths * 11 + 2 links * 2 = 71 bytes; of 1e6 s / 1 s, and
    # 2 seeds, these are 142 MB.
    often = ["--set", "measure.sample_ms=1000"]
    result = anabranch("run", long, "--out", disk / "out", *often)
    assert (result.returncode, result.stdout) == (2, "")
    words = "No space left on device: about 142.0 MB are needed and 4.2 MB are free"
    assert result.stderr == f"anabranch: {disk / 'out'}: {words}\n"
    assert list(disk.iterdir()) == []


def test_a_disk_that_becomes_full_keeps_the_seeds_that_fit(
    disk: Path, small: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Samples per ms make the files 2 MB; of two seeds 1 MB.
    (disk / "most").write_bytes(bytes(2_600_000))
    monkeypatch.setattr("anabranch.result.manifest.SAMPLE_BYTES", dict.fromkeys(SAMPLE_BYTES, 0))
    command = ["run", small, "--seeds", 4, "--set", "measure.sample_ms=1", "--out", disk / "out"]
    with pytest.raises(OSError, match="No space left on device: of 4 seeds it has 1, 2"):
        app(list(map(str, command)), standalone_mode=False)
    assert "goodput (Mbps)" in capsys.readouterr().out
    kept = Result.load(disk / "out")
    assert kept.seeds == [1, 2]
    assert set(kept.path_samples["seed"]) == {1, 2}
    assert (disk / "out" / "goodput.svg").exists()


def test_a_sweep_on_a_full_disk_says_what_is_stored(
    disk: Path, small: Path, anabranch: Anabranch
) -> None:
    # The entries have 70 kB per second: two of them have room in 1.3 MB, the third has not.
    (disk / "most").write_bytes(bytes(2_900_000))
    over = ["--over=measure.duration_s=4,6,12,24", "--set=measure.sample_ms=10", "--with-samples"]
    result = anabranch("sweep", small, *over, "--seeds", 1, "--jobs", 1, "--out", disk / "store")
    assert (result.returncode, result.stdout) == (2, "")
    stored = len(list((disk / "store").glob("points/*/*.zip")))
    assert stored == 2
    assert f"{stored} points are stored; with more room the same call goes on" in result.stderr
    assert result.stderr.startswith(f"anabranch: {disk / 'store'}: ")


@pytest.mark.parametrize("command", [["run"], ["sweep", "--over=links.R1.rate_mbps=5"]])
def test_a_directory_that_cannot_be_written_is_named_as_the_user_named_it(
    command: list[str], small: Path, anabranch: Anabranch
) -> None:
    result = anabranch(command[0], small, *command[1:], "--out", "/proc/x")
    assert (result.returncode, result.stdout) == (2, "")
    assert "cannot be written" in result.stderr
    assert "choose another directory" in result.stderr
    assert "/proc/x" in result.stderr
    assert ".anabranch-" not in result.stderr


def test_a_disk_that_becomes_full_names_the_directory(disk: Path) -> None:
    table = pd.DataFrame({"x": range(2_000_000)})
    full = re.escape(f"[Errno 28] No space left on device: '{disk}'")
    with pytest.raises(OSError, match=full), staged(disk) as stage:
        table.to_parquet(stage / "x.parquet")
    assert list(disk.iterdir()) == []
    assert shutil.disk_usage(disk).free > 3_000_000


def test_files_appear_together_or_not_at_all(tmp_path: Path) -> None:
    out = tmp_path / "a" / "out"

    def interrupted() -> None:
        with staged(out) as stage:
            (stage / "half").write_text("writ")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []
    with staged(out) as stage:
        (stage / "figures").mkdir()
        (stage / "figures" / "one").write_text("1")
        assert not out.exists()
    assert [p.relative_to(out) for p in out.rglob("*")] == [Path("figures"), Path("figures/one")]


def test_files_are_replaced_and_others_kept(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    (tmp_path / "kept").write_text("kept")
    with staged(tmp_path) as stage:
        (stage / "old").write_text("new")
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"old": "new", "kept": "kept"}


def test_a_manifest_appears_last_and_disappears_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "manifest.json", "z"):
        (tmp_path / name).write_text("old")
    there: list[bool] = []
    replace = files.os.replace

    def watched(file: Path, place: Path) -> None:
        there.append((tmp_path / "manifest.json").exists())
        replace(file, place)

    monkeypatch.setattr(files.os, "replace", watched)
    with staged(tmp_path) as stage:
        for name in ("a", "manifest.json", "z"):
            (stage / name).write_text("new")
    assert there == [False] * 3
    assert [(tmp_path / name).read_text() for name in ("a", "manifest.json", "z")] == ["new"] * 3


def test_a_directory_that_appeared_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def overtaken() -> None:
        with staged(out) as stage:
            (stage / "flows").write_text("mine")
            out.mkdir()
            (out / "flows").write_text("theirs")

    with pytest.raises(OSError, match="not empty"):
        overtaken()
    assert list(tmp_path.iterdir()) == [out]
    assert (out / "flows").read_text() == "theirs"


def test_an_output_directory_has_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "usual").mkdir()
    with staged(tmp_path / "out"):
        pass
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_file_is_refused_as_output_directory(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("precious")
    for target in (file, file / "below"):
        with pytest.raises(NotADirectoryError), staged(target):
            pytest.fail("entered")
    assert [file] == list(tmp_path.iterdir())
    assert file.read_text() == "precious"


def test_a_broken_link_is_refused_before_anything_runs(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    expected = r"link: expected a directory to write to, got a broken link"
    with pytest.raises(NotADirectoryError, match=expected), staged(link):
        raise AssertionError("it began")
    assert list(tmp_path.iterdir()) == [link]


def test_an_interruption_as_the_temporary_directory_appears_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler of signals runs as soon as the system call is over."""
    make = os.mkdir

    def interrupted(path: str | Path, mode: int = 0o777) -> None:
        make(path, mode)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "mkdir", interrupted)
    with pytest.raises(KeyboardInterrupt), staged(tmp_path / "out"):
        pass
    assert list(tmp_path.iterdir()) == []
