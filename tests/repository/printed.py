"""Code blocks of the documentation: which run, what they print, and how a page is regenerated.

A block is run unless the line before it is `<!-- not run: REASON, YYYY-MM-DD -->`. `console` has
commands after `$ `, each with the output below it, if it is shown; `python` blocks of a page run
one after the other, at the place of the last; `toml` is a scenario. A block after
`<!-- file: NAME -->` is written to the file NAME, as the reader of the page would do it. One after
`<!-- slow: REASON -->` runs in `make test-all` only; so do those after `<!-- as root: REASON -->`,
in a shell of their own (`session.py`), with commands after `# ` or `$ `.
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
AS_ROOT = re.compile(r"<!-- as root: .+ -->")
SLOW = re.compile(r"<!-- slow: .+ -->")
FILE = re.compile(r"<!-- file: ([\w./-]+) -->")
HERE = re.compile(r"<<(\w+)")
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
    """Whether it is not run."""
    file: str | None = None
    """Where its reader writes it."""
    as_root: bool = False
    """Whether it runs in the shell of root."""
    slow: bool = False
    """Whether it runs in `make test-all` only."""

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.first + 1}"


@dataclass
class Command:
    """A command of a `console` block and the output printed below it."""

    text: str
    printed: list[str]
    prompt: str = "$ "
    output: list[str] = field(default_factory=list)


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page. Raises AssertionError for one that is not closed."""
    lines = page.read_text(encoding="utf-8").splitlines()
    fences = [i for i, line in enumerate(lines) if line.startswith("```")]
    assert len(fences) % 2 == 0, f"{page}: a block is not closed"
    for start, end in zip(fences[::2], fences[1::2], strict=True):
        before = lines[start - 1] if start > 0 else ""
        marked, named = bool(MARKER.fullmatch(before)), FILE.fullmatch(before)
        as_root, slow = bool(AS_ROOT.fullmatch(before)), bool(SLOW.fullmatch(before))
        code, language = lines[start + 1 : end], lines[start][3:].strip()
        language = language.removeprefix("{code-cell} ")  # of a notebook in MyST
        name = named[1] if named else None
        yield Block(page, start + 1, language, code, marked, name, as_root, slow)


def commands(block: Block) -> list[Command]:
    """The commands of a `console` block.

    A line that ends with a backslash continues, and so does a here-document until its word.
    """
    found: list[Command] = []
    prompts = ("$ ", "# ") if block.as_root else ("$ ",)
    continued, word = False, None
    for line in block.lines:
        if continued or word:
            found[-1].text += f"\n{line}"
        elif line.startswith(prompts):
            found.append(Command(line[2:], [], line[:2]))
            word = here[1] if (here := HERE.search(line)) else None
        else:
            assert found, f"{block}: expected a line that begins with '{prompts[-1]}'"
            found[-1].printed.append(line)
            continue
        continued = line.endswith("\\")
        word = None if line == word else word
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
        """Output of a command, without spaces at the ends of lines and empty lines at its ends.

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

    def write(self, block: Block) -> None:
        """Write a block to the file that its page names."""
        text = "\n".join(block.lines) + "\n"
        (self.directory / str(block.file)).write_text(text, encoding="utf-8")


def play(page: Path, workspace: Workspace, slow: bool = False) -> list[tuple[Block, list[str]]]:
    """Run a page from top to bottom: its `console` blocks, with their lines as they are now.

    Raises AssertionError for a command or Python code that fails.
    """
    found = [block for block in blocks(page) if slow or not block.slow]
    python = [block for block in found if block.language == "python" and runs(block)]
    now = []
    for block in found:
        if block.file:
            workspace.write(block)
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
    """Whether `play` runs its commands or its code."""
    return not (block.marked or block.file or block.as_root)


def regenerated(block: Block, found: Sequence[Command]) -> list[str]:
    """The lines of a `console` block with the outputs as they are now, where they are shown."""
    lines: list[str] = []
    for number, command in enumerate(found):
        lines += f"{command.prompt}{command.text}".split("\n")
        if any(command.printed):
            lines += [*command.output, *([""] if number < len(found) - 1 else [])]
    return lines


def replaced(page: Path, changes: Sequence[tuple[Block, Sequence[str]]]) -> str:
    """The text of a page with other lines in some blocks."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for block, new in sorted(changes, key=lambda change: -change[0].first):
        lines[block.first : block.first + len(block.lines)] = new
    return "\n".join(lines) + "\n"
