"""Controllers of C libraries: FILE.so:NAME in every command that runs rules."""

import pickle
import subprocess
from pathlib import Path

import pytest

from anabranch import ScenarioError, run
from anabranch._core import Library
from anabranch.experiments.outcome import harm
from anabranch.rule import packed, rule_of, source_hash
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


@pytest.mark.parametrize("algorithm", ["libmine.so:mine", "my_rule.py:Gentle"])
def test_a_parameter_of_what_is_in_a_file_is_refused(
    small: Path, anabranch: Anabranch, algorithm: str
) -> None:
    done = anabranch("run", small, "-a", f"{algorithm}:coupling=shared", "--quiet")
    file, name = algorithm.split(":")
    assert done.returncode == 2
    said = f'anabranch: {file}: unknown parameter "coupling": {name} takes none\n'
    assert done.stderr == said


def test_harm_says_that_a_key_of_rules_has_no_effect_on_a_controller(newreno: str) -> None:
    key = "tcp.increase_per_round"
    how = {"seeds": 1, "quick": True, "jobs": 1}
    found = harm([rule_of(newreno)], **how, set={key: True, "measure.duration_s": 12})
    said = f"{key}: has no effect on newreno, a controller of a library"
    assert sum(said in line for line in found.warnings) == 1, found.warnings


def test_theory_refuses_a_controller(small: Path, newreno: str) -> None:
    with pytest.raises(ScenarioError, match="has no derivatives: run it on sim"):
        run(small, rule_of(newreno), seeds=1, on="fluid")


def test_a_controller_goes_to_other_processes_and_has_a_hash(newreno: str) -> None:
    library = rule_of(newreno)
    assert isinstance(library, Library)
    again = pickle.loads(pickle.dumps(library))
    assert (again.file, again.name) == (library.file, library.name)
    assert source_hash(again) == source_hash(library) is not None


def test_a_controller_goes_to_a_machine_without_its_file(
    small: Path, newreno: str, tmp_path: Path
) -> None:
    file = tmp_path / "libgone.so"
    file.write_bytes(Path(newreno.partition(":")[0]).read_bytes())
    sent = pickle.dumps(rule_of(f"{file}:newreno"))
    in_a_point = packed(rule_of(f"{file}:newreno"))  # as to a worker of Dask
    file.unlink()
    assert pickle.loads(in_a_point).name == "newreno"
    again = pickle.loads(sent)
    assert again.file != file
    assert run(small, again, seeds=1).flows.equals(run(small, rule_of(newreno), seeds=1).flows)
    file.write_text("another file of this name")
    assert pickle.loads(sent).file == again.file


@pytest.mark.parametrize(
    ("key", "value"), [("tcp.increase_per_round", True), ("tcp.increase_per_ack", True)]
)
def test_a_key_of_rules_says_that_it_has_no_effect_on_a_controller(
    small: Path, newreno: str, anabranch: Anabranch, key: str, value: bool
) -> None:
    given = ("run", small, "--set", f"{key}={str(value).lower()}", "--seeds", 1)
    done = anabranch(*given, "-a", newreno)
    assert done.returncode == 0, done.stderr
    said = f"{key}: has no effect on newreno, a controller of a library"
    assert sum(said in line for line in done.stderr.splitlines()) == 1, done.stderr
    assert key not in anabranch(*given, "-a", "reno").stderr
    assert key not in anabranch("run", small, "--seeds", 1, "-a", newreno).stderr


def test_the_header_of_the_package_compiles_the_example_that_it_prints(
    small: Path, tmp_path: Path, anabranch: Anabranch
) -> None:
    source = tmp_path / "mine.c"
    source.write_text(anabranch("examples", "newreno.c").stdout)
    include = anabranch("abi", "--include").stdout.strip()
    command = ["cc", "-shared", "-fPIC", "-I", include, str(source), "-o", str(tmp_path / "m.so")]
    subprocess.run([*command, "-lm"], check=True)
    assert anabranch("run", small, "-a", f"{tmp_path}/m.so:newreno").returncode == 0
    both = anabranch("abi", "--include", "--header")
    assert (both.returncode, both.stderr) == (
        2,
        "anabranch: --include and --header: expected one of them\n",
    )
