"""The share that a user with two paths over one link has beside one other connection.

    .venv/bin/python benches/shares_beside.py [sim|quic|kernel] [seeds] [rule ...]

The link has 12 Mbps, a drop-tail queue of 60 packets and an RTT of 40 ms. Rows are what the other
connection runs, columns what the user does; "one reno" has one path. Prints means over runs of 50
s, of which the last 40 are measured, with their ranges. The simulator's endpoints are Linux'.
`kernel` needs `make lab`, root, and the rules loaded with `anabranch-kernel load`; two runs at a
time.
"""

import sys
from pathlib import Path

import anabranch

EXAMPLE = Path(__file__).parent.parent / "examples" / "two_against_one.toml"
RULES = ["reno", "cubic", "lia", "olia", "balia", "coupled-cubic", "wvegas"]
LINK = {"rate_mbps": 12, "delay_ms": 20, "queue": {"drop_tail": {"packets": 60}}}


def shares(backend: str, seeds: int, rule: str, paths: int) -> dict[str, list[float]]:
    """The user's share in each run, by the algorithm of the other connection."""
    beside = ["reno", "cubic", "bbr"] if backend == "kernel" else ["reno", "cubic"]
    overrides: dict[str, object] = {
        "links.bottleneck": LINK,
        "flows[0].algorithm": rule,
        "flows[0].paths": paths * [["bottleneck"]],
        "measure.duration_s": 50,
    }
    if backend == "sim":
        overrides["tcp.profile"] = "linux"
    result = anabranch.run(EXAMPLE, beside, seeds, set=overrides, on=backend, jobs=2)
    rates = result.flows.pivot(
        index=["algorithm", "seed"], columns="flow", values="goodput_mbps"
    )
    share = rates["two paths"] / rates.sum(axis=1)
    return {other: share.loc[other].tolist() for other in beside}


def main(backend: str = "sim", seeds: str = "5", *rules: str) -> None:
    """Prints a line per rule as its runs end."""
    users = [("one reno", "reno", 1)] if not rules else []
    users += [(rule, rule, 2) for rule in rules or RULES]
    for name, rule, paths in users:
        runs = shares(backend, int(seeds), rule, paths)
        cells = [
            f"{other} {sum(of) / len(of):.2f} ({min(of):.2f} to {max(of):.2f})"
            for other, of in runs.items()
        ]
        print(f"{name:14}", *cells, sep="  ", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
