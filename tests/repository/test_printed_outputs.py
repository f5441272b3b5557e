"""What README and docs print is what the commands print.

`UPDATE_PRINTED=1 pytest tests/repository/test_printed_outputs.py` writes the outputs into the
pages.
`ANABRANCH=/path/to/bin/anabranch` tests that installation instead of the checkout.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from repository.printed import (
    MARKER,
    ROOT,
    Block,
    Workspace,
    blocks,
    commands,
    regenerated,
    replaced,
)

# docs/reference/rules.md is written and compared by `cargo test -p anabranch-control`.
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name != "rules.md"),
]
LANGUAGES = ("console", "python", "toml")


def run(language: str) -> list[Block]:
    found = [block for page in PAGES for block in blocks(page)]
    return [block for block in found if block.language == language and not block.marked]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace(tmp_path_factory.mktemp("printed"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_is_run_or_says_why_not(page: Path) -> None:
    for block in blocks(page):
        assert block.marked or block.language in LANGUAGES, (
            f"{block}: expected ```console, ```python or ```toml, or before the block a line "
            "<!-- not run: REASON, YYYY-MM-DD -->"
        )


def in_the_gate_if_of_the_readme(value: object, page: Path, name: str) -> object:
    marks = [] if page.name == "README.md" else [pytest.mark.slow]
    return pytest.param(value, marks=marks, id=name)


@pytest.mark.parametrize(
    "block", [in_the_gate_if_of_the_readme(b, b.page, str(b)) for b in run("console")]
)
def test_commands_print_what_the_page_says(block: Block, workspace: Workspace) -> None:
    found = commands(block)
    for command in found:
        command.output = workspace.output(command.text)
    now = regenerated(block, found)
    if os.environ.get("UPDATE_PRINTED"):
        same_place = next(b for b in blocks(block.page) if b.lines == block.lines)
        block.page.write_text(replaced(block.page, [(same_place, now)]), encoding="utf-8")
    else:
        assert list(block.lines) == now, f"{block}: run UPDATE_PRINTED=1 pytest {__file__}"


@pytest.mark.parametrize(
    "page",
    [in_the_gate_if_of_the_readme(p, p, p.name) for p in sorted({b.page for b in run("python")})],
)
def test_python_blocks_run_one_after_the_other(page: Path, workspace: Workspace) -> None:
    code = ["\n".join(block.lines) for block in run("python") if block.page == page]
    # A library's own deprecations, with old versions of it, are no fault of the page.
    flags = ["-W", "error", "-W", "default::DeprecationWarning"]
    workspace.output([workspace.python, *flags, "-c", "\n".join(code)])


@pytest.mark.parametrize("block", run("toml"), ids=str)
def test_scenarios_are_valid(block: Block, workspace: Workspace) -> None:
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
