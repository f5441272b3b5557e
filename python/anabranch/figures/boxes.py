"""Where the links and flows of a network are drawn, and their words."""

from collections.abc import Sequence
from itertools import pairwise

from anabranch.core_types import Flow, Link
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
    """What is said of a flow, a line each."""
    lines = [short(flow["name"]) + (f" × {flow['count']}" if flow["count"] > 1 else "")]
    if flow["workload"] != "bulk":
        lines.append(flow["workload"].replace("_", "/"))
    if flow["stop_s"] is not None:
        lines.append(f"{flow['start_s']:g} to {flow['stop_s']:g} s")
    elif flow["start_s"]:
        lines.append(f"from {flow['start_s']:g} s")
    return lines


def link_lines(link: Link) -> list[str]:
    """What is said of a link, a line each."""
    rate = f"{link['rate_mbps']:g} Mbps, " if link["rate_mbps"] else ""
    lines = [short(link["name"]), f"{rate}{link['delay_ms']:g} ms"]
    if link["loss_probability"]:
        lines.append(f"loss {100 * link['loss_probability']:g} %")
    return lines
