"""The style of all figures: colours, markers, line styles, and how a figure is saved."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

STYLES: dict[str, tuple[str, str]] = {
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
"""Colour and marker of each algorithm, the same in every figure."""

OTHERS = [("#7b4fb3", "|"), ("#a8322d", "8"), ("#1b6ca8", "1"), ("#6b7a00", "2")]
"""For algorithms that the table does not know: rules in Python, a scenario's own mixture."""

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
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "savefig.dpi": 150,
    "svg.hashsalt": "anabranch",
    "text.parse_math": False,
}


def style(algorithm: str, among: Sequence[str] = ()) -> tuple[str, str]:
    """Colour and marker of an algorithm, found by its name without parameters.

    Where several of `among` share a name (`balia`, `balia:cap=inf`), all but the first get
    another style.
    """
    name = algorithm.split(":")[0]
    twins = [other for other in among if other.split(":")[0] == name]
    if name in STYLES and algorithm in (twins or [algorithm])[:1]:
        return STYLES[name]
    strangers = [a for a in among if a.split(":")[0] not in STYLES or a not in twins[:1]]
    place = strangers.index(algorithm) if algorithm in strangers else 0
    return OTHERS[place % len(OTHERS)]


def save(figure: Figure, stem: Path) -> None:
    """Write a figure as `stem`.svg and `stem`.png; the same figure gives the same bytes."""
    with matplotlib.rc_context(SHEET):
        figure.savefig(stem.with_name(stem.name + ".svg"), metadata={"Date": None})
        figure.savefig(stem.with_name(stem.name + ".png"))
