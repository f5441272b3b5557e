"""GML (Himsolt 1997): lists of keys with numbers, strings or lists."""

import html
import re
from collections.abc import Iterator
from typing import Any

TOKEN = re.compile(
    r'\s*(?:#[^\n]*\n\s*)*(?:"(?P<text>[^"]*)"|(?P<mark>[\[\]])|(?P<word>[^\s"\[\]]+))'
)

List = dict[str, list[Any]]
"""The values of each key, which may occur several times."""


def parsed(text: str) -> List:
    """The outermost list. Raises ValueError with the line."""
    return _list(_tokens(text), None)


def last(values: List) -> dict[str, Any]:
    """The last value of each key."""
    return {key: each[-1] for key, each in values.items()}


def _tokens(text: str) -> Iterator[tuple[int, str, Any]]:
    """Line, kind and value of each token."""
    place, rest, line = 0, len(text.rstrip()), 1
    while place < rest:
        match = TOKEN.match(text, place)
        if not match:
            raise ValueError(f"line {line}: expected a key or a value")
        line += text.count("\n", place, match.end())
        place = match.end()
        if match["text"] is not None:
            yield line, "value", html.unescape(match["text"])
        elif match["mark"]:
            yield line, match["mark"], None
        else:
            yield line, "word", str(match["word"])


def _list(tokens: Iterator[tuple[int, str, Any]], begun: int | None) -> List:
    found: List = {}
    for line, kind, key in tokens:
        if kind == "]" and begun is not None:
            return found
        if kind != "word":
            raise ValueError(f"line {line}: expected a key, found {key or kind!r}")
        line, kind, value = next(tokens, (line, "end", None))
        if kind == "[":
            value = _list(tokens, line)
        elif kind == "word":
            value = _number(str(value), line)
        elif kind != "value":
            raise ValueError(f"line {line}: {key} has no value")
        found.setdefault(key, []).append(value)
    if begun is not None:
        raise ValueError(f"line {begun}: the list has no end")
    return found


def _number(text: str, line: int) -> float | int:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"line {line}: expected a number or a string, found {text!r}") from None
