"""Result directories: what they hold, and that `anabranch run DIR` repeats them to the bit."""

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from anabranch import run, sweep
from anabranch._core import VERSION
from anabranch.cli.main import app
from anabranch.result import manifest
from anabranch.runner import repetition
from anabranch.scenario import ScenarioError
from conftest import SMALL, Anabranch

pytestmark = pytest.mark.usefixtures("no_figures")

TRACE = "".join(f"{ms}\n" for ms in range(1, 51))


class Halved:
    """Reno in Python."""

    def increase(self, r: int, paths: Any) -> float:
        return 1.0 / paths[r].window

    def decrease(self, r: int, paths: Any) -> float:
        return paths[r].window / 2


@pytest.fixture
def traced(tmp_path: Path) -> Path:
    """The small scenario with a trace in another folder."""
    for folder in ("traces", "scenarios"):
        (tmp_path / folder).mkdir()
    (tmp_path / "traces" / "lte.trace").write_text(TRACE)
    file = tmp_path / "scenarios" / "traced.toml"
    trace = 'trace_file = "../traces/lte.trace"'
    file.write_text("# As written.\n" + SMALL.replace("rate_mbps = 10", trace, 1))
    return file


@pytest.fixture
def out(small: Path, tmp_path: Path) -> Path:
    """A result directory."""
    run(small, ["lia", "olia"], seeds=[5]).save(tmp_path / "out")
    return tmp_path / "out"


@pytest.mark.parametrize(
    ("backend", "command"),
    [
        ("sim", ["run", "-a", "lia,balia:cap=inf", "--seeds", "3"]),
        ("sim", ["compare", "-a", "reno,olia"]),
        ("fluid", ["run", "-a", "lia,olia"]),
        ("equilibrium", ["run"]),
    ],
)
def test_a_result_directory_repeats_itself_to_the_bit(
    backend: str,
    command: list[str],
    small: Path,
    tmp_path: Path,
    anabranch: Anabranch,
) -> None:
    written, again = tmp_path / "out", tmp_path / "again"
    options = ["--on", backend, "--set", "links.R1.rate_mbps=7", "--set", "name=Small"]
    options += ["--set", "measure.duration_s=3"]
    first = anabranch(command[0], small, *command[1:], *options, "--out", written)
    assert first.returncode == 0, first.stderr
    small.unlink()  # the directory is enough
    done = anabranch("run", written, "--out", again)
    assert done.returncode == 0, done.stderr
    assert f"Identical to {written}: all 7 tables, to the bit\n" in done.stdout
    *warnings, last = done.stderr.splitlines()
    assert last == f"Tables and figures are in {again}"
    assert [words for words in warnings if "R1 is drop-tail" not in words] == []
    assert bool(warnings) == (backend != "sim")
    for table in written.glob("*.parquet"):
        assert (again / table.name).read_bytes() == table.read_bytes()


def test_a_directory_says_where_it_came_from(
    traced: Path, tmp_path: Path, anabranch: Anabranch
) -> None:
    written = tmp_path / "out"
    command = ["run", traced, "-a", "olia", "--seeds", 2, "--set", "seeds=[9]", "--out", written]
    assert anabranch(*command).returncode == 0
    document = json.loads((written / "manifest.json").read_text())
    assert document["anabranch"] == VERSION
    assert document["command"] == ["anabranch", *map(str, command)]
    assert document["runs"]["backend"] == "sim"
    assert (document["runs"]["algorithms"], document["runs"]["seeds"]) == (["olia"], [1, 2])
    trace = hashlib.sha256(TRACE.encode()).hexdigest()
    assert document["scenario"] == {
        "source": str(traced),
        "sha256": hashlib.sha256(traced.read_bytes()).hexdigest(),
        "set": [["seeds", "[9]"]],
        "inputs": {"../traces/lte.trace": trace},
    }
    assert document["files"]["lte.trace"] == trace
    for name, expected in document["files"].items():
        assert hashlib.sha256((written / name).read_bytes()).hexdigest() == expected
    assert len([name for name in document["files"] if name.endswith(".parquet")]) == 7
    assert (written / "original.toml").read_text() == traced.read_text()


