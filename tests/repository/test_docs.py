"""The pages of the documentation: lines that can be read, links that lead somewhere."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WIDTH = 100


def pages() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True, capture_output=True)
    return [name for name in listed.stdout.decode().split() if (ROOT / name).exists()]


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Numbered lines that are neither tables nor code nor comments."""
    code = False
    for number, line in enumerate(text.splitlines(), 1):
        code ^= line.startswith("```")
        if not code and not line.startswith(("|", "```", "<!--", "![", "    ")):
            yield number, line


@pytest.mark.parametrize("page", pages())
def test_lines_of_prose_are_short(page: str) -> None:
    long = [n for n, line in prose((ROOT / page).read_text()) if len(line) > WIDTH]
    assert not long, f"{page}: lines {long} are longer than {WIDTH} characters"


@pytest.mark.parametrize("page", pages())
def test_links_to_files_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text()
    for target in re.findall(r"\]\(([^)#:]+)[^):]*\)", text):
        assert ((ROOT / page).parent / target).exists(), f"{page}: {target}"


MENTIONED = re.compile(r"(?<![\w./-])docs/[\w./-]*\.md\b")
"""A page as comments, messages and pages name it."""


def mentioned(text: str) -> set[str]:
    return set(MENTIONED.findall(text))


def test_every_page_that_a_file_names_exists() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True)
    lost = []
    for name in listed.stdout.decode().splitlines():
        file = ROOT / name
        if not file.is_file() or "fuzz/corpus" in name or file == Path(__file__):
            continue
        text = file.read_text(encoding="utf-8", errors="replace")
        lost += [f"{name}: {page}" for page in mentioned(text) if not (ROOT / page).exists()]
    assert sorted(lost) == []


def test_the_names_of_pages_are_seen() -> None:
    text = "as `docs/a.md` says (docs/how-to/b.md), see [c](docs/c.md#d), not /x/docs/d.md"
    assert mentioned(text) == {"docs/a.md", "docs/how-to/b.md", "docs/c.md"}


FILE = re.compile(r'"((?:examples|papers)/[\w./]+)"')
LECTURES = sorted((ROOT / "docs" / "how-to" / "lectures").glob("*.md"))


@pytest.mark.parametrize(
    "lecture", [file for file in LECTURES if FILE.search(file.read_text())], ids=lambda it: it.stem
)
def test_the_first_cell_of_a_lecture_leads_to_the_files_that_it_names(
    lecture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jupyter starts a notebook in the notebook's folder."""
    monkeypatch.chdir(lecture.parent)
    text = lecture.read_text()
    first = re.search(r"```{code-cell} python\n(.*?)```", text, re.S)
    assert first
    assert "os.chdir" in first[1]
    exec(first[1], {})
    for named in FILE.findall(text):
        assert Path(named).exists(), named
