"""Pages whose blocks are run while the site is built, and the figures that they write."""

import os
import re
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from anabranch.figures.compact import compact
from repository.printed import Workspace, play

ROOMS = ("tutorials", "how-to")
LONGER = ("sweeps.md",)
"""Pages that only `make test-all` runs, as the notebooks of lectures: they have no figure."""
FIGURE = re.compile(r"^<!-- figure: ([\w./-]+\.svg) \| (.+?) -->$", re.M | re.S)


def figures(docs: Path, source: Path, quick: bool) -> None:
    """Run the pages of two rooms and put the figures that they write into the copies.

    `quick` leaves how-to pages as they are printed, without figures. Raises AssertionError where a
    page prints something else than its commands.
    """
    rooms = ROOMS[:1] if quick else ROOMS
    pages = [page for room in rooms for page in sorted((docs / room).glob("*.md"))]
    pages = [page for page in pages if page.name not in LONGER]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda page: _play(page, source / page.relative_to(docs)), pages))


def _play(page: Path, copy: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace(Path(folder))
        for block, now in play(page, workspace):
            assert list(block.lines) == now, (
                f"{block}: prints something else now: UPDATE_PRINTED=1 pytest "
                "tests/repository/test_printed_outputs.py"
            )

        def included(match: re.Match[str]) -> str:
            file, caption = match[1], " ".join(match[2].split())
            name = f"{page.stem}-{file.replace('/', '-')}"
            shutil.copy(workspace.directory / file, copy.parent / name)
            svg = copy.parent / name
            svg.write_text(compact(svg.read_text()))
            return f"```{{figure}} {name}\n:alt: {caption}\n\n{caption}\n```"

        copy.write_text(FIGURE.sub(included, page.read_text()))
