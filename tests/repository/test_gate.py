"""The gate's summary, and that it runs every test file."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REPORT = ROOT / ".ci" / "report.py"

RUST = """\
<testsuites><testsuite name="anabranch-sim::all">
<testcase name="laws::a_seed_determines_every_bit" classname="anabranch-sim::all" time="3.5">
{outcome}<system-err>warning\nSKIPPED: ns is not installed\nrest</system-err></testcase>
</testsuite></testsuites>
"""
PYTHON = """\
<testsuites><testsuite name="pytest">
<testcase classname="tests.cli.test_run" name="test_a[x y]" file="tests/cli/test_run.py" time="1">
{outcome}</testcase></testsuite></testsuites>
"""
COMMANDS = [
    "cargo test -p anabranch-sim --test all laws::a_seed_determines_every_bit -- --exact",
    ".venv/bin/pytest 'tests/cli/test_run.py::test_a[x y]'",
]
"""How to repeat the first test of each language."""


def report(tmp_path: Path, rust: str = "", python: str = "") -> tuple[int, list[str]]:
    """Exit code and lines for these outcomes, and a third file whose tests did not run."""
    (tmp_path / "rust.xml").write_text(RUST.format(outcome=rust))
    (tmp_path / "python.xml").write_text(PYTHON.format(outcome=python))
    files = [tmp_path / name for name in ("rust.xml", "python.xml", "none.xml")]
    done = subprocess.run([sys.executable, REPORT, *files], capture_output=True, text=True)
    return done.returncode, [line.strip() for line in done.stdout.splitlines()]


def test_what_was_skipped_is_named_with_its_reason_and_its_command(tmp_path: Path):
    _, lines = report(tmp_path, python='<skipped message="no ns-2"/>')
    skipped = {lines[at]: lines[at + 1] for at, it in enumerate(lines) if it.startswith("Skipped")}
    assert skipped == {
        f"Skipped: {COMMANDS[0]}": "SKIPPED: ns is not installed",
        f"Skipped: {COMMANDS[1]}": "no ns-2",
    }


@pytest.mark.parametrize("outcome", ["<failure/>", "<error/>"])
def test_a_failure_prints_the_command_that_repeats_it(tmp_path: Path, outcome: str):
    code, lines = report(tmp_path, rust=outcome, python=outcome)
    failed = lines[lines.index("Failed; to repeat:") + 1 :]
    assert code == 1
    assert failed == COMMANDS


def test_every_file_of_rust_tests_is_in_a_program():
    """With `autotests = false` Cargo looks for none: tests/all.rs or a [[test]] names each."""
    for manifest in ROOT.glob("crates/*/*/Cargo.toml"):
        if "autotests = false" not in manifest.read_text():
            continue
        folder = manifest.parent / "tests"
        programs = set(re.findall(r'\[\[test\]\]\nname = "(\w+)"', manifest.read_text()))
        named = programs.union(*(modules(folder / f"{program}.rs") for program in programs))
        files = {file.stem for file in folder.glob("*.rs")}
        folders = {file.parent.name for file in folder.glob("*/*.rs")}
        assert files | folders <= named, manifest


def modules(file: Path) -> set[str]:
    return set(re.findall(r"^mod (\w+);", file.read_text(), re.M))


@pytest.mark.parametrize("kernel", ["", "yes"])
def test_the_tests_in_real_time_are_compiled_once(kernel: str):
    """Cargo selects for their packages the features that it selects for all that is tested.

    With and without anabranch-kernel, whatever this machine can build.
    """
    packages = made("REAL_TIME", kernel)
    assert "anabranch-gateway" in packages
    assert ("anabranch-kernel" in packages) == bool(kernel)
    chosen = [word for word in packages if word not in ("--bins", "--tests")]
    assert features(chosen) - features(made("CRATES", kernel)) == set()


def made(variable: str, kernel: str) -> list[str]:
    """Words of a variable of the Makefile, where anabranch-kernel can be built or cannot."""
    show = ["make", f"KERNEL={kernel}", "--eval", f"show: ; @echo $({variable})", "show"]
    return subprocess.run(show, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()


def features(selection: list[str]) -> set[str]:
    """A line for each package that a build of the selection compiles, with its features."""
    tree = ["cargo", "tree", "--locked", "--edges", "normal,build,dev", "--prefix", "none"]
    command = [*tree, "--format", "{p} {f}", *selection]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {line.removesuffix(" (*)") for line in lines.splitlines()}
