"""Places and words of a network's flows and links, for the two pens that draw it."""

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise

from anabranch.core_types import Flow, Link, PlainNetwork
from anabranch.formats import short

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


def box_of(boxes: Sequence[Box], link: int, hop: int) -> int:
    """The index of the box of a link that is the given hop of a path."""
    return boxes.index((link, None) if (link, None) in boxes else (link, hop))


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
            [box_of(boxes, link, hop) for hop, link in enumerate(route)] for route in routes
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
