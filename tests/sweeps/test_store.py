"""Stores: killed processes, several processes, status and gc."""

import os
import random
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import anabranch
from anabranch.scenario import ScenarioError
from anabranch.sweeps.store import Damaged, Directory, about, decode, encode
from anabranch.sweeps.upkeep import gc, status
from conftest import SMALL

KILLED = """
# A sweep of 8 points per kill in a process that is killed so often, each time a random moment after
# some more points were stored, and that at last runs to its end.
import glob, os, pathlib, random, signal, sys, time
import anabranch.sweeps.sweep as sweeps
from anabranch.sweeps.store import about

file, undisturbed, out, kills = sys.argv[1:]
over = {"links.R1.rate_mbps": f"lin(5,20,{2 * int(kills)})"}

def sweep(out):
    sweeps.sweep(file, over, ["lia", "olia"], seeds=2, out=out)

def entries():
    return {file: os.stat(file).st_mtime_ns for file in glob.glob(out + "/points/*/*.zip")}

sweep(undisturbed)
dice = random.Random(7)
for number in range(int(kills)):
    child = os.fork()
    if child == 0:
        sweep(out)
        os._exit(0)
    while len(entries()) < 7 * number:
        time.sleep(0.001)
    time.sleep(dice.uniform(0, 0.02))
    os.kill(child, signal.SIGKILL)
    _, state = os.waitpid(child, 0)
    assert os.WIFSIGNALED(state), "it had finished"
    for place in entries():  # raises Damaged if the process left half an entry
        about(pathlib.Path(place).read_bytes(), pathlib.Path(place).stem)
before = entries()
print(len(before))
sweep(out)
after = entries()
assert all(after[file] == time for file, time in before.items()), "a stored point ran again"
"""

