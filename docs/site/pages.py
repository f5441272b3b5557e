"""The pages of docs/ as the source of the site, with the figures that their blocks write."""

import os
import re
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from anabranch.figures.compact import compact
from repository.printed import Workspace, play

REPOSITORY = "https://github.com/anabranch/anabranch/blob/main"
ROOMS = ("tutorials", "how-to", "reference", "notebook")
LECTURES = "how-to/lectures.md"
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
LONGER = ("sweeps.md",)
"""Pages that only `make test-all` runs, as the notebooks of lectures: they have no figure."""
RECORD = re.compile(r"^\[([\w-]+)\.csv\]\(\.\./records/\1\.csv\)$", re.M)
FIGURE = re.compile(r"^<!-- figure: ([\w./-]+\.svg) \| (.+?) -->$", re.M | re.S)


def copy(docs: Path, source: Path) -> None:
    """Copy the start page, the rooms, their pictures and the records that they show."""
    source.mkdir(parents=True)
    shutil.copy(docs / "index.md", source)
    for room in (*ROOMS, "img", "records"):
        shutil.copytree(docs / room, source / room)


def add_cells(source: Path) -> None:
    """Cells of notebooks are shown as blocks of Python; their headers are for Jupyter."""
    for page in sorted((source / "how-to" / "lectures").glob("*.md")):
        text = page.read_text().replace("```{code-cell} python", "```python")
        page.write_text(re.sub(r"\A---\n.*?^---\n", "", text, flags=re.M | re.S))


def add_records(source: Path) -> None:
    """A line that is a link to a record shows the record, as a table."""
    for page in sorted((source / "reference").glob("records*.md")):
        page.write_text(RECORD.sub(_record, page.read_text()))


def _record(match: re.Match[str]) -> str:
    wide = ":class: wide-last\n" if match[1] in ("judge", "controllers") else ""
    return f":::{{csv-table}}\n:file: ../records/{match[1]}.csv\n{wide}:header-rows: 1\n:::"


def without_code(text: str) -> str:
    """The text with its blocks of code blank, line by line."""
    lines, code = [], False
    for line in text.split("\n"):
        fence = line.startswith("```")
        lines.append("" if code or fence else line)
        code ^= fence
    return "\n".join(lines)


def title(page: Path) -> str:
    """The first heading of a page."""
    return next(line[2:] for line in page.read_text().splitlines() if line.startswith("# "))


def add_tables_of_contents(source: Path) -> None:
    """Every index is followed by the pages to which it links, in their order: the navigation.

    GitHub would show a `{toctree}` in the pages themselves as a block of code.
    """
    _add(source / "index.md", [f"{room}/index.md" for room in ROOMS])
    for index in (*(source / room / "index.md" for room in ROOMS), source / LECTURES):
        names = dict.fromkeys(m[2] for m in LINK.finditer(without_code(index.read_text())))
        below = [name for name in names if name.endswith(".md") and not name.startswith("../")]
        if index == source / LECTURES:
            below = [name for name in below if "/" in name]
        _add(index, below)


def _add(index: Path, below: list[str]) -> None:
    toctree = ["", "```{toctree}", ":hidden:", "", *below, "```", ""]
    index.write_text(index.read_text() + "\n".join(toctree))


def mend_links(source: Path, docs: Path) -> None:
    """Links to files that are no pages of the site lead to the repository.

    A link whose text is the name of a page's file gets the title of the page.
    """
    for page in sorted(source.rglob("*.md")):
        folder = page.parent.relative_to(source)

        def mended(match: re.Match[str], folder: Path = folder, page: Path = page) -> str:
            text, target, anchor = match[1], match[2], match[3] or ""
            if target.startswith(("http://", "https://")):
                return match[0]
            if (page.parent / target).exists():
                named = (page.parent / target) if target.endswith(text) else None
                return f"[{title(named) if named else text}]({target}{anchor})"
            path = os.path.normpath(Path("docs") / folder / target)
            if not (docs.parent / path).exists():
                raise SystemExit(f"{folder / page.name}: {target} does not exist")
            return f"[{text}]({REPOSITORY}/{path}{anchor})"

        lines, code = [], False
        for line in page.read_text().split("\n"):
            fence = line.startswith("```")
            code ^= fence
            lines.append(line if code or fence else LINK.sub(mended, line))
        page.write_text("\n".join(lines))


def add_figures(docs: Path, source: Path, quick: bool) -> None:
    """Run the pages of two rooms and put the figures that they write into the copies.

    `quick` leaves how-to pages as they are printed, without figures. Raises AssertionError where a
    page prints something else than its commands.
    """
    rooms = ("tutorials",) if quick else ("tutorials", "how-to")
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
