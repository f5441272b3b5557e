"""A scenario's network as inline SVG: flows to the left, their paths through links to the right.

Attributes say what is what, for pages on which a click selects it: `data-flow` and `data-path`,
indexes of the flow and of its path, and `data-link`, the link's name.
"""

from collections.abc import Sequence
from html import escape

from markupsafe import Markup

from anabranch.core_types import PlainNetwork
from anabranch.figures.boxes import Layout, flow_lines, link_lines

FLOW_WIDTH, LINK_WIDTH, GAP, STUB = 128, 148, 56, 30
"""Widths of a flow's text, of a link's box, of the space before a box, and after the last; px."""
LINE = 17
"""Height of a line of text, px."""
LANE = 9
"""Distance of two paths within a link, px."""


def topology(network: PlainNetwork) -> Markup:
    """The drawing, in pixels: it is not scaled, so that its text has one size on every screen."""
    return _Drawing(network).svg()


class _Drawing:
    def __init__(self, network: PlainNetwork) -> None:
        self.flows = network["flows"]
        self.layout = Layout(network, FLOW_WIDTH, GAP, LINK_WIDTH, STUB, LINE, _box_height)
        # Index of the flow, and index within the flow, of each path.
        self.paths = [
            (flow, order)
            for flow, words in enumerate(self.flows)
            for order in range(len(words["paths"]))
        ]
        self.height = max(self.layout.flow_top[-1] - 0.8 * LINE, self.layout.bottom - LINE)

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
        y = layout.flow_top[index] + LINE * len(flow_lines(self.flows[index])) / 2
        y += LANE * (order - (paths - 1) / 2)
        d = f"M{x} {y:.1f}"
        for box in layout.crossed[number]:
            lanes = layout.users[box]
            middle = layout.top[box] + layout.heights[box] / 2
            to_y = middle + LANE * (lanes.index(number) - (len(lanes) - 1) / 2)
            half, end = GAP / 2, x + GAP
            d += f" C{x + half:.1f} {y:.1f} {x + half:.1f} {to_y:.1f} {end} {to_y:.1f}"
            x, y = layout.left[box] + LINK_WIDTH, to_y
            d += f" H{x}"
        d += f" h{STUB - 4} m-6 -4 l6 4 l-6 4"
        several = " several" if paths > 1 else ""
        which = f'data-flow="{index}" data-path="{order}"'
        return f'<path {which} class="p{order % 3}{several}" d="{d}"/>'


def _box_height(lines: int, users: int) -> float:
    return max(LINE * lines + 8, LANE * (users + 1))


def _text(x: float, y: float, lines: Sequence[str]) -> str:
    spans = (
        f'<tspan x="{x}" y="{y + LINE * (number + 0.75):.1f}">{escape(line)}</tspan>'
        for number, line in enumerate(lines)
    )
    return f"<text>{''.join(spans)}</text>"