SHARED = """
# Two processes, one store: each key that is run is appended to a file.
import os, sys
import anabranch.sweeps.sweep as sweeps
from anabranch.sweeps import execute, point

file, out, log = sys.argv[1:]
def logged(one, *live):
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(handle, f"{os.getpid()} {one.key}\\n".encode())
    os.close(handle)
    return point.run_point(one, *live)

execute.run_point = logged
children = []
for _ in range(2):
    children.append(os.fork())
    if children[-1] == 0:
        sweeps.sweep(file, {"links.R1.rate_mbps": "lin(5,20,30)"}, seeds=2, out=out)
        os._exit(0)
for child in children:
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.fixture
def longer(tmp_path: Path) -> Path:
    """Runs of about ten milliseconds."""
    file = tmp_path / "longer.toml"
    file.write_text(SMALL.replace("duration_s = 6", "duration_s = 40"))
    return file


def script(text: str, *arguments: object) -> str:
    command = [sys.executable, "-c", text, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def tables(store: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(store.glob("*.parquet"))}


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_a_sweep_that_was_killed_ends_with_the_same_tables(
    kills: int, longer: Path, tmp_path: Path
) -> None:
    out = tmp_path / "killed"
    printed = script(KILLED, longer, tmp_path / "undisturbed", out, kills)
    assert 7 * (kills - 1) <= int(printed) < 8 * kills  # entries at the last kill
    assert tables(out) == tables(tmp_path / "undisturbed") != {}
    found = status(out)
    assert (found.points, found.done, found.others) == (8 * kills, 8 * kills, 0)
    gc(out)
    assert (status(out).done, status(out).leftovers) == (8 * kills, 0)


def test_two_processes_share_a_store_and_run_each_point_once(longer: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    script(SHARED, longer, tmp_path / "shared", log)
    runs = [line.split() for line in log.read_text().splitlines()]
    assert len(runs) == len({key for _, key in runs}) == 60
    assert len({process for process, _ in runs}) == 2, "one process did everything"
    anabranch.sweep(longer, {"links.R1.rate_mbps": "lin(5,20,30)"}, seeds=2, out=tmp_path / "alone")
    assert tables(tmp_path / "shared") == tables(tmp_path / "alone")


@pytest.fixture
def stored(small: Path, tmp_path: Path) -> Path:
    """A store with four points."""
    grid = {"links.R1.rate_mbps": [5, 10]}
    anabranch.sweep(small, grid, seeds=2, out=tmp_path / "store")
    return tmp_path / "store"


def entries(store: Path) -> list[Path]:
    return sorted((store / "points").glob("*/*.zip"))


def test_status_counts_what_is_done_missing_and_damaged(stored: Path) -> None:
    found = status(stored)
    assert (found.points, found.done, found.bytes) == (
        4,
        4,
        sum(file.stat().st_size for file in entries(stored)),
    )
    assert found.this_version
    missing, damaged, *_ = entries(stored)
    missing.unlink()
    damaged.write_bytes(b"")
    found = status(stored)
    assert (found.done, found.missing, found.damaged, found.failed) == (2, 1, 1, 0)


def test_gc_removes_other_entries_damaged_ones_and_leftovers_only(
    stored: Path, small: Path
) -> None:
    anabranch.sweep(small, {"links.R1.rate_mbps": [5, 20]}, seeds=2, out=stored)
    assert (status(stored).done, status(stored).others) == (4, 2)
    listed = {*(Directory.existing(stored).definition() or {})["points"]}
    damaged = next(file for file in entries(stored) if file.stem in listed)
    damaged.write_bytes(b"half")
    (stored / "points" / "ab").mkdir(exist_ok=True)
    (stored / "points" / "ab" / ".new-1").write_bytes(b"half")
    (stored / ".anabranch-x").mkdir()
    (stored / ".anabranch-x" / "flows.parquet").write_bytes(b"half")
    before = sorted(stored.rglob("*"))
    would = gc(stored, dry_run=True)
    assert (would.entries, would.leftovers) == (3, 2)
    assert sorted(stored.rglob("*")) == before
    assert gc(stored) == would
    assert {file.stem for file in entries(stored)} == listed - {damaged.stem}
    assert status(stored).leftovers == 0
    assert gc(stored).entries == 0


def test_gc_waits_for_no_process_but_refuses(stored: Path) -> None:
    hold = "import sys; from anabranch.sweeps.store import Directory; Directory(sys.argv[1]); "
    command = [sys.executable, "-c", hold + "print(flush=True); sys.stdin.read()", str(stored)]
    with subprocess.Popen(command, stdin=-1, stdout=-1) as other:
        assert other.stdout
        other.stdout.readline()
        with pytest.raises(ScenarioError, match="another process works on this store"):
            gc(stored)
        other.kill()
    gc(stored)


def test_a_directory_of_something_else_is_refused(tmp_path: Path, stored: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes").write_text("mine")
    for use in (Directory, status, gc):
        with pytest.raises(ScenarioError, match=r"sweep\.json"):
            use(tmp_path / "other")
    assert os.listdir(tmp_path / "other") == ["notes"]
    (stored / "sweep.json").write_text("{")
    with pytest.raises(ScenarioError, match="expected JSON"):
        status(stored)


def test_an_entry_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    store = Directory(tmp_path / "store")
    store.write("ab" * 32, b"first")
    shutil.rmtree(store.entries)
    store.write("ab" * 32, b"second")
    assert store.read("ab" * 32) == b"second"
    assert store.leftovers() == []
    store.close()


TABLES = {
    "flows": {"flow": ["a", "b"], "goodput_mbps": np.array([0.1, np.nan])},
    "transfers": {"flow": [], "bytes": np.array([], np.int64)},
}


def test_what_was_written_is_read_again_and_the_same_content_gives_the_same_bytes() -> None:
    data = encode({"key": "k", "seed": 1}, TABLES)
    assert encode({"key": "k", "seed": 1}, TABLES) == data
    entry = decode(data, "k")
    assert entry.about == {"key": "k", "seed": 1}
    flows = entry.tables["flows"].to_pandas()
    assert flows["flow"].tolist() == ["a", "b"]
    assert flows["goodput_mbps"][0] == 0.1
    assert [str(kind) for kind in entry.tables["transfers"].schema.types] == ["string", "int64"]


def test_an_entry_of_another_point_is_refused() -> None:
    with pytest.raises(Damaged, match="another point"):
        about(encode({"key": "k"}, {}), "other")


def test_an_entry_that_was_cut_off_is_damaged_wherever() -> None:
    data = encode({"key": "k"}, TABLES)
    for length in range(0, len(data), 7):
        with pytest.raises(Damaged):
            about(data[:length], "k")


def test_a_bit_that_flips_is_detected_wherever() -> None:
    data, dice = encode({"key": "k"}, TABLES), random.Random(1)
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << dice.randrange(8)
        with pytest.raises(Damaged):
            about(bytes(changed), "k")


def test_an_entry_opens_as_an_archive(tmp_path: Path) -> None:
    (tmp_path / "entry.zip").write_bytes(encode({"key": "k"}, TABLES))
    with zipfile.ZipFile(tmp_path / "entry.zip") as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["about.json", "flows.arrow", "transfers.arrow"]
