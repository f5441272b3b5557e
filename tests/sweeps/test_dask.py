"""Dask clusters: in this process in the gate, of processes of which one is killed otherwise."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import anabranch as package
from anabranch.extras import cluster
from anabranch.scenario import ScenarioError
from conftest import CLI, SMALL, Anabranch

# Imported where it is used, because it is slow to load.
pytestmark = pytest.mark.skipif(find_spec("distributed") is None, reason="needs Dask")

STARTS_S = 120
"""Dask takes half a minute to load where nothing is in the disk's cache."""


@pytest.mark.filterwarnings("ignore:.*:ResourceWarning", "ignore:.*:DeprecationWarning")
def test_workers_in_this_process_give_the_tables_of_threads(
    small: Path, tmp_path: Path, anabranch: Anabranch
) -> None:
    from distributed import LocalCluster

    # Threads that speak over TCP, as processes do.
    workers = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "protocol": "tcp://"}
    command = ["sweep", small, "--over=links.R2.rate_mbps=lin(5,20,10)", "--seeds", 1]
    with LocalCluster(**workers, dashboard_address=None) as local:
        out = ["--dask", local.scheduler_address, "--out", tmp_path / "dask"]
        done = anabranch(*command, *out)
    assert done.returncode == 0, done.stderr
    over = {"links.R2.rate_mbps": "lin(5,20,10)"}
    package.sweep(small, over, seeds=1, out=tmp_path / "threads")
    for table in sorted((tmp_path / "threads").glob("*.parquet")):
        assert (tmp_path / "dask" / table.name).read_bytes() == table.read_bytes(), table.name


class Cluster:
    """A scheduler and two workers on this machine, in processes of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        file = folder / "scheduler.json"
        options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show"]
        self.processes = [self._start("scheduler", *options, "--scheduler-file", str(file))]
        self._wait_for(lambda: file.exists() and file.stat().st_size > 0)
        self.address = json.loads(file.read_text())["address"]
        own = ["--no-nanny", "--nthreads", "1", "--no-dashboard", "--local-directory", str(folder)]
        self.workers = [self._start("worker", self.address, *own) for _ in range(2)]
        self.processes += self.workers
        log = folder / "scheduler.log"
        self._wait_for(lambda: log.read_text().count("Register worker") == 2)

    def _start(self, what: str, *options: str) -> subprocess.Popen[bytes]:
        # In another directory: a worker has neither the scenario nor the store.
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *options]
        with (self.folder / f"{what}.log").open("ab") as log:
            return subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)

    def _wait_for(self, ready: object) -> None:
        end = time.monotonic() + STARTS_S
        while not ready():
            assert time.monotonic() < end, (self.folder / "scheduler.log").read_text()
            time.sleep(0.05)

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def two_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """The cluster."""
    root = str(Path(package.__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]))
    (tmp_path / "cluster").mkdir()
    started = Cluster(tmp_path / "cluster")
    yield started
    started.stop()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*:ResourceWarning", "ignore:.*:DeprecationWarning")
def test_a_worker_is_killed_midway_and_the_tables_are_those_of_threads(
    two_workers: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "a.trace").write_text("1\n2\n")
    file = tmp_path / "traced.toml"
    text = SMALL.replace("duration_s = 6", "duration_s = 60")
    file.write_text(
        text.replace("[links.R1]\nrate_mbps = 10", '[links.R1]\ntrace_file = "a.trace"')
    )
    out = tmp_path / "dask"
    over = {"links.R2.rate_mbps": "lin(5,20,60)"}
    values = [f"--over={key}={value}" for key, value in over.items()]
    command = [*CLI, "sweep", file, *values, "-a", "lia,olia", "--seeds", "2", "--out", out]
    sweep = subprocess.Popen(
        list(map(str, [*command, "--dask", two_workers.address])), stdout=-1, stderr=-1, text=True
    )
    try:
        while (done := len(list(out.glob("points/*/*.zip")))) < 20:
            assert sweep.poll() is None, sweep.communicate()
            time.sleep(0.01)
        two_workers.workers[0].kill()
        _, stderr = sweep.communicate(timeout=120)
    finally:
        sweep.kill()
    assert done < 240, "the sweep had ended before the kill"
    assert sweep.returncode == 0, stderr
    assert two_workers.workers[1].poll() is None
    package.sweep(file, over, ["lia", "olia"], seeds=2, out=tmp_path / "threads")
    for table in sorted((tmp_path / "threads").glob("*.parquet")):
        assert (out / table.name).read_bytes() == table.read_bytes(), table.name


@pytest.mark.filterwarnings("ignore:.*:ResourceWarning", "ignore:.*:DeprecationWarning")
def test_no_scheduler_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_S", 1)
    refused = pytest.raises(ScenarioError, match=r"no Dask scheduler at tcp://127\.0\.0\.1:1: ")
    with refused as error, cluster.dask("tcp://127.0.0.1:1"):
        pass
    assert "\n" not in str(error.value)


def test_without_dask_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    missing = pytest.raises(ScenarioError, match=r"pip install 'anabranch\[dask\]'")
    with missing, cluster.dask("tcp://127.0.0.1:1"):
        pass
