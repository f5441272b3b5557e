"""The style of all figures: colours, markers, line styles, and how a figure is saved."""

from collections.abc import Iterator, Sequence
from colorsys import hls_to_rgb
from itertools import product
from math import dist
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from anabranch.scenario import rules

CHOSEN: dict[str, tuple[str, str]] = {
    "reno": ("#4d4d4d", "o"),
    "cubic": ("#9c755f", "s"),
    "ewtcp": ("#bab0ac", "v"),
    "coupled": ("#b07aa1", "^"),
    "semicoupled": ("#d37295", "<"),
    "lia": ("#e15759", "D"),
    "olia": ("#4e79a7", "P"),
    "olia-printed": ("#86b6dd", "p"),
    "balia": ("#59a14f", "X"),
    "generalized": ("#8cd17d", "d"),
    "rsf-db": ("#f28e2b", "h"),
    "rsf-lb": ("#edc948", "H"),
    "vegas": ("#76b7b2", ">"),
    "wvegas": ("#2b8c8a", "*"),
}
"""Colour and marker of algorithms; other algorithms of the table get generated ones."""

OTHERS = [("#7b4fb3", "|"), ("#a8322d", "8"), ("#1b6ca8", "1"), ("#6b7a00", "2")]
"""For algorithms that are not in the table: rules in Python, a scenario's own mixture."""

INK = "#111111"
"""Lines of theory that belong to no algorithm."""
LABELS = "#555555"
"""Axes, ticks and text of small multiples."""
CONTOURS = "#444444"
HATCHES = "#222222"
BARS = "black"
"""Error bars and their markers on coloured bars."""
LIMITS = "#999999"
DIAGONAL = "#9a9a9a"
GRID = "#e4e4e4"
BAND = "#ededed"
"""An area between two bounds."""
PAPER = "white"
"""Inside of hollow markers, and around filled ones."""
PAGE_INK, PAGE_RULE = "#010203", "#040506"
"""Placeholders for two colours of a report's page, which differ between light and dark mode."""

DASHES = ["-", "--", ":", "-."]
"""Line styles of a flow's first, second, ... path."""

SHEET: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": "medium",
    "figure.constrained_layout.use": True,
    "font.size": 9.0,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "savefig.dpi": 150,
    "svg.hashsalt": "anabranch",
    "text.parse_math": False,
}


def colours(*algorithms: str) -> list[str]:
    """The colours of these algorithms, for figures whose lines are not algorithms."""
    known = styles()
    return [known[algorithm][0] for algorithm in algorithms]


def styles() -> dict[str, tuple[str, str]]:
    """Colour and marker of every algorithm of the table, the same in every figure.

    Those without a chosen style get a number as marker, and a colour far from all others.
    """
    names = [rule["name"] for rule in rules()]
    missing = [name for name in names if name not in CHOSEN]
    generated = zip(missing, _distant_colours(), strict=False)
    return CHOSEN | {
        name: (colour, f"${number}$") for number, (name, colour) in enumerate(generated, 1)
    }


def _distant_colours() -> Iterator[str]:
    """Colours in a fixed order, each the farthest from those of figures and those before it."""
    taken = [to_rgb(colour) for colour, _ in [*CHOSEN.values(), *OTHERS]]
    taken += [to_rgb(colour) for colour in (PAPER, BARS, LABELS)]
    hues, lightness, saturation = [k / 36 for k in range(36)], (0.3, 0.45, 0.6), (0.4, 0.7)
    candidates = [hls_to_rgb(*levels) for levels in product(hues, lightness, saturation)]
    while True:
        taken.append(max(candidates, key=lambda one: min(dist(one, other) for other in taken)))
        yield to_hex(taken[-1])


def style(algorithm: str, among: Sequence[str] = ()) -> tuple[str, str]:
    """Colour and marker of an algorithm, by its name without parameters.

    Where several of `among` share a name (`balia`, `balia:cap=inf`), all but the first get the
    style of an algorithm that is not in the table.
    """
    name, known = algorithm.split(":")[0], styles()
    twins = [other for other in among if other.split(":")[0] == name]
    if name in known and algorithm in (twins or [algorithm])[:1]:
        return known[name]
    others = [a for a in among if a.split(":")[0] not in known or a not in twins[:1]]
    place = others.index(algorithm) if algorithm in others else 0
    return OTHERS[place % len(OTHERS)]


def save(figure: Figure, stem: Path) -> None:
    """Write a figure as `stem`.svg and `stem`.png; the same figure gives the same bytes."""
    with matplotlib.rc_context(SHEET):
        figure.savefig(stem.with_name(stem.name + ".svg"), metadata={"Date": None})
        figure.savefig(stem.with_name(stem.name + ".png"))