def test_a_directory_holds_the_traces_that_its_scenario_names(
    traced: Path, tmp_path: Path, anabranch: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(traced, seeds=1).save(tmp_path / "out")
    elsewhere = tmp_path / "elsewhere" / "out"
    shutil.copytree(tmp_path / "out", elsewhere)
    shutil.rmtree(traced.parent)
    shutil.rmtree(tmp_path / "traces")
    monkeypatch.chdir(elsewhere)
    assert anabranch("run", "scenario.toml").returncode == 0
    assert "Identical to ." in anabranch("run", ".").stdout


def test_a_table_that_differs_is_named_and_the_exit_code_is_1(
    out: Path, anabranch: Anabranch
) -> None:
    flows = pd.read_parquet(out / "flows.parquet")
    flows.loc[0, "goodput_mbps"] = np.nextafter(flows.loc[0, "goodput_mbps"], np.inf)
    flows.to_parquet(out / "flows.parquet", index=False)
    (out / "links.parquet").write_bytes(b"no table")
    done = anabranch("run", out)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == f"Different from {out}: flows, links"
    changed = "changed after it was written: flows.parquet, links.parquet"
    assert done.stderr == f"anabranch: warning: {out}: {changed}\n"


def test_with_json_the_verdict_is_on_stderr(out: Path, anabranch: Anabranch) -> None:
    done = anabranch("run", out, "--json")
    assert json.loads(done.stdout)["seeds"] == [5]
    assert done.stderr == f"Identical to {out}: all 7 tables, to the bit\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("scenario.toml", SMALL, "because scenario.toml changed after the run"),
        ("scenario.toml", None, "file not found: scenario.toml"),
        ("paths.parquet", None, "file not found: paths.parquet"),
        (
            "manifest.json",
            None,
            "or a directory that --out or Result.save has written, with manifest.json",
        ),
        ("manifest.json", "{}", "manifest.json: expected a manifest of Anabranch"),
        ("manifest.json", "{", "manifest.json: expected a manifest of Anabranch"),
    ],
)
def test_a_directory_that_cannot_be_repeated_says_why(
    name: str, content: str | None, message: str, out: Path
) -> None:
    (out / name).unlink() if content is None else (out / name).write_text(content)
    with pytest.raises(ScenarioError, match=message) as error:
        app(["run", str(out)], standalone_mode=False)
    assert "\n" not in str(error.value)


def test_a_changed_trace_is_named(traced: Path, tmp_path: Path) -> None:
    run(traced, seeds=1).save(tmp_path / "out")
    (tmp_path / "out" / "lte.trace").write_text("1\n")
    with pytest.raises(ScenarioError, match=r"because lte.trace changed after the run"):
        repetition.repeat(manifest.Manifest.read(tmp_path / "out"))


def test_another_version_is_named(out: Path, anabranch: Anabranch) -> None:
    edit(out, anabranch="0.0.9")
    done = anabranch("run", out)
    assert done.returncode == 0
    assert f"{out} was written by anabranch 0.0.9, this is {VERSION}" in done.stderr


def test_an_unknown_backend_is_named(out: Path) -> None:
    edit(out, runs={**json.loads((out / "manifest.json").read_text())["runs"], "backend": "ns2"})
    with pytest.raises(ScenarioError, match="unknown backend 'ns2'"):
        app(["run", str(out)], standalone_mode=False)


def edit(directory: Path, **values: Any) -> None:
    """Replace values of a manifest."""
    file = directory / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def test_rules_in_python_and_sweeps_are_not_in_a_directory(small: Path, tmp_path: Path) -> None:
    run(small, ["lia", Halved()], seeds=1).save(tmp_path / "rule")
    with pytest.raises(ScenarioError, match="because Halved is a rule in Python"):
        repetition.repeat(manifest.Manifest.read(tmp_path / "rule"))
    sweep(small, {"links.R1.rate_mbps": [5, 10]}, seeds=1).save(tmp_path / "sweep")
    with pytest.raises(ScenarioError, match=r"because it is a sweep over links.R1.rate_mbps"):
        repetition.repeat(manifest.Manifest.read(tmp_path / "sweep"))


@pytest.mark.parametrize(
    "option", [["-a", "lia"], ["--seeds", "2"], ["--set", "x=1"], ["--on", "sim"]]
)
def test_a_repetition_takes_no_option_that_would_change_it(option: list[str], out: Path) -> None:
    with pytest.raises(ScenarioError, match=f"{out} is repeated as it ran; to change it: anabr"):
        app(["run", str(out), *option], standalone_mode=False)


def test_a_scenario_whose_flows_all_name_their_algorithm_is_repeated(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    own = SMALL.replace('algorithm = "lia"\n', "", 1)
    file.write_text(own.replace('name = "two"', 'name = "two"\nalgorithm = "olia"'))
    run(file).save(tmp_path / "out")
    again = repetition.repeat(manifest.Manifest.read(tmp_path / "out"))
    assert (again.result.algorithms, again.differing) == (["own"], [])


def test_algorithms_that_failed_run_again(small: Path, tmp_path: Path) -> None:
    replace(run(small, "lia", seeds=1), failures={"reno": "it failed"}).save(tmp_path / "out")
    again = repetition.repeat(manifest.Manifest.read(tmp_path / "out"), tolerate=(ScenarioError,))
    # This time reno does not fail. There are no transfers.
    assert again.result.algorithms == ["lia", "reno"]
    assert set(again.differing) == again.result.tables().keys() - {"transfers"}


def test_tables_are_compared_by_bits_and_types() -> None:
    one = pd.DataFrame({"x": [0.0, np.nan]})
    assert repetition._same(one, pd.DataFrame({"x": [0.0, -np.nan]}))
    assert not repetition._same(one, pd.DataFrame({"x": [-0.0, np.nan]}))
    assert not repetition._same(one, one.iloc[:1])
    assert not repetition._same(one, one.rename(columns={"x": "y"}))
    assert not repetition._same(pd.DataFrame({"x": [1]}), pd.DataFrame({"x": [1.0]}))
    assert not repetition._same(pd.DataFrame({"x": ["a"]}), pd.DataFrame({"x": ["b"]}))
