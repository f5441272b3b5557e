"""Shares of the parts of `tcp.profile = "linux"` in the agreement with the kernel.

`python benches/agreement_parts.py olia results/olia-kernel/agreement.json` prints how far the
kernel's numbers of that file are from the simulator's, per cent of these, with the paper's own
endpoints, with parts of Linux, and with the profile; a star: inside the intervals of both. Every
packet of the simulator has 72 bytes of headers, as Multipath TCP's have. About a minute.
"""

import sys
from math import hypot
from pathlib import Path

from anabranch.formats import markdown_table
from anabranch.papers.agreement import Line, agree

LINUX = {"tcp.profile": "linux"}
ENDPOINTS = {
    "paper's endpoints": {},
    "scheduler": {"tcp.scheduler": "linux"},
    "linux": LINUX,
    "- delayed ACKs": {**LINUX, "tcp.delayed_acks": False},
    "- RACK": {**LINUX, "tcp.recovery": "sack"},
    "- jitter": {**LINUX, "tcp.host_jitter_us": 0},
    "- delayed ACKs, RACK": {**LINUX, "tcp.delayed_acks": False, "tcp.recovery": "sack"},
}


def is_inside(line: Line) -> bool:
    """Whether the difference is less than the root of the sum of both squared intervals."""
    (one, other), (half, half_other) = line.measured.values(), line.interval.values()
    return abs(one - other) <= hypot(half, half_other)


def main(paper: str, kernel: str) -> None:
    """Prints the table of a paper."""
    columns = []
    for endpoint in ENDPOINTS.values():
        overrides = {"tcp.header_bytes": 72, **endpoint}
        agreement = agree(paper, ["sim"], beside=Path(kernel), set=overrides)
        columns.append([line for line in agreement.lines if line.measured["sim"]])
    rows = [
        [f"{lines[0].metric} {lines[0].case}"]
        + [f"{line.difference('kernel', 'sim'):+.0%}{' *' * is_inside(line)}" for line in lines]
        for lines in zip(*columns, strict=True)
    ]
    inside = [f"{sum(map(is_inside, lines))} of {len(lines)}" for lines in columns]
    header = ["kernel from sim", *ENDPOINTS]
    print(*markdown_table(header, [*rows, ["inside", *inside]]), sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
