"""The way in: `init`, `examples`, help, version, stdin, and how much is printed where."""

import json
import re
import subprocess
from importlib.metadata import version
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
import typer

from anabranch.cli import main, options
from anabranch.cli.examples import EXAMPLES, TEMPLATES
from anabranch.figures import result as figures
from anabranch.scenario import load
from conftest import CLI, SMALL, Anabranch

ROOT = Path(__file__).parents[2]
WITHOUT = SMALL.replace('algorithm = "lia"\n', "")
"""No algorithm for the flow `two`."""


def commands(group: object, words: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The words of every command."""
    found = []
    for name, command in getattr(group, "commands", {}).items():
        found += [(*words, name), *commands(command, (*words, name))]
    return found


@pytest.mark.parametrize("words", commands(typer.main.get_command(main.app)), ids=" ".join)
def test_every_command_has_the_short_option_for_help(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    if words == ("lab",):
        pytest.skip("its options are those of the program anabranch-lab")
    main.app([*words, "-h"], prog_name="anabranch", standalone_mode=False)
    assert f"anabranch {' '.join(words)}" in capsys.readouterr().out


def test_the_version_is_that_of_the_package(anabranch: Anabranch) -> None:
    assert anabranch("--version").stdout == f"anabranch {version('anabranch')}\n"


def test_init_writes_a_scenario_that_runs(tmp_path: Path, anabranch: Anabranch) -> None:
    file = tmp_path / "new" / "mine.toml"
    done = anabranch("init", file)
    assert (done.returncode, done.stdout) == (0, "")
    wrote = f"Wrote {file}. Run it with: anabranch run {file}"
    assert done.stderr == f"Made the directory {file.parent}\n{wrote}\n"
    assert anabranch("run", file, "--seeds", 1, "--set", "measure.duration_s=12").returncode == 0


def test_init_replaces_a_file_only_when_asked(small: Path, anabranch: Anabranch) -> None:
    done = anabranch("init", small)
    assert (done.returncode, small.read_text()) == (2, SMALL)
    assert done.stderr == f"anabranch: {small}: the file exists: give another name, or --force\n"
    done = anabranch("init", small, "--force")
    assert done.returncode == 0
    assert done.stderr.startswith(f"Wrote {small}")
    assert small.read_text() == TEMPLATES["two-paths"].read_text()


def test_init_lists_its_templates_and_prints_one(anabranch: Anabranch) -> None:
    listed = anabranch("init", "--list").stdout
    assert [line.split()[0] for line in listed.splitlines()[2:]] == list(TEMPLATES)
    assert anabranch("init", "-", "-t", "web").stdout == TEMPLATES["web"].read_text()
    assert "(did you mean web?)" in anabranch("init", "-", "-t", "wbe").stderr


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_keys_in_comments_of_a_template_are_right(name: str, tmp_path: Path) -> None:
    file = tmp_path / "template.toml"
    commented = re.compile(r"^# ([a-z_.]+ = )", re.MULTILINE)
    text, keys = commented.subn(r"\1", TEMPLATES[name].read_text())
    file.write_text(text)
    assert keys > 0
    assert load(file).warnings == []


def test_the_examples_of_the_package_are_those_of_the_tree(
    tmp_path: Path, anabranch: Anabranch
) -> None:
    folder = ROOT / "examples"
    files = [*folder.glob("*.*"), *folder.glob("abi/*.c")]
    tree = {str(file.relative_to(folder)): file.read_bytes() for file in files}
    assert list(EXAMPLES) == sorted(tree)
    copies = tmp_path / "examples"
    done = anabranch("examples", "--copy", copies)
    assert (done.returncode, done.stderr) == (0, f"Wrote {len(tree)} files to {copies}\n")
    written = [file for file in copies.rglob("*") if file.is_file()]
    assert {str(file.relative_to(copies)): file.read_bytes() for file in written} == tree
    again = anabranch("examples", "--copy", copies)
    assert (again.returncode, again.stderr.count("the file exists")) == (2, 1)


def test_examples_are_listed_and_printed(anabranch: Anabranch) -> None:
    names = [Path(name).stem for name in EXAMPLES if name.endswith(".toml")]
    listed = anabranch("examples").stdout
    assert [line.split()[0] for line in listed.splitlines()[2:]] == names
    assert anabranch("examples", "wireless").stdout == EXAMPLES["wireless.toml"].read_text()
    assert "(did you mean wireless?)" in anabranch("examples", "wireles").stderr


def test_an_example_that_was_not_copied_says_how(anabranch: Anabranch, tmp_path: Path) -> None:
    file = tmp_path / "examples" / "two_links.toml"
    remedy = f"file not found: `anabranch examples --copy {file.parent}` writes it"
    assert anabranch("run", file).stderr == f"anabranch: {file}: {remedy}\n"


def test_a_scenario_may_come_from_stdin(
    small: Path, anabranch: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def piped(text: bytes) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(text)))
        options._stdin.cache_clear()  # in a process it is read once
        return anabranch("run", "-", "--seeds", 1, "--optimum")

    done = piped(SMALL.encode())
    assert done.stdout == anabranch("run", small, "--seeds", 1, "--optimum").stdout
    wrong = piped(SMALL.replace("duration_s = 6", "duration_s = -6").encode())
    line = SMALL[: SMALL.index("duration_s")].count("\n") + 1
    expected = f"anabranch: <stdin>:{line}: measure.duration_s: expected a number above 0, got -6\n"
    assert (wrong.returncode, wrong.stderr) == (2, expected)
    assert piped(b'name = "\xff"').stderr == "anabranch: <stdin>: expected UTF-8, got byte 0xff\n"


def test_quiet_prints_errors_only(
    small: Path, tmp_path: Path, anabranch: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "write", lambda *_, **__: None)  # takes most of the time
    odd = ["--set", "flows.one.start_s=7", "--force", "--out", tmp_path / "out"]
    usual, quiet = anabranch("run", small, *odd), anabranch("run", small, *odd, "--quiet")
    assert "anabranch: warning: " in usual.stderr
    assert "Tables and figures are in" in usual.stderr
    assert (quiet.returncode, quiet.stderr, quiet.stdout) == (0, "", usual.stdout)
    assert anabranch("run", small, "-q", "--seeds", "0").stderr != ""


def test_verbose_prints_the_time_taken(small: Path, anabranch: Anabranch) -> None:
    done = anabranch("run", small, "-v")
    assert re.fullmatch(r"2 runs on sim\nanabranch run: \d+\.\d s\n", done.stderr)


@pytest.mark.parametrize(
    "json_",
    [pytest.param([], id="tables"), pytest.param(["--json"], id="json", marks=pytest.mark.slow)],
)
def test_a_reader_that_leaves_ends_the_output_and_not_the_run(
    json_: list[str], small: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command = [*CLI, "run", str(small), "--out", str(out), *json_]
    with subprocess.Popen(command, stdout=-1, stderr=-1) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        stderr = process.stderr.read().decode()
        assert (process.wait(60), stderr) == (141, f"Tables and figures are in {out}\n")
    assert (out / "flows.parquet").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["list"],
        pytest.param(["schema"], marks=pytest.mark.slow),
        pytest.param(["examples", "lte.trace"], marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_a_reader_that_leaves_is_no_error(words: list[str]) -> None:
    with subprocess.Popen([*CLI, *words], stdout=-1, stderr=-1) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert (process.stderr.read(), process.wait(60)) == (b"", 141)


def test_an_algorithm_of_the_command_line_is_enough(tmp_path: Path, anabranch: Anabranch) -> None:
    file = tmp_path / "without.toml"
    file.write_text(WITHOUT)
    done = anabranch("run", file, "-a", "olia", "--json", "--seeds", 1)
    assert json.loads(done.stdout)["tables"]["flows"]["rule"] == ["olia", "olia", "reno"]
    assert anabranch("compare", file, "-a", "lia,reno", "--optimum", "--seeds", 1).returncode == 0
    for theory in (["equilibrium", file, "-a", "lia"], ["optimum", file], ["fixed-points", file]):
        assert anabranch("theory", *theory).returncode == 0
    refused = anabranch("run", file)
    assert refused.returncode == 2
    assert "flows[0].algorithm: expected an algorithm" in refused.stderr
    assert "with --algorithm" in refused.stderr


SIMILAR = {
    "an algorithm": (["-a", "LIA"], "lia"),
    "an algorithm of several": (["-a", "reno,ollia"], "olia"),
    "a parameter": (["-a", "balia:cup=2"], "cap"),
    "a backend": (["--on", "fluidd"], "fluid"),
    "a link": (["--set", "links.r1.delay_ms=3"], "R1"),
    "a flow": (["--set", "flows.tow.count=3"], "two"),
    "a key": (["--set", "links.R1.rate_mpbs=3"], "rate_mbps"),
    "a table": (["--set", "link.R1.rate_mbps=3"], "links"),
}


@pytest.mark.parametrize("case", SIMILAR)
def test_a_similar_word_is_suggested(case: str, small: Path, anabranch: Anabranch) -> None:
    options, meant = SIMILAR[case]
    done = anabranch("run", small, *options)
    assert done.returncode == 2
    assert done.stderr.endswith(f"(did you mean {meant}?)\n")


def test_a_similar_paper_is_suggested(anabranch: Anabranch) -> None:
    assert anabranch("reproduce", "ollia").stderr.endswith("(did you mean olia?)\n")
