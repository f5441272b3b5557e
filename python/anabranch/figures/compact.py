"""SVG of Matplotlib in fewer bytes: the same picture."""

import re
from collections import Counter
from itertools import chain, groupby

REPEATED = 4
"""Uses from which on a style has a class."""

END = ("", "")
"""Beside the first and the last point of a line."""


def compact(svg: str) -> str:
    """Without metadata and unused ids, lines in tenths of a point; repeated styles as classes.

    >>> compact('<path id="a" d="M 1.23456 3.0"/>')
    '<path d="M 1.2 3"/>'
    """
    svg = re.sub(r" *(<metadata>.*?</metadata>|<!--.*?-->)\n", "", svg, flags=re.DOTALL)
    used = dict.fromkeys(re.findall(r"(?:url\(|href=\")#([^)\"]+)", svg))
    svg = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", svg)
    short = {name: f"i{number}" for number, name in enumerate(used)}
    svg = re.sub(r'((?:url\(|href=")#|id=")([^)"]+)', lambda m: m[1] + short.get(m[2], m[2]), svg)
    # Numbers below 1 are scales, too.
    svg = re.sub(r"\b[1-9]\d*\.\d{3,}", lambda found: f"{float(found[0]):.2f}", svg)
    svg = re.sub(r' d="([^"]*)"', lambda found: f' d="{_path(found[1])}"', svg)
    svg = re.sub(r"\s*\n\s*(?=<)", "\n", _without_empty_groups(svg))
    return _with_classes(svg)


def _path(data: str) -> str:
    """The data of a path; lines to several points need one letter, curves keep theirs."""
    words = data.split()
    if not {"C", "Q"}.isdisjoint(words):
        return " ".join(words)
    parts = re.split(r"(?=[Mz])", " ".join(_number(word) for word in words if word != "L"))
    return " ".join(_straight(part) for part in parts if part)


def _number(word: str) -> str:
    """A coordinate in tenths of a point."""
    return word if word.isalpha() else f"{float(word):.1f}".removesuffix(".0")


def _straight(line: str) -> str:
    """A line without the points in the middle of a horizontal or vertical piece."""
    letter, *numbers = line.split()
    # Without repetitions, of which each would take the other for a point in the middle.
    points = [point for point, _ in groupby(zip(numbers[::2], numbers[1::2], strict=True))]
    neighbours = zip([END, *points], points, [*points[1:], END], strict=False)
    corners = [
        point
        for before, point, after in neighbours
        if not any(before[axis] == point[axis] == after[axis] for axis in (0, 1))
    ]
    return " ".join([letter, *chain.from_iterable(corners)])


def _without_empty_groups(svg: str) -> str:
    """Without the groups that say nothing about what they hold."""
    kept, says = [], []
    for part in re.split(r"(</?g\b[^>]*>)", svg):
        empty = part == "<g/>"
        if part.startswith("<g") and not part.endswith("/>"):
            says.append(part != "<g>")
            empty = not says[-1]
        elif part == "</g>":
            empty = not says.pop()
        kept.append("" if empty else part)
    return "".join(kept)


def _with_classes(svg: str) -> str:
    """Styles that are repeated as classes of the style sheet that Matplotlib writes."""
    counts = Counter(re.findall(r' style="([^"]*)"', svg))
    repeated = [style for style, uses in counts.items() if uses >= REPEATED]
    rules = []
    for number, style in enumerate(repeated):
        svg = svg.replace(f' style="{style}"', f' class="s{number}"')
        rules.append(f".s{number}{{{style}}}")
    return svg.replace("</style>", "".join(rules) + "</style>", 1)
