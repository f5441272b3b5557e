"""Code blocks of the documentation: which run, what they print, and how a page is regenerated.

A block is run unless the line before it is `<!-- not run: REASON, YYYY-MM-DD -->`. `console` has
commands after `$ `, each with the output below it, if it is shown; `python` blocks of a page run
one after the other, at the place of the last; `toml` is a scenario. A block after
`<!-- file: NAME -->` is written to the file NAME, as the reader of the page would do it.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
MARKER = re.compile(r"<!-- not run: .+, \d{4}-\d\d-\d\d -->")
FILE = re.compile(r"<!-- file: ([\w./-]+) -->")
COLUMNS = "80"
"""The width for which outputs are printed."""


@dataclass(frozen=True)
class Block:
    """A fenced block of code."""

    page: Path
    first: int
    """Index of its first line within the page; the fence is the line before."""
    language: str
    lines: Sequence[str]
    marked: bool
    file: str | None = None
    """Where its reader writes it."""

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.first + 1}"


@dataclass
class Command:
    """A command of a `console` block and the output printed below it."""

    text: str
    printed: list[str]
    output: list[str] = field(default_factory=list)


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page. Raises AssertionError for one that is not closed."""
    lines = page.read_text(encoding="utf-8").splitlines()
    fences = [i for i, line in enumerate(lines) if line.startswith("```")]
    assert len(fences) % 2 == 0, f"{page}: a block is not closed"
    for start, end in zip(fences[::2], fences[1::2], strict=True):
        marked = start > 0 and bool(MARKER.fullmatch(lines[start - 1]))
        named = FILE.fullmatch(lines[start - 1]) if start > 0 else None
        code, language = lines[start + 1 : end], lines[start][3:].strip()
        language = language.removeprefix("{code-cell} ")  # of a notebook in MyST
        yield Block(page, start + 1, language, code, marked, named[1] if named else None)


def commands(block: Block) -> list[Command]:
    """The commands of a `console` block; a line that ends with a backslash continues."""
    found: list[Command] = []
    continued = False
    for line in block.lines:
        if continued:
            found[-1].text += f"\n{line}"
        elif line.startswith("$ "):
            found.append(Command(line[2:], []))
        else:
            assert found, f"{block}: expected a line that begins with '$ '"
            found[-1].printed.append(line)
        continued = line.endswith("\\") and (continued or line.startswith("$ "))
    return found


class Workspace:
    """A directory with the files that the pages name, and `anabranch` on the PATH.

    The environment variable ANABRANCH names the program of an installation to be tested; by default
    it is the Python that runs the tests.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name in ("examples", "papers"):
            (directory / name).symlink_to(ROOT / name)
        self.environment = {**os.environ, "COLUMNS": COLUMNS}
        if program := os.environ.get("ANABRANCH"):
            programs = Path(program).absolute().parent
            self.python = str(programs / "python")
            self.environment.pop("PYTHONPATH", None)  # else the checkout hides the installation
        else:
            programs = directory / "bin"
            programs.mkdir()
            for name, arguments in (("anabranch", " -m anabranch"), ("python", "")):
                program = f'#!/bin/sh\nexec {shlex.quote(sys.executable)}{arguments} "$@"\n'
                (programs / name).write_text(program)
                (programs / name).chmod(0o755)
            self.python = sys.executable
            paths = [str(ROOT / "python"), self.environment.get("PYTHONPATH", "")]
            self.environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        self.environment["PATH"] = f"{programs}{os.pathsep}{self.environment['PATH']}"

    def output(self, command: str | Sequence[str]) -> list[str]:
        """What a command prints, without spaces at the ends of lines and empty lines at its ends.

        Raises AssertionError with its stderr if it fails.
        """
        done = subprocess.run(
            command,
            shell=isinstance(command, str),
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, f"{command}: exit code {done.returncode}\n{done.stderr}"
        return "\n".join(map(str.rstrip, done.stdout.split("\n"))).strip("\n").split("\n")


def play(page: Path, workspace: Workspace) -> list[tuple[Block, list[str]]]:
    """Run a page from top to bottom: its `console` blocks, with their lines as they are now.

    Raises AssertionError for a command or Python code that fails.
    """
    found = list(blocks(page))
    python = [block for block in found if block.language == "python" and runs(block)]
    now = []
    for block in found:
        if block.file:
            file = workspace.directory / block.file
            file.write_text("\n".join(block.lines) + "\n", encoding="utf-8")
        elif block.language == "console" and runs(block):
            entered = commands(block)
            for command in entered:
                command.output = workspace.output(command.text)
            now.append((block, regenerated(block, entered)))
        elif python and block is python[-1]:
            code = "\n".join(line for block in python for line in block.lines)
            # A library's own deprecations, with old versions of it, are no fault of the page.
            flags = ["-W", "error", "-W", "default::DeprecationWarning"]
            workspace.output([workspace.python, *flags, "-c", code])
    return now


def runs(block: Block) -> bool:
    """Whether its commands or its code are run."""
    return not block.marked and not block.file


def regenerated(block: Block, found: Sequence[Command]) -> list[str]:
    """The lines of a `console` block with the outputs as they are now, where they are shown."""
    lines: list[str] = []
    for number, command in enumerate(found):
        lines += f"$ {command.text}".split("\n")
        if any(command.printed):
            lines += [*command.output, *([""] if number < len(found) - 1 else [])]
    return lines


def replaced(page: Path, changes: Sequence[tuple[Block, Sequence[str]]]) -> str:
    """The text of a page with other lines in some blocks."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for block, new in sorted(changes, key=lambda change: -change[0].first):
        lines[block.first : block.first + len(block.lines)] = new
    return "\n".join(lines) + "\n"
