"""The generated pages of the reference."""

import re
import subprocess
import sys
from pathlib import Path

import api
import paper_files
import rule_pages
import tables

ROOT = Path(__file__).parents[2]
MENTION = re.compile(r"`?docs/(how-to|reference|notebook)/([\w-]+)\.md`?")
"""A page as comments of the source name it."""


def write(source: Path, quick: bool) -> None:
    """Write every generated page; `quick` draws one picture for all rules."""
    folder = source / "reference"
    pages = {
        "scenario": tables.scenario(ROOT),
        "result-tables": tables.results(),
        "metrics": tables.metrics(ROOT),
        "commands": (folder / "commands.md").read_text() + commands(),
        "paper-files": paper_files.page(),
        "python": api.page(ROOT / "python" / "anabranch"),
    }
    for name, text in pages.items():
        linked = MENTION.sub(r"[\2](../\1/\2.md)", text)
        (folder / f"{name}.md").write_text(linked)
    rule_pages.write(ROOT, folder, quick)


def commands() -> str:
    """Every command with its arguments, options and examples, as Typer writes them."""
    page = [sys.executable, "-m", "typer", "anabranch.cli.main", "utils", "docs"]
    done = subprocess.run(
        [*page, "--name", "anabranch"], check=True, capture_output=True, text=True
    )
    return done.stdout.partition("\n")[2]
