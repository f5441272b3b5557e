"""The kernel backend in Python: the same tables, errors in one line, Ctrl-C."""

import json
import os
import pickle
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from signal import Signals

import jsonschema
import pandas as pd
import pytest

import anabranch
from anabranch import kernel
from anabranch.result.schema import result_schema
from anabranch.runner import plan
from conftest import CLI, Anabranch, interrupt

SCENARIO = """\
name = "lab"
algorithm = "reno"
[measure]
duration_s = 2
warmup_s = 0.5
[links.A]
trace_file = "steady.trace"
delay_ms = 5
[links.B]
rate_mbps = 6
delay_ms = 5
[[flows]]
name = "two"
paths = [["A"], ["B"]]
[[flows]]
name = "one"
count = 2
paths = [["B"]]
"""


@pytest.fixture(scope="session")
def program() -> str:
    """The program; without root, TUN or Multipath TCP the test is skipped."""
    needs = {
        "root": os.geteuid() == 0,
        "/dev/net/tun": Path("/dev/net/tun").exists(),
        "Multipath TCP": Path("/proc/sys/net/mptcp/enabled").exists(),
        "ip (iproute2)": shutil.which("ip") is not None,
    }
    missing = [need for need, there in needs.items() if not there]
    if missing:
        message = f"hosts can't be made here: no {', no '.join(missing)}"
        assert "ANABRANCH_REQUIRE_KERNEL" not in os.environ, message
        pytest.skip(message)
    return kernel.program()  # `make test-python` builds it and names it in ANABRANCH_LAB


