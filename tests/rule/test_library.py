"""Controllers of C libraries: FILE.so:NAME in every command that runs rules."""

import pickle
import subprocess
from pathlib import Path

import pytest

from anabranch import ScenarioError, run
from anabranch._core import Library
from anabranch.rule import rule_of, source_hash
from conftest import Anabranch

ROOT = Path(__file__).parents[2]


def compiled(text: str, out: Path) -> Path:
    """A shared library of this C, with anabranch.h."""
    include = ROOT / "crates/model/abi/include"
    command = ["cc", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-I", str(include)]
    command += ["-x", "c", "-", "-o", str(out), "-lm"]
    subprocess.run(command, input=text, text=True, check=True)
    return out


@pytest.fixture(scope="module")
def newreno(tmp_path_factory: pytest.TempPathFactory) -> str:
    text = (ROOT / "examples/abi/newreno.c").read_text()
    return f"{compiled(text, tmp_path_factory.mktemp('abi') / 'libnewreno.so')}:newreno"


@pytest.mark.parametrize("on", ["sim", "quic"])
def test_newreno_in_c_runs_as_reno_of_the_table(small: Path, newreno: str, on: str) -> None:
    result = run(small, ["reno", rule_of(newreno)], seeds=2, on=on)
    flows = result.flows.drop(columns=["rule"])
    of_table = flows[flows["algorithm"] == "reno"].drop(columns="algorithm")
    of_library = flows[flows["algorithm"] == "newreno"].drop(columns="algorithm")
    assert of_table.reset_index(drop=True).equals(of_library.reset_index(drop=True))


def test_a_wrong_window_ends_the_command_in_one_line(
    small: Path, tmp_path: Path, anabranch: Anabranch
) -> None:
    text = (ROOT / "examples/abi/newreno.c").read_text()
    wrong = text.replace("case ANABRANCH_RECOVERED:", "case ANABRANCH_RECOVERED: to->window = 0;")
    library = compiled(wrong, tmp_path / "libwrong.so")
    done = anabranch("run", small, "-a", f"{library}:newreno", "--quiet")
    assert done.returncode == 2
    assert f"{library}:newreno: window of path " in done.stderr
    assert " is 0 (expected packets, at least 1) at RECOVERED of path " in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_library_that_is_none_is_refused_by_name(
    small: Path, tmp_path: Path, anabranch: Anabranch
) -> None:
    file = tmp_path / "none.so"
    file.write_text("no library")
    done = anabranch("run", small, "-a", f"{file}:mine", "--quiet")
    assert done.returncode == 2
    assert f"{file}: not a shared library of this machine: " in done.stderr


def test_theory_refuses_a_controller(small: Path, newreno: str) -> None:
    with pytest.raises(ScenarioError, match="has no derivatives: run it on sim"):
        run(small, rule_of(newreno), seeds=1, on="fluid")


def test_a_controller_goes_to_other_processes_and_has_a_hash(newreno: str) -> None:
    library = rule_of(newreno)
    assert isinstance(library, Library)
    again = pickle.loads(pickle.dumps(library))
    assert (again.file, again.name) == (library.file, library.name)
    assert source_hash(again) == source_hash(library) is not None
