"""Colours of the page: those of figures, in the light and the dark scheme."""

from colorsys import hls_to_rgb, rgb_to_hls
from functools import cache

from matplotlib.colors import to_hex, to_rgb

from anabranch.figures.style import DASHES, OTHERS, colours, styles

GROUNDS = {"light": "#ffffff", "dark": "#15191e"}
"""Background of the charts; static/style.css has the same."""

CONTRAST = 3.0
"""The least contrast of a line with its ground (WCAG 2.2, success criterion 1.4.11)."""

RULES = ("wvegas", "lia", "olia", "rsf-db", "semicoupled", "generalized", "olia-printed", "cubic")
FLOWS = colours(*RULES)
"""Flows and links of a scenario, one after the other: colours that stay apart in both schemes."""

CANVAS_DASHES = {"-": [], "--": [7, 4], ":": [2, 3], "-.": [7, 3, 2, 3]}
"""Matplotlib's line styles as lengths of dashes and gaps, px."""


@cache
def palette() -> dict[str, object]:
    """The colours of rules and flows by scheme, and the dashes of a flow's paths."""
    rules = {name: colour for name, (colour, _) in styles().items()}
    schemes = {
        scheme: {
            "rules": {name: visible(colour, ground) for name, colour in rules.items()},
            "others": [visible(colour, ground) for colour, _ in OTHERS],
            "flows": [visible(colour, ground) for colour in FLOWS],
        }
        for scheme, ground in GROUNDS.items()
    }
    return {**schemes, "dashes": [CANVAS_DASHES[dash] for dash in DASHES]}


def visible(colour: str, ground: str) -> str:
    """The colour, or the nearest lighter or darker one of its hue with enough contrast."""
    hue, lightness, saturation = rgb_to_hls(*to_rgb(colour))
    step = 0.01 if luminance(ground) < 0.5 else -0.01
    while contrast(colour, ground) < CONTRAST and 0 < lightness < 1:
        lightness = min(1.0, max(0.0, lightness + step))
        colour = to_hex(hls_to_rgb(hue, lightness, saturation))
    return colour


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours, 1 to 21 (WCAG 2.2)."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    """The relative luminance of a colour, 0 to 1 (WCAG 2.2)."""
    channels = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    red, green, blue = channels
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
