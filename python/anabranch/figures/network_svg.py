"""A scenario's network as inline SVG: flows to the left, their paths through links to the right.

Attributes say what is what, for pages on which a click selects it: `data-flow` and `data-path`,
indexes of the flow and of its path, and `data-link`, the link's name.
"""

from collections.abc import Sequence
from html import escape

from markupsafe import Markup

from anabranch.core_types import PlainNetwork
from anabranch.figures.boxes import box_of, boxes_of, flow_lines, link_lines

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
        routes = [path["links"] for flow in self.flows for path in flow["paths"]]
        boxes, columns = boxes_of(routes)
        self.links = [network["links"][link] for link, _ in boxes]
        self.left = [FLOW_WIDTH + GAP + column * (GAP + LINK_WIDTH) for column in columns]
        self.width = max(self.left) + LINK_WIDTH + STUB
        # Index of the flow, index within the flow, and boxes, of each path.
        self.paths = [
            (flow, order, [box_of(boxes, link, hop) for hop, link in enumerate(path["links"])])
            for flow, words in enumerate(self.flows)
            for order, path in enumerate(words["paths"])
        ]
        self.users: list[list[int]] = [[] for _ in boxes]
        for number, (_, _, crossed) in enumerate(self.paths):
            for box in crossed:
                self.users[box].append(number)
        self.flow_y = _stacked([flow_lines(flow) for flow in self.flows])
        # A row for each box, so that a path to a later column passes no other box.
        self.link_y = [0.0] * len(boxes)
        y = 0.0
        for box in dict.fromkeys(box for _, _, crossed in self.paths for box in crossed):
            self.link_y[box] = y
            y += self.box_height(box) + LINE
        last = LINE * len(flow_lines(self.flows[-1]))
        self.height = max(self.flow_y[-1] + last, y - LINE)

    def svg(self) -> Markup:
        parts = [self.path(number) for number in range(len(self.paths))]
        parts += [self.link(number) for number in range(len(self.links))]
        for flow, y in zip(self.flows, self.flow_y, strict=True):
            parts.append(_text(0, y, flow_lines(flow)))
        size = f'width="{self.width}" height="{self.height + 8:.0f}"'
        box = f'viewBox="0 -4 {self.width} {self.height + 8:.0f}"'
        return Markup(f'<svg class="network" role="img" {size} {box}>{"".join(parts)}</svg>')

    def box_height(self, link: int) -> float:
        return max(LINE * len(link_lines(self.links[link])) + 8, LANE * (len(self.users[link]) + 1))

    def link(self, number: int) -> str:
        x, y = self.left[number], self.link_y[number]
        box = f'x="{x}" y="{y:.0f}" width="{LINK_WIDTH}" height="{self.box_height(number):.0f}"'
        name = f'data-link="{escape(self.links[number]["name"])}"'
        return f'<rect {name} {box} rx="5"/>' + _text(x + 10, y + 4, link_lines(self.links[number]))

    def path(self, number: int) -> str:
        """From the flow through its links; a second path is dashed."""
        index, order, crossed = self.paths[number]
        paths = len(self.flows[index]["paths"])
        x, y = FLOW_WIDTH, self.flow_y[index] + LINE * len(flow_lines(self.flows[index])) / 2
        y += LANE * (order - (paths - 1) / 2)
        d = f"M{x} {y:.1f}"
        for link in crossed:
            lanes = self.users[link]
            middle = self.link_y[link] + self.box_height(link) / 2
            to_y = middle + LANE * (lanes.index(number) - (len(lanes) - 1) / 2)
            half, end = GAP / 2, x + GAP
            d += f" C{x + half:.1f} {y:.1f} {x + half:.1f} {to_y:.1f} {end} {to_y:.1f}"
            x, y = self.left[link] + LINK_WIDTH, to_y
            d += f" H{x}"
        d += f" h{STUB - 4} m-6 -4 l6 4 l-6 4"
        several = " several" if paths > 1 else ""
        which = f'data-flow="{index}" data-path="{order}"'
        return f'<path {which} class="p{order % 3}{several}" d="{d}"/>'


def _stacked(texts: Sequence[Sequence[str]]) -> list[float]:
    """The upper ends of texts below each other."""
    ends, y = [], 0.0
    for lines in texts:
        ends.append(y)
        y += LINE * (len(lines) + 0.8)
    return ends


def _text(x: float, y: float, lines: Sequence[str]) -> str:
    spans = (
        f'<tspan x="{x}" y="{y + LINE * (number + 0.75):.1f}">{escape(line)}</tspan>'
        for number, line in enumerate(lines)
    )
    return f"<text>{''.join(spans)}</text>"
