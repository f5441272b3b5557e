"""Compares the quotes of `anabranch.statements.quotes` with the text of a paper.

    python benches/theory/quotes.py balia paper.txt

The text is not part of this repository. White space, hyphens, case and `*` are ignored, and the
parts of a quote between "..." must follow one another. Exits with 1 if a quote is not found.
"""

import re
import sys
from pathlib import Path

from anabranch.statements.quotes import QUOTES


def plain(text: str) -> str:
    """The text without what hyphenation and typesetting change."""
    return re.sub(r"[\s*\u00ad\u2010-\u2015-]+", "", text).lower()


def missing(quote: str, text: str) -> str:
    """The first part of the quote that the text does not have after the parts before it, or ""."""
    at = 0
    for part in map(plain, quote.split("...")):
        found = text.find(part, at)
        if found < 0:
            return part
        at = found + len(part)
    return ""


def main(paper: str, file: str) -> int:
    """Print each place and whether its quote is in the text."""
    text, lost = plain(Path(file).read_text(encoding="utf-8")), 0
    for place, quote in QUOTES[paper].items():
        part = missing(quote, text)
        lost += bool(part)
        print(f"{paper}, {place}: {'not found: ' + part[:60] if part else 'found'}")
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
