"""The style of all figures: colours, markers, line styles, and how a figure is saved."""

from collections.abc import Iterator, Sequence
from colorsys import hls_to_rgb
from functools import cache
from io import StringIO
from itertools import islice, product, starmap
from pathlib import Path
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from anabranch.figures.compact import compact
from anabranch.scenario import rules

# The difference of two colours for full colour vision and without one kind of cone.


DEFICIENCIES = {
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
"""Parts of linear RGB that are seen: G. M. Machado, M. M. Oliveira and L. A. F. Fernandes, "A
Physiologically-based Model for Simulation of Color Vision Deficiency", IEEE Transactions on
Visualization and Computer Graphics 15(6), 2009; the matrices of severity 1.0."""

XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
"""Matrix from linear RGB to CIE XYZ (IEC 61966-2-1, sRGB; white point D65)."""


APART = 15.0
"""The least `apart` of two colours of figures: at a glance they are not confused."""


def apart(one: np.ndarray, other: np.ndarray) -> float:
    """The CIE 1976 difference of two colours as `seen`: the least over all kinds of vision."""
    return float(np.linalg.norm(one - other, axis=1).min())


def seen(colour: str) -> np.ndarray:
    """CIE 1976 L*a*b*: a row for full vision, then one for each of `DEFICIENCIES`."""
    encoded = np.array(to_rgb(colour))
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    visions = [np.eye(3), *map(np.array, DEFICIENCIES.values())]
    return np.array([_lab(np.clip(vision @ linear, 0, 1)) for vision in visions])


def _lab(linear: np.ndarray) -> np.ndarray:
    to_xyz = np.array(XYZ)
    relative = to_xyz @ linear / to_xyz.sum(axis=1)
    edge = 6 / 29
    x, y, z = np.where(relative > edge**3, np.cbrt(relative), relative / (3 * edge**2) + 4 / 29)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


Marker = str | tuple[int, Literal[1], int]
"""A marker of Matplotlib: a letter, or corners, 1 for a star, and an angle in degrees.

All are areas: one of lines, such as "|" or "+", is hidden by error bars.
"""

CHOSEN: dict[str, tuple[str, Marker]] = {
    "reno": ("#484542", "o"),
    "cubic": ("#9c7669", "s"),
    "ewtcp": ("#a1c1cd", "v"),
    "coupled": ("#562d53", "^"),
    "semicoupled": ("#ce418d", "<"),
    "lia": ("#e75b44", "D"),
    "olia": ("#7a8cba", "P"),
    "olia-printed": ("#6fbfee", "p"),
    "balia": ("#70c274", "X"),
    "generalized": ("#1b9c46", "d"),
    "rsf-db": ("#de811b", "h"),
    "rsf-lb": ("#e7c443", "H"),
    "vegas": ("#9da79a", ">"),
    "wvegas": ("#00737b", "*"),
    "coupled-cubic": ("#f526fc", (4, 1, 45)),
    "dctcp": ("#647300", (3, 1, 0)),
    "bbr": ("#2a20ef", (6, 1, 0)),
    "bbr3": ("#390c8e", (8, 1, 0)),
}
"""Colour and marker of algorithms; other algorithms of the table get generated ones.

Two of these colours, or of `OTHERS`, are at least `APART` apart, also without one
kind of cone. They were found by simulated annealing from an older palette.
"""

OTHERS: list[tuple[str, Marker]] = [
    ("#7e50b5", (4, 1, 0)),
    ("#9b2828", "8"),
    ("#034984", (5, 1, 180)),
    ("#e5ec01", (3, 1, 180)),
]
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

SHADES = {"friendliness": "Blues", "responsiveness_per_s": "Greens", "oscillation": "Oranges"}
"""Colour maps of the measures of a design."""

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
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "savefig.dpi": 150,
    "svg.hashsalt": "anabranch",
    "text.parse_math": False,
}


RASTER_DPI = 72
"""Resolution of the parts of an SVG that are no paths: smooth areas."""


def colours(*algorithms: str) -> list[str]:
    """The colours of these algorithms, for figures whose lines are not algorithms."""
    known = styles()
    return [known[algorithm][0] for algorithm in algorithms]


def styles() -> dict[str, tuple[str, Marker]]:
    """Colour and marker of every algorithm of the table, the same in every figure.

    Those without a chosen style get a number as marker, and a colour far from all others.
    """
    names = [rule["name"] for rule in rules()]
    missing = [name for name in names if name not in CHOSEN]
    generated = zip(missing, _generated(len(missing)), strict=True)
    return CHOSEN | {
        name: (colour, f"${number}$") for number, (name, colour) in enumerate(generated, 1)
    }


@cache
def _generated(count: int) -> tuple[str, ...]:
    return tuple(islice(_distant_colours(), count))


def _distant_colours() -> Iterator[str]:
    """Colours in a fixed order, each the farthest from those of figures and those before it."""
    taken = [seen(colour) for colour, _ in [*CHOSEN.values(), *OTHERS]]
    taken += [seen(colour) for colour in (PAPER, BARS, LABELS)]
    hues, lightness, saturation = [k / 36 for k in range(36)], (0.3, 0.45, 0.6), (0.4, 0.7)
    levels = product(hues, lightness, saturation)
    candidates = {colour: seen(colour) for colour in map(to_hex, starmap(hls_to_rgb, levels))}
    least = {name: min(apart(it, one) for one in taken) for name, it in candidates.items()}
    while True:
        name = max(least, key=least.__getitem__)
        yield name
        newest = candidates[name]
        least = {name: min(old, apart(candidates[name], newest)) for name, old in least.items()}


def style(algorithm: str, among: Sequence[str] = ()) -> tuple[str, Marker]:
    """Colour and marker of an algorithm, by its name without parameters.

    Where several of `among` share a name (`balia`, `balia:cap=inf`), all but the first get the
    style of an algorithm that is not in the table.
    """
    name, known = algorithm.split(":")[0], styles()
    twins = [other for other in among if other.split(":")[0] == name]
    if name in known and algorithm in (twins or [algorithm])[:1]:
        return known[name]
    firsts = {other.split(":")[0]: other for other in reversed(among)}
    others = [a for a in among if a.split(":")[0] not in known or a not in firsts.values()]
    place = others.index(algorithm) if algorithm in others else 0
    return OTHERS[place % len(OTHERS)]


def plain_log(axes: Axes, names: str) -> None:
    """Make these axes, `x`, `y` or both, logarithmic, with plain numbers and no powers of ten."""
    for name in names:
        axes.set(**{f"{name}scale": "log"})
        axis = getattr(axes, f"{name}axis")
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")


def save(figure: Figure, stem: Path, formats: Sequence[str] = ("svg", "png")) -> None:
    """Write a figure as `stem`.svg, `stem`.png, `stem`.pdf; the same figure gives the same bytes.

    Letters of a PDF are outlines of TrueType (type 42), as IEEE and ACM demand.
    """
    for form in formats:
        file = stem.with_name(f"{stem.name}.{form}")
        with matplotlib.rc_context(SHEET):
            if form == "svg":
                text = StringIO()
                figure.savefig(text, format="svg", dpi=RASTER_DPI)
                file.write_text(compact(text.getvalue()), encoding="utf-8")
            elif form == "pdf":
                figure.savefig(file, metadata={"CreationDate": None})
            else:
                figure.savefig(file)
