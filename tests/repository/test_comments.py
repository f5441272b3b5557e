"""Comments begin with a noun or a verb, stand alone, and have at most 100 columns."""

import ast
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

WIDTH = 100

HALF = re.compile(
    r"(Of|That|Its|By|Those|Their|Whose|Which|So|Nor|Or|And|But)\b"
    r"|.*\b(so many (bytes|packets|seconds|times|paths)|those of either)\b"
)
"""Openings of a comment that says half of a sentence, whose other half is elsewhere."""

C_LIKE = re.compile(r"\s*(?:///|//!|//|/\*\*?|\*(?!/))\s?(.*)")

Comment = tuple[int, str]
"""The number of the line where a comment begins, and its text up to the end of that line."""


def files(*suffixes: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True)
    found = [ROOT / name for name in listed.stdout.decode().split() if name.endswith(suffixes)]
    return [file for file in found if file.exists()]


def comments(file: Path) -> Iterator[Comment]:
    """The beginning of every comment and docstring of a file."""
    if file.suffix == ".py":
        yield from python_comments(file)
        return
    inside = False
    for number, line in enumerate(file.read_text().splitlines(), 1):
        found = C_LIKE.match(line)
        if found and not inside:
            yield number, found[1]
        inside = found is not None


def opens_badly(text: str) -> bool:
    """Answer whether a comment has no noun or verb at its beginning; "What" hides the noun."""
    return bool(HALF.match(text)) or text.startswith("What ")


def python_comments(file: Path) -> Iterator[Comment]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.lineno, str(node.value.value).partition("\n")[0]
    last = 0
    with tokenize.open(file) as lines:
        for token in tokenize.generate_tokens(lines.readline):
            if token.type == tokenize.COMMENT:
                if token.start[0] != last + 1:
                    yield token.start[0], token.string.lstrip("# ")
                last = token.start[0]


@pytest.mark.parametrize(
    "suffixes", [(".rs",), (".c", ".h"), (".py",)], ids=["rust", "c", "python"]
)
def test_a_comment_begins_with_a_noun_or_a_verb(suffixes: tuple[str, ...]) -> None:
    halves = [
        f"{file.relative_to(ROOT)}:{number}: {text}"
        for file in files(*suffixes)
        for number, text in comments(file)
        if opens_badly(text)
    ]
    assert halves == []


def test_a_line_of_a_comment_has_at_most_100_columns() -> None:
    long = [
        f"{file.relative_to(ROOT)}:{number}: {len(line)} columns"
        for file in files(".rs", ".c", ".h")
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if len(line) > WIDTH and re.match(r"\s*(//|/\*|\*( |$))", line)
    ]
    assert long == []


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.rs", "/// Of each path, s.\nrtt: f64,", [(1, "Of each path, s.")]),
        ("a.rs", "/// RTT.\n/// Of each path.\nrtt: f64,", []),
        ("a.rs", "/// What a path sends.\nsent: u64,", [(1, "What a path sends.")]),
        ("a.h", "/* Its size. */", [(1, "Its size. */")]),
        ("a.py", 'x = 1\n"""By name."""\n', [(2, "By name.")]),
        ("a.py", "# Names,\n# by number.\nx = 1  # Of all.\n", []),
        ("a.py", "x = 1\n\n# So it ends.\n", [(3, "So it ends.")]),
        ("a.py", 'def f():\n    """What f does."""\n', [(2, "What f does.")]),
        ("a.py", "y = 1\n# Whatever it is.\n", []),
    ],
)
def test_half_a_sentence_is_found(
    name: str, text: str, found: list[Comment], tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    file = tmp_path / name
    assert [comment for comment in comments(file) if opens_badly(comment[1])] == found
