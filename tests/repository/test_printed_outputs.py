"""README and docs print the same as the commands.

`UPDATE_PRINTED=1 pytest tests/repository/test_printed_outputs.py` writes the outputs into the
pages.
`ANABRANCH=/path/to/bin/anabranch` tests that installation instead of the checkout.
"""

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path

import pytest
from typer.core import TyperCommand

from anabranch.cli.main import TyperException, app
from repository.printed import (
    MARKER,
    ROOT,
    Block,
    Workspace,
    blocks,
    commands,
    play,
    regenerated,
    replaced,
)
from repository.session import missing, play_as_root

# docs/reference/rules.md is written and compared by `cargo test -p anabranch-control`.
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name != "rules.md"),
]
LANGUAGES = ("console", "python", "toml")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_is_run_or_says_why_not(page: Path) -> None:
    for block in blocks(page):
        assert block.marked or block.file or block.language in LANGUAGES, (
            f"{block}: expected ```console, ```python or ```toml, or before the block a line "
            "<!-- not run: REASON, YYYY-MM-DD -->"
        )


def in_the_gate_if_played_nowhere_else(page: Path) -> object:
    """README; the gate plays the tutorials when it builds the site, and parses how-to pages."""
    marks = [] if page.name == "README.md" else [pytest.mark.slow]
    return pytest.param(page, marks=marks, id=str(page.relative_to(ROOT)))


@pytest.mark.parametrize("page", [in_the_gate_if_played_nowhere_else(page) for page in PAGES])
def test_commands_print_what_the_page_says_and_python_runs(
    page: Path, workspace: Workspace
) -> None:
    compare(page, play(page, workspace, slow=True))


def compare(page: Path, played: Sequence[tuple[Block, list[str]]]) -> None:
    """Compare or, with UPDATE_PRINTED=1, write the lines of blocks."""
    if os.environ.get("UPDATE_PRINTED"):
        page.write_text(replaced(page, played), encoding="utf-8")
        return
    for block, now in played:
        assert list(block.lines) == now, f"{block}: run UPDATE_PRINTED=1 pytest {__file__}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(block.as_root for block in blocks(page))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_blocks_of_root_print_the_words_of_the_page(page: Path, workspace: Workspace) -> None:
    if lacks := missing(page):
        message = f"{page.relative_to(ROOT)}: no {', no '.join(lacks)}"
        assert "ANABRANCH_REQUIRE_KERNEL" not in os.environ, message
        pytest.skip(message)
    compare(page, play_as_root(page, workspace))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_and_option_that_a_page_names_exists(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also in blocks that are not run, and on pages that the gate does not play."""
    monkeypatch.setattr(TyperCommand, "invoke", lambda *_: None)
    for line, words in calls(page):
        try:
            app(words, prog_name="anabranch", standalone_mode=False)
        except TyperException as wrong:
            pytest.fail(f"{page}: {line}: {wrong.format_message()}")


def calls(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Each line of a block that calls `anabranch`, and the arguments up to a pipe or a comment."""
    fenced = [block.lines for block in blocks(page) if block.language in ("console", "")]
    indented = [line for line in page.read_text().splitlines() if line.startswith("    ")]
    for lines in [*fenced, indented]:
        for line in re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines():
            if called := re.match(r"\s*(?:[$#] )?anabranch (.*)", line):
                words = shlex.shlex(called[1], posix=True, punctuation_chars=True)
                words.whitespace_split = True
                yield line, list(takewhile(lambda word: not set(word) <= set("();<>|&"), words))


LINKS = re.compile(r"^(\[links|links\.)", re.M)
"""Keys that make a block of TOML a scenario: the gateway's configurations have none."""
SCENARIOS = [
    block
    for page in PAGES
    for block in blocks(page)
    if block.language == "toml" and not block.marked and LINKS.search("\n".join(block.lines))
]


@pytest.mark.parametrize("block", SCENARIOS, ids=str)
def test_scenarios_are_valid(block: Block, workspace: Workspace) -> None:
    for other in blocks(block.page):
        if other.file:  # a trace that the scenario names
            workspace.write(other)
    (workspace.directory / "scenario.toml").write_text("\n".join(block.lines))
    load = "from anabranch.scenario import load; load('scenario.toml')"
    workspace.output([workspace.python, "-c", load])


def tables(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Each table with a number that a program may have printed, and the line before it."""
    before = ""
    lines: list[str] = []
    for line in [*page.read_text(encoding="utf-8").splitlines(), ""]:
        if line.startswith("|"):
            lines.append(line)
            continue
        if any(re.search(r"\| *\**[0-9.]+( |\*|%)", row) for row in lines):
            yield before, lines
        before, lines = line, []


def test_tables_of_the_readme_are_generated_or_say_why_not() -> None:
    page = ROOT / "README.md"
    text = page.read_text(encoding="utf-8")
    generated = text.partition("<!-- anabranch reproduce all -->")[2].partition("<!-- end -->")[0]
    for before, lines in tables(page):
        assert lines[0] in generated or MARKER.fullmatch(before), f"{lines[0]}: no marker before it"


PAGE = """\
Text.

```console
$ echo one \\
    two
one three

$ echo quiet
```

<!-- not run: takes a day, 2026-11-22 -->
```
sleep 86400
```
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    file = tmp_path / "page.md"
    file.write_text(PAGE)
    return file


def test_an_output_is_replaced_and_nothing_else(page: Path, tmp_path: Path) -> None:
    first, second = blocks(page)
    assert (first.marked, second.marked) == (False, True)
    found = commands(first)
    workspace = Workspace(tmp_path)
    for command in found:
        command.output = workspace.output(command.text)
    assert [command.output for command in found] == [["one two"], ["quiet"]]
    expected = PAGE.replace("one three", "one two")
    assert replaced(page, [(first, regenerated(first, found))]) == expected


@pytest.mark.parametrize("marker", ["", "<!-- not run -->\n", "<!-- not run: slow -->\n"])
def test_a_marker_needs_a_reason_and_a_date(page: Path, marker: str) -> None:
    page.write_text(PAGE.replace("<!-- not run: takes a day, 2026-11-22 -->\n", marker))
    assert not any(block.marked for block in blocks(page))
