"""The first tutorial from top to bottom on a fresh clone, by its printed commands.

    .venv/bin/python benches/first_tutorial.py

Prints the seconds since the beginning after each command. The clone is of this checkout; pip and
cargo have no cache, and download. Reading and writing are not part of it.
"""

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from repository.printed import blocks, commands  # noqa: E402

PAGE = ROOT / "docs" / "tutorials" / "first-ten-minutes.md"
CLONE = "git clone https://github.com/anabranch/anabranch"
START = r"""
set -eu
exec 3>&1 >/dev/null
start=$(date +%s%N)
passed() { printf "%6.1f s  %s\n" "$(($(date +%s%N) - start))e-9" "$1" >&3; }
"""
HIDING = ("PYTHONPATH", "CARGO_TARGET_DIR", "CARGO_INCREMENTAL", "VIRTUAL_ENV")


def script() -> Iterator[str]:
    """Lines of Bash: one shell runs all commands, as the reader's does."""
    for block in blocks(PAGE):
        if block.file:
            text = "\n".join([*block.lines, ""])
            yield f"printf %s {shlex.quote(text)} > {block.file}"
        elif any(line.startswith("$ ") for line in block.lines):
            for command in commands(block):
                local = f"git clone --quiet {shlex.quote(str(ROOT))} anabranch"
                yield command.text.replace(CLONE, local)
                shown = shlex.quote(" ".join(command.text.split()))
                yield f"passed {shown}"


def main() -> None:
    """Runs it in a directory of its own, which is removed."""
    environment = {key: value for key, value in os.environ.items() if key not in HIDING}
    with tempfile.TemporaryDirectory() as folder:
        environment |= {"CARGO_HOME": f"{folder}/cargo", "PIP_NO_CACHE_DIR": "1"}
        lines = [START, *script()]
        shell = ["bash", "-c", "\n".join(lines)]
        sys.exit(subprocess.run(shell, cwd=folder, env=environment).returncode)


if __name__ == "__main__":
    main()
