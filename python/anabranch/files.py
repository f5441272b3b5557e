"""Output files that appear all together or not at all; sections of pages between markers."""

import datetime
import errno
import os
import shutil
import tempfile
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from anabranch._core import ScenarioError

END = "<!-- end -->"


@contextmanager
def staged(directory: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary directory to write in; on success its files are renamed into `directory`.

    It is on the same file system, so each rename is atomic. If the block raises, the directory is
    removed. Raises OSError at once when `directory` is a file, cannot be written or has less than
    1 MB left; also if the disk becomes full later.
    """
    target = Path(directory)
    nearest = next(p for p in [target, *target.absolute().parents] if p.exists())
    stage = Path(tempfile.mkdtemp(prefix=".anabranch-", dir=nearest))
    try:
        (stage / "space").write_bytes(bytes(1_000_000))
        (stage / "space").unlink()
        yield stage
        for file in sorted(p for p in stage.rglob("*") if p.is_file()):
            place = target / file.relative_to(stage)
            place.parent.mkdir(parents=True, exist_ok=True)
            os.replace(file, place)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        # In the same words whichever library was writing.
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target)) from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def section(page: Path, command: str) -> tuple[str, str]:
    """The text before and after a page's section of this command, markers included.

    The section lies between the lines `<!-- command -->` and `<!-- end -->`; `command` is without
    its options. Raises `ScenarioError` when a marker is missing.
    """
    start = f"<!-- {command} -->\n"
    before, found, rest = page.read_text(encoding="utf-8").partition(start)
    _, end, after = rest.partition(END)
    if not found or not end:
        raise ScenarioError(f"{page}: expected the lines {start.strip()} and {END}")
    return before + start, END + after


def put_section(page: Path, command: str, lines: Iterable[str], used: str | None = None) -> None:
    """Replace the section of `command` by the command, the date (UTC) and these lines.

    `used` is the command with its options. Raises `ScenarioError` when a marker is missing.
    """
    before, after = section(page, command)
    today = datetime.datetime.now(datetime.UTC).date()
    body = "\n".join([f"`{used or command}`, {today}.", "", *map(_wrapped, lines)])
    page.write_text(f"{before}{body}\n{after}", encoding="utf-8")


def _wrapped(line: str) -> str:
    """A line of Markdown, wrapped unless it belongs to a table."""
    if line.startswith("|"):
        return line
    indent = "  " if line.startswith(("- ", "  ")) else ""  # an item of a list, or its next line
    return textwrap.fill(line, 100, subsequent_indent=indent, break_on_hyphens=False)
