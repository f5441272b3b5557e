"""The documentation site: it is built without warnings, works without a network, and is light."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from repository.printed import ROOT

LINES = 200
"""A page of a tutorial or a how-to has no more."""
WEIGHT = 1_000_000
"""Bytes of a page with all that it loads, at most."""
LECTURE_LINES = 150


class Page(HTMLParser):
    """Files that a page loads, its links, and its anchors."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if name := values.get("id"):
            self.anchors.add(name)
        source = values.get("src") if tag in ("script", "img", "iframe", "source") else None
        if tag == "link" and values.get("rel") in ("stylesheet", "preload", "icon"):
            source = values.get("href")
        if source:
            self.loads.append(source)
        if tag == "a" and (target := values.get("href")):
            self.links.append(target)


def built(folder: Path, *options: str) -> Path:
    if find_spec("sphinx") is None and not os.environ.get("ANABRANCH_REQUIRE_PEERS"):
        pytest.skip("Sphinx and its theme are missing: the extra docs")
    build = [sys.executable, str(ROOT / "docs" / "site" / "build.py"), *options, str(folder)]
    done = subprocess.run(build, cwd=folder.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("site") / "html", "--quick")


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {file: Page(file) for file in sorted(site.rglob("*.html"))}


def of_the_site(page: Path, url: str) -> Path:
    return (page.parent / unquote(urlsplit(url).path)).resolve()


def test_every_page_of_the_rooms_is_in_the_site(pages: dict[Path, Page], site: Path) -> None:
    sources = list((ROOT / "docs").rglob("*.md"))
    expected = {page.relative_to(ROOT / "docs").with_suffix(".html") for page in sources}
    assert expected <= {file.relative_to(site) for file in pages}
    assert (site / "reference" / "rules" / "lia.html") in pages


def test_tutorials_have_the_figures_that_their_commands_write(site: Path) -> None:
    assert_figures_are_in(site, ["tutorials"])


@pytest.mark.slow
def test_all_pages_to_learn_from_are_played_and_have_their_figures(tmp_path: Path) -> None:
    assert_figures_are_in(built(tmp_path / "html"), ["tutorials", "how-to"])


def assert_figures_are_in(site: Path, rooms: list[str]) -> None:
    for room in rooms:
        numbers = []
        for page in sorted((ROOT / "docs" / room).glob("*.md")):
            html = (site / room / f"{page.stem}.html").read_text()
            numbers.append(page.read_text().count("<!-- figure: "))
            assert html.count("<figure") == numbers[-1], page
        assert sum(numbers) >= 2, room


def test_nothing_is_loaded_from_elsewhere(pages: dict[Path, Page], site: Path) -> None:
    for file, page in pages.items():
        assert not [url for url in page.loads if urlsplit(url).netloc], file
    for sheet in site.rglob("*.css"):
        assert not re.findall(r"(?:url\(|@import )['\"]?(?:https?:)?//", sheet.read_text()), sheet


def test_a_page_weighs_less_than_a_megabyte(pages: dict[Path, Page], site: Path) -> None:
    sheets = list(site.rglob("*.css"))
    of_every_page = {*sheets, *(file for sheet in sheets for file in loaded_by(sheet))}
    for file, page in pages.items():
        loaded = {of_the_site(file, url) for url in page.loads} | of_every_page
        weight = file.stat().st_size + sum(it.stat().st_size for it in loaded)
        assert weight < WEIGHT, f"{file}: {weight} bytes"


def loaded_by(sheet: Path) -> list[Path]:
    """The fonts that a sheet names and browsers choose."""
    urls = re.findall(r"url\(['\"]?([^'\")?#]+\.woff2)", sheet.read_text())
    fonts = [(sheet.parent / url).resolve() for url in urls]
    return [font for font in fonts if font.exists()]  # browsers ask for those that are used


def test_links_lead_to_pages_and_their_sections(pages: dict[Path, Page]) -> None:
    for file, page in pages.items():
        for url in page.links:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc or (not parts.path and not parts.fragment):
                continue
            target = of_the_site(file, url) if parts.path else file
            assert target.exists(), f"{file}: {url}"
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].anchors, f"{file}: {url}"


def test_every_page_tells_its_version(pages: dict[Path, Page]) -> None:
    import anabranch

    for file in pages:
        assert f"Version {anabranch.__version__}" in file.read_text(), file


def test_a_search_needs_no_server(site: Path) -> None:
    index = (site / "searchindex.js").read_text()
    assert index.startswith("Search.setIndex(")
    assert '"tutorials/first-ten-minutes"' in index


def test_pages_to_learn_from_are_short() -> None:
    for room in ("tutorials", "how-to"):
        for page in (ROOT / "docs" / room).rglob("*.md"):
            limit = LECTURE_LINES if page.parent.name == "lectures" else LINES
            lines = len(page.read_text().splitlines())
            assert lines <= limit, f"{page}: {lines} lines"


def test_pages_of_the_record_begin_with_a_summary_of_five_lines() -> None:
    for page in (ROOT / "docs" / "notebook").glob("*.md"):
        if page.name != "index.md":
            text = page.read_text()
            found = re.search(r"\A# .+\n\n> \*\*In five lines\.\*\* .+(?:\n> .+){0,4}\n\n", text)
            assert found, f"{page}: no summary after the title"
