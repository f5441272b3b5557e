"""A scenario's network: flows to the left, their paths through links to the right."""

from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, PathPatch
from matplotlib.path import Path

from anabranch.core_types import PlainNetwork
from anabranch.figures.boxes import Layout, flow_lines, link_lines
from anabranch.figures.over_time import FLOWS
from anabranch.figures.panels import Drawing, Panel
from anabranch.figures.style import BAND, DASHES, INK, LABELS
from anabranch.result import Result

LINK, GAP, STUB = 1.4, 0.6, 0.3
"""Widths of a link's box, of the space before a box, and after the last, inches."""

LETTER = 0.075
"""Width of a letter, inches."""

LINE = 0.17
"""Height of a line of text, inches."""


def network(result: Result) -> Drawing:
    """The network of the scenario: a colour per flow, a dash per path."""
    plain = result.scenario.network()
    words = [line for flow in plain["flows"] for line in flow_lines(flow)]
    start = LETTER * (max(map(len, words)) + 2)
    layout = Layout(plain, start, GAP, LINK, STUB, LINE, lambda lines, _: LINE * (lines + 0.8))
    panel = Panel(partial(_draw, plain, layout, start), zero=False)
    name = result.scenario.name or "scenario"
    return Drawing([panel], f"{name}: network", layout.width, _height(layout) - 0.3)


def _height(layout: Layout) -> float:
    return max(layout.bottom, layout.flow_top[-1])


def _draw(plain: PlainNetwork, layout: Layout, start: float, axes: Axes) -> None:
    axes.set_axis_off()
    axes.set_xlim(0, layout.width)
    axes.set_ylim(_height(layout), -0.5 * LINE)
    crossed = iter(layout.crossed)
    for number, flow in enumerate(plain["flows"]):
        colour = FLOWS[number % len(FLOWS)]
        middle = layout.flow_top[number] + LINE * len(flow_lines(flow)) / 2
        text = "\n".join(flow_lines(flow))
        axes.text(0, middle, text, va="center", color=INK, fontsize="small", linespacing=1.15)
        paths = len(flow["paths"])
        offsets = 0.09 * (np.arange(paths) - (paths - 1) / 2)
        lane = 0.12 * (number - (len(plain["flows"]) - 1) / 2)
        for order, offset in enumerate(offsets):
            line = _line(layout, start, middle + offset, next(crossed), offset / 2 + lane)
            dash = DASHES[order % len(DASHES)]
            axes.add_patch(PathPatch(line, fill=False, edgecolor=colour, linestyle=dash, lw=1.4))
    for box, link in enumerate(layout.links):
        x, y = layout.left[box], layout.top[box]
        look: dict[str, Any] = {
            "boxstyle": "round,pad=0,rounding_size=0.06",
            "facecolor": BAND,
        }
        size = (LINK, layout.heights[box])
        axes.add_patch(FancyBboxPatch((x, y), *size, edgecolor=LABELS, zorder=3, **look))
        text = "\n".join(link_lines(link))
        place = (x + LINK / 2, y + layout.heights[box] / 2)
        axes.text(
            *place, text, ha="center", va="center", fontsize="small", zorder=4, linespacing=1.15
        )


def _line(layout: Layout, x: float, y: float, boxes: list[int], lane: float) -> Path:
    """From a flow through its links to the right edge."""
    points, codes = [(x, y)], [Path.MOVETO]
    for box in boxes:
        half = layout.heights[box] / 2
        to_y = layout.top[box] + half + max(-half, min(lane, half))
        middle, end = (x + layout.left[box]) / 2, layout.left[box]
        points += [(middle, y), (middle, to_y), (end, to_y), (end + LINK, to_y)]
        codes += [Path.CURVE4] * 3 + [Path.LINETO]
        x, y = end + LINK, to_y
    points.append((x + 0.8 * STUB, y))
    codes.append(Path.LINETO)
    return Path(points, codes)
