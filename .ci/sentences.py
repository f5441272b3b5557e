"""Prints sentences chosen at random from comments, docstrings and pages, with file and line.

    python .ci/sentences.py 30 [seed]

Each has to be clear by itself: a reviewer reads them.
"""

import ast
import random
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
END = re.compile(r"(?<=[a-z0-9)`%*\"])[.!?](?=\s+[A-Z`*(]|$)")
CODE = re.compile(r"\s*(?:///|//!|//|/\*\*?|\*(?!/))\s?(.*)")

Text = tuple[int, str]
"""A paragraph with the number of its first line."""


def paragraphs(file: Path) -> Iterator[Text]:
    """The prose of a file."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                yield from blocks(str(node.value.value).splitlines(), node.lineno)
    elif file.suffix == ".md":
        outside = re.sub(r"```.*?```", lambda code: "\n" * code[0].count("\n"), text, flags=re.S)
        lines = outside.splitlines()
        yield from blocks([re.sub(r"^[|#<].*", "", line) for line in lines], 1)
    else:
        found = [CODE.match(line) for line in text.splitlines()]
        yield from blocks([line[1].rstrip("*/ ") if line else "" for line in found], 1)


def blocks(lines: list[str], first: int) -> Iterator[Text]:
    """Runs of lines without an empty one; a list item begins a new one."""
    start, run = first, list[str]()
    for number, line in enumerate([*lines, ""], first):
        item = re.match(r"\s*(- |\d+\. )", line)
        if run and (not line.strip() or item):
            yield start, " ".join(run)
            run = []
        if line.strip():
            start = start if run else number
            run.append(line.strip().removeprefix("- "))


def sentences() -> Iterator[str]:
    """Every sentence of more than three words, after its file and line."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True)
    for name in listed.stdout.decode().split():
        if name.endswith((".rs", ".py", ".c", ".h", ".md")):
            for line, text in paragraphs(ROOT / name):
                for sentence in END.split(text):
                    if len(sentence.split()) > 3:
                        yield f"{name}:{line}: {sentence.strip().rstrip('.')}."


def main(count: str = "30", seed: str = "1") -> None:
    for sentence in random.Random(int(seed)).sample(list(sentences()), int(count)):
        print(textwrap.fill(sentence, 100, subsequent_indent="    "))


if __name__ == "__main__":
    main(*sys.argv[1:])
