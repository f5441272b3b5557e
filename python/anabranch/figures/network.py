"""A scenario's network, drawn by two pens: Matplotlib, and inline SVG for pages."""

from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from itertools import accumulate, pairwise

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, PathPatch
from matplotlib.path import Path

from anabranch.core_types import Flow, Link, PlainNetwork
from anabranch.figures.over_time import FLOWS
from anabranch.figures.panels import MOST_SHOWN, Drawing, Panel, count_of
from anabranch.figures.style import BAND, DASHES, INK, LABELS
from anabranch.formats import short
from anabranch.result import Result

# Places and words of a network's flows and links, for the two pens that draw it.


Box = tuple[int, int | None]
"""A link; where links follow each other in a circle, a link at one hop of its paths."""


def boxes_of(routes: Sequence[Sequence[int]]) -> tuple[list[Box], list[int]]:
    """The boxes and their columns, each behind the boxes before it on every path."""
    boxes: list[Box] = [
        (link, None) for link in sorted({link for route in routes for link in route})
    ]
    columns = dict.fromkeys((link for link, _ in boxes), 0)
    for _ in boxes:  # more rounds would follow a circle
        for route in routes:
            for before, after in pairwise(route):
                columns[after] = max(columns[after], columns[before] + 1)
    if max(columns.values()) < len(boxes):
        return boxes, [columns[link] for link, _ in boxes]
    boxes = sorted({(link, hop) for route in routes for hop, link in enumerate(route)})
    return boxes, [hop or 0 for _, hop in boxes]


def flow_lines(flow: Flow) -> list[str]:
    """Words about a flow, in lines."""
    lines = [short(flow["name"]) + (f" × {flow['count']}" if flow["count"] > 1 else "")]
    if flow["workload"] != "bulk":
        lines.append(flow["workload"].replace("_", "/"))
    if flow["stop_s"] is not None:
        lines.append(f"{flow['start_s']:g} to {flow['stop_s']:g} s")
    elif flow["start_s"]:
        lines.append(f"from {flow['start_s']:g} s")
    return lines


def link_lines(link: Link) -> list[str]:
    """Words about a link, in lines."""
    rate = f"{link['rate_mbps']:g} Mbps, " if link["rate_mbps"] else ""
    lines = [short(link["name"]), f"{rate}{link['delay_ms']:g} ms"]
    if link["loss_probability"]:
        lines.append(f"loss {100 * link['loss_probability']:g} %")
    return lines


class Layout:
    """Flows to the left, a column of boxes for each hop; a row for each box, y downwards.

    So a path to a later column passes no other box. All lengths are in the pen's unit.
    """

    def __init__(
        self,
        network: PlainNetwork,
        start: float,
        gap: float,
        box: float,
        stub: float,
        line: float,
        height_of: Callable[[int, int], float],
    ) -> None:
        """Place the network: boxes of the width `box`, the first at `start` + `gap`.

        `stub` is the width after the last, `line` the height of a line of text. `height_of` gives
        a box's height by the number of its lines of text and of its paths.
        """
        routes = [path["links"] for flow in network["flows"] for path in flow["paths"]]
        boxes, columns = boxes_of(routes)
        self.links = [network["links"][link] for link, _ in boxes]
        """The link of each box."""
        self.crossed = [
            [
                boxes.index((link, None) if (link, None) in boxes else (link, hop))
                for hop, link in enumerate(route)
            ]
            for route in routes
        ]
        """The boxes of each path, flow by flow."""
        self.users: list[list[int]] = [[] for _ in boxes]
        """The paths of each box, as indexes of `crossed`."""
        for number, crossed in enumerate(self.crossed):
            for index in crossed:
                self.users[index].append(number)
        self.left = [start + gap + column * (gap + box) for column in columns]
        self.width = max(self.left) + box + stub
        self.heights = [
            height_of(len(link_lines(link)), len(users))
            for link, users in zip(self.links, self.users, strict=True)
        ]
        self.top = [0.0] * len(boxes)
        self.bottom = 0.0
        """The end of the rows, a line below the last box."""
        for index in dict.fromkeys(index for crossed in self.crossed for index in crossed):
            self.top[index] = self.bottom
            self.bottom += self.heights[index] + line
        lines = [line * (len(flow_lines(flow)) + 0.8) for flow in network["flows"]]
        self.flow_top = list(accumulate(lines, initial=0.0))
        """The upper end of each flow's words, and the end of the last."""


LINK, GAP, STUB = 1.4, 0.6, 0.3
"""Widths of a link's box, of the space before a box, and after the last, inches."""

LETTER = 0.075
"""Width of a letter, inches."""

LINE = 0.17
"""Height of a line of text, inches."""