@pytest.fixture
def scenario(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three users on two links, one of which follows a trace: 1500 bytes per ms, 12 Mbps."""
    monkeypatch.setenv("ANABRANCH_LAB", program)
    (tmp_path / "steady.trace").write_text("1\n")
    file = tmp_path / "lab.toml"
    file.write_text(SCENARIO)
    return file


def test_the_kernel_fills_the_same_columns_as_the_simulator(scenario: Path) -> None:
    real = anabranch.run(scenario, on="kernel", seeds=1)
    simulated = anabranch.run(scenario, seeds=1)
    for name, table in simulated.tables().items():
        assert list(real.tables()[name].columns) == list(table.columns), name
        if len(table):  # a column without a row has no type
            assert list(real.tables()[name].dtypes) == list(table.dtypes), name
    assert real.backend == "kernel"
    assert list(real.flows["flow"]) == list(simulated.flows["flow"])
    assert list(real.links["link"]) == ["A", "B"]
    assert list(real.flows["rule"]) == ["reno"] * 3
    assert list(real.flow_samples["time_s"]) == pytest.approx(simulated.flow_samples["time_s"])
    assert real.flows["delivered_bytes"].gt(0).all()


def test_a_file_meets_its_second_path_and_the_run_ends_with_it(scenario: Path) -> None:
    """Where the kernel takes the whole file at once, a later path finds nothing to send."""
    files = {
        "measure.duration_s": 600,
        "measure.warmup_s": 0,
        "measure.sample_ms": 100_000,
        "links.A.delay_ms": 75,
        "links.B.delay_ms": 75,
        "flows[0].workload.file.bytes": 4_000_000,
        "flows[1].workload.file.bytes": 100_000,
    }
    result = anabranch.run(scenario, on="kernel", seeds=1, set=files)
    assert sorted(result.transfers["flow"]) == ["one", "one", "two"]
    # A has 12 Mbps and B 6: a third of the file over B, less what it takes to open.
    two = result.paths[result.paths["flow"] == "two"]["delivered_bytes"]
    assert two.min() > 0.15 * two.sum()
    assert result.transfers["duration_s"].max() < 60


def test_an_algorithm_that_only_the_kernel_has_is_one_there(
    scenario: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "reno" in kernel.Run.algorithms()
    monkeypatch.setattr(kernel.Run, "algorithms", lambda: ["reno", "htcp"])
    (job,) = plan(anabranch.load(scenario), "htcp", [1], on="kernel")
    assert job.keys["algorithm"] == "htcp"
    with pytest.raises(anabranch.ScenarioError, match="unknown algorithm"):
        anabranch.run(scenario, "htcp")
    with pytest.raises(anabranch.ScenarioError, match="unknown algorithm"):
        anabranch.run(scenario, "nonsense", on="kernel")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--algorithm", "generalized"], "load it with `anabranch-kernel load generalized`"),
        (["--algorithm", "balia:cap=inf"], "parameters are set when an algorithm is loaded"),
        (["--set", "tcp.scheduler=round-robin"], "round-robin is not available on kernel"),
        (["--set", "tcp.scheduler=ecf"], "ecf is not available on kernel"),
    ],
)
def test_what_the_kernel_can_not_run_is_one_line(
    scenario: Path, anabranch: Anabranch, arguments: list[str], expected: str
) -> None:
    result = anabranch("run", scenario, "--on", "kernel", *arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert expected in result.stderr
    assert result.stderr.startswith("anabranch: ")
    assert result.stderr.count("\n") == 1


def test_a_warning_of_every_run_is_printed_once(scenario: Path, anabranch: Anabranch) -> None:
    short = ["--set", "measure.duration_s=0.6", "--set", "tcp.header_bytes=40"]
    result = anabranch("run", scenario, "--on", "kernel", "--seeds", "2", *short)
    assert result.returncode == 0
    assert result.stderr.count("warning: tcp.header_bytes has no effect on kernel") == 1


def test_a_rule_in_python_is_refused(scenario: Path) -> None:
    class Mine(anabranch.Rule):
        def increase(self, r, paths):
            return 0.0

    with pytest.raises(anabranch.ScenarioError, match="not available on kernel"):
        anabranch.run(scenario, Mine(), on="kernel")


def test_a_missing_program_is_an_error_that_says_how_to_build_it(
    scenario: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANABRANCH_LAB")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CARGO_TARGET_DIR", "nowhere")
    monkeypatch.setattr(kernel.sys, "executable", "nowhere/python")
    with pytest.raises(anabranch.ScenarioError, match="cargo build --release -p anabranch-lab"):
        anabranch.run(scenario, on="kernel")


def test_ctrl_c_ends_the_run_and_its_program(scenario: Path) -> None:
    command = [*CLI, "run", scenario, "--on", "kernel", "--set", "measure.duration_s=600"]
    command.append("--quiet")  # without progress, which is printed after 2 s
    code, stdout, stderr = interrupt(command, lambda: bool(programs(scenario)))
    assert (code, stdout, stderr) == (130, "", "anabranch: interrupted\n")
    assert programs(scenario) == []


@pytest.mark.parametrize("signal", [Signals.SIGKILL, Signals.SIGTERM])
def test_nothing_runs_on_after_python_was_killed(scenario: Path, signal: Signals) -> None:
    command = [*CLI, "run", str(scenario), "--on", "kernel", "--set", "measure.duration_s=600"]
    with subprocess.Popen(command) as python:
        try:
            while not programs(scenario):
                assert python.poll() is None
                time.sleep(0.02)
        finally:
            python.send_signal(signal)
    wait_until(lambda: programs(scenario) == [])


def wait_until(holds: Callable[[], bool]) -> None:
    """Waits at most 60 s."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_result_has_the_lateness_of_every_run(scenario: Path, tmp_path: Path) -> None:
    short = {"measure.duration_s": 0.6, "measure.warmup_s": 0.1}
    result = anabranch.run(scenario, on="kernel", seeds=2, set=short)
    assert result.lateness is not None
    assert list(result.lateness["seed"]) == [1, 2]
    assert result.lateness["packets"].gt(0).all()
    assert (result.lateness["p99_us"] >= result.lateness["median_us"]).all()
    jsonschema.validate(result.as_dict(), result_schema())
    result.save(tmp_path / "out")
    saved = pd.read_parquet(tmp_path / "out" / "lateness.parquet")
    assert list(saved["p99_us"]) == list(result.lateness["p99_us"])
    assert anabranch.run(scenario, seeds=1, set=short).lateness is None


def test_a_result_directory_runs_again_and_says_that_it_cannot_repeat(
    scenario: Path, tmp_path: Path, anabranch: Anabranch
) -> None:
    out = tmp_path / "out"
    short = ["--set", "measure.duration_s=0.6", "--set", "measure.warmup_s=0.1"]
    assert anabranch("run", scenario, "--on", "kernel", *short, "--out", out).returncode == 0
    (tmp_path / "steady.trace").unlink()
    done = anabranch("run", out, "--json")
    assert done.returncode == 0
    document = json.loads(done.stdout)
    assert (document["backend"], len(document["lateness"])) == ("kernel", 1)
    assert document["scenario"]["duration_s"] == 0.6
    assert "warning: runs on kernel are in real time and cannot repeat to the bit" in done.stderr
    assert done.stderr.endswith(f"Not compared with {out}: in real time\n")


def test_a_scenario_that_was_pickled_runs_without_its_trace_file(scenario: Path) -> None:
    short = {"measure.duration_s": 0.6, "measure.warmup_s": 0.1}
    stored = pickle.dumps(anabranch.load(scenario, short))
    shutil.rmtree(scenario.parent)
    result = anabranch.run(pickle.loads(stored), on="kernel", seeds=1)
    assert result.links["rate_mbps"].tolist() == [12.0, 6.0]


def test_a_comparison_goes_on_after_a_failure(scenario: Path, anabranch: Anabranch) -> None:
    """generalized is not in the kernel, so that its run fails and that of reno does not."""
    compare = ["compare", scenario, "--on", "kernel", "--set", "measure.duration_s=0.6", "-a"]
    result = anabranch(*compare, "generalized,reno", "--seeds", "2")
    assert result.returncode == 1
    rows = [line for line in result.stdout.splitlines() if line.startswith("total goodput")]
    assert len(rows) == 1
    # Two seeds that fill both links may give the same, which has no interval.
    assert re.fullmatch(r"total goodput, Mbps +[\d.]+( ± [\d.]+)? +failed *", rows[0])
    assert "failed: generalized: " in result.stdout
    assert "`anabranch-kernel load generalized`" in result.stdout
    both = ["generalized,reno", "--seeds", "2", "--json"]
    document = json.loads(anabranch(*compare, *both).stdout)
    assert document["algorithms"] == ["reno"]
    assert [run["seed"] for run in document["lateness"]] == [1, 2]
    assert "not registered" in document["failures"]["generalized"]
    # If all fail, there is nothing to print.
    result = anabranch(*compare, "generalized")
    assert (result.returncode, result.stdout) == (2, "")


def programs(scenario: Path) -> list[str]:
    """The processes of the lab that run in the scenario's folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            if b"anabranch-lab\0run" in command and (process / "cwd").readlink() == scenario.parent:
                found.append(process.name)
        except OSError:  # it has ended meanwhile
            continue
    return found


def test_lab_passes_everything_on(scenario: Path, process: Anabranch) -> None:
    command = ["lab", "exec", scenario, "one.1", "--", "sh", "-c", "ip -br address; exit $0", "9"]
    result = process(*command)
    assert "10.0.2.1/32" in result.stdout
    assert result.returncode == 9
