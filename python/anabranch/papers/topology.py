"""A scenario's network as inline SVG: flows to the left, their paths through links to the right.

Attributes say what is what, for pages on which a click selects it: `data-flow` and `data-path`,
indexes of the flow and of its path, and `data-link`, the link's name.
"""

from collections.abc import Sequence
from html import escape
from itertools import pairwise

from markupsafe import Markup

from anabranch.core_types import Flow, Link, PlainNetwork

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
        boxes, columns = _boxes(routes)
        self.links = [network["links"][link] for link, _ in boxes]
        self.left = [FLOW_WIDTH + GAP + column * (GAP + LINK_WIDTH) for column in columns]
        self.width = max(self.left) + LINK_WIDTH + STUB
        # Index of the flow, index within the flow, and boxes, of each path.
        self.paths = [
            (flow, order, [_box(boxes, link, hop) for hop, link in enumerate(path["links"])])
            for flow, words in enumerate(self.flows)
            for order, path in enumerate(words["paths"])
        ]
        self.users: list[list[int]] = [[] for _ in boxes]
        for number, (_, _, crossed) in enumerate(self.paths):
            for box in crossed:
                self.users[box].append(number)
        self.flow_y = _stacked([_flow_lines(flow) for flow in self.flows])
        # A row for each box, so that a path to a later column passes no other box.
        self.link_y = [0.0] * len(boxes)
        y = 0.0
        for box in dict.fromkeys(box for _, _, crossed in self.paths for box in crossed):
            self.link_y[box] = y
            y += self.box_height(box) + LINE
        last = LINE * len(_flow_lines(self.flows[-1]))
        self.height = max(self.flow_y[-1] + last, y - LINE)

    def svg(self) -> Markup:
        parts = [self.path(number) for number in range(len(self.paths))]
        parts += [self.link(number) for number in range(len(self.links))]
        for flow, y in zip(self.flows, self.flow_y, strict=True):
            parts.append(_text(0, y, _flow_lines(flow)))
        size = f'width="{self.width}" height="{self.height + 8:.0f}"'
        box = f'viewBox="0 -4 {self.width} {self.height + 8:.0f}"'
        return Markup(f'<svg class="network" role="img" {size} {box}>{"".join(parts)}</svg>')

    def box_height(self, link: int) -> float:
        return max(
            LINE * len(_link_lines(self.links[link])) + 8, LANE * (len(self.users[link]) + 1)
        )

    def link(self, number: int) -> str:
        x, y = self.left[number], self.link_y[number]
        box = f'x="{x}" y="{y:.0f}" width="{LINK_WIDTH}" height="{self.box_height(number):.0f}"'
        name = f'data-link="{escape(self.links[number]["name"])}"'
        return f'<rect {name} {box} rx="5"/>' + _text(
            x + 10, y + 4, _link_lines(self.links[number])
        )

    def path(self, number: int) -> str:
        """From the flow through its links; a second path is dashed."""
        index, order, crossed = self.paths[number]
        paths = len(self.flows[index]["paths"])
        x, y = FLOW_WIDTH, self.flow_y[index] + LINE * len(_flow_lines(self.flows[index])) / 2
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


Box = tuple[int, int | None]
"""A link; where links follow each other in a circle, a link at one hop of its paths."""


def _boxes(routes: Sequence[Sequence[int]]) -> tuple[list[Box], list[int]]:
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


def _box(boxes: Sequence[Box], link: int, hop: int) -> int:
    return boxes.index((link, None) if (link, None) in boxes else (link, hop))


def _stacked(texts: Sequence[Sequence[str]]) -> list[float]:
    """The upper ends of texts below each other."""
    ends, y = [], 0.0
    for lines in texts:
        ends.append(y)
        y += LINE * (len(lines) + 0.8)
    return ends


def _flow_lines(flow: Flow) -> list[str]:
    lines = [flow["name"] + (f" × {flow['count']}" if flow["count"] > 1 else "")]
    if flow["workload"] != "bulk":
        lines.append(flow["workload"].replace("_", "/"))
    if flow["stop_s"] is not None:
        lines.append(f"{flow['start_s']:g} to {flow['stop_s']:g} s")
    elif flow["start_s"]:
        lines.append(f"from {flow['start_s']:g} s")
    return lines


def _link_lines(link: Link) -> list[str]:
    rate = f"{link['rate_mbps']:g} Mbps, " if link["rate_mbps"] else ""
    lines = [link["name"], f"{rate}{link['delay_ms']:g} ms"]
    if link["loss_probability"]:
        lines.append(f"loss {100 * link['loss_probability']:g} %")
    return lines


def _text(x: float, y: float, lines: Sequence[str]) -> str:
    spans = (
        f'<tspan x="{x}" y="{y + LINE * (number + 0.75):.1f}">{escape(line)}</tspan>'
        for number, line in enumerate(lines)
    )
    return f"<text>{''.join(spans)}</text>"