def network(result: Result) -> Drawing:
    """The network of the scenario: a colour per flow, a dash per path."""
    plain = result.scenario.network()
    there = len(plain["flows"])
    plain["flows"] = plain["flows"][:MOST_SHOWN]
    words = [line for flow in plain["flows"] for line in flow_lines(flow)]
    start = LETTER * (max(map(len, words)) + 2)
    layout = Layout(plain, start, GAP, LINK, STUB, LINE, lambda lines, _: LINE * (lines + 0.8))
    panel = Panel(partial(_draw, plain, layout, start), zero=False)
    name = result.scenario.name or "scenario"
    more = count_of(there, "flow")
    return Drawing([panel], f"{name}: network{more}", layout.width, _height(layout) - 0.3)


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
        look = "round,pad=0,rounding_size=0.06"
        size = (LINK, layout.heights[box])
        axes.add_patch(FancyBboxPatch((x, y), *size, look, ec=LABELS, fc=BAND, zorder=3))
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


# A scenario's network as inline SVG: flows to the left, their paths through links to the right.
#
# Attributes say what is what, for pages on which a click selects it: `data-flow` and `data-path`,
# indexes of the flow and of its path, and `data-link`, the link's name.


FLOW_WIDTH, LINK_WIDTH, SVG_GAP, SVG_STUB = 128, 148, 56, 30
"""Widths of a flow's text, of a link's box, of the space before a box, and after the last; px."""
SVG_LINE = 17
"""Height of a line of text, px."""
LANE = 9
"""Distance of two paths within a link, px."""


def topology(network: PlainNetwork) -> Markup:
    """The drawing, in pixels: it is not scaled, so that its text has one size on every screen."""
    return _Drawing(network).svg()


class _Drawing:
    def __init__(self, network: PlainNetwork) -> None:
        self.flows = network["flows"]
        self.layout = Layout(
            network,
            FLOW_WIDTH,
            SVG_GAP,
            LINK_WIDTH,
            SVG_STUB,
            SVG_LINE,
            lambda lines, users: max(SVG_LINE * lines + 8, LANE * (users + 1)),
        )
        # Index of the flow, and index within the flow, of each path.
        self.paths = [
            (flow, order)
            for flow, words in enumerate(self.flows)
            for order in range(len(words["paths"]))
        ]
        self.height = max(self.layout.flow_top[-1] - 0.8 * SVG_LINE, self.layout.bottom - SVG_LINE)

    def svg(self) -> Markup:
        parts = [self.path(number) for number in range(len(self.paths))]
        parts += [self.link(number) for number in range(len(self.layout.links))]
        for flow, y in zip(self.flows, self.layout.flow_top, strict=False):
            parts.append(_text(0, y, flow_lines(flow)))
        size = f'width="{self.layout.width}" height="{self.height + 8:.0f}"'
        box = f'viewBox="0 -4 {self.layout.width} {self.height + 8:.0f}"'
        return Markup(f'<svg class="network" role="img" {size} {box}>{"".join(parts)}</svg>')

    def link(self, number: int) -> str:
        link, height = self.layout.links[number], self.layout.heights[number]
        x, y = self.layout.left[number], self.layout.top[number]
        box = f'x="{x}" y="{y:.0f}" width="{LINK_WIDTH}" height="{height:.0f}"'
        name = f'data-link="{escape(link["name"])}"'
        return f'<rect {name} {box} rx="5"/>' + _text(x + 10, y + 4, link_lines(link))

    def path(self, number: int) -> str:
        """From the flow through its links; a second path is dashed."""
        layout = self.layout
        index, order = self.paths[number]
        paths = len(self.flows[index]["paths"])
        x: float = FLOW_WIDTH
        y = layout.flow_top[index] + SVG_LINE * len(flow_lines(self.flows[index])) / 2
        y += LANE * (order - (paths - 1) / 2)
        d = f"M{x} {y:.1f}"
        for box in layout.crossed[number]:
            lanes = layout.users[box]
            middle = layout.top[box] + layout.heights[box] / 2
            to_y = middle + LANE * (lanes.index(number) - (len(lanes) - 1) / 2)
            half, end = SVG_GAP / 2, x + SVG_GAP
            d += f" C{x + half:.1f} {y:.1f} {x + half:.1f} {to_y:.1f} {end} {to_y:.1f}"
            x, y = layout.left[box] + LINK_WIDTH, to_y
            d += f" H{x}"
        d += f" h{SVG_STUB - 4} m-6 -4 l6 4 l-6 4"
        several = " several" if paths > 1 else ""
        which = f'data-flow="{index}" data-path="{order}"'
        return f'<path {which} class="p{order % 3}{several}" d="{d}"/>'


def _text(x: float, y: float, lines: Sequence[str]) -> str:
    spans = (
        f'<tspan x="{x}" y="{y + SVG_LINE * (number + 0.75):.1f}">{escape(line)}</tspan>'
        for number, line in enumerate(lines)
    )
    return f"<text>{''.join(spans)}</text>"
