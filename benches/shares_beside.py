"""The share that a user with two paths over one link has beside one other connection.

    .venv/bin/python benches/shares_beside.py [sim|quic|kernel] [seeds] [rule ...]

The link has 12 Mbps, a drop-tail queue of 60 packets and an RTT of 40 ms. Prints a line per rule
of the user: for each algorithm of the other connection the mean over runs of 30 s, of which the
last 25 are measured, and the range. `one-path` is Reno over one path. The simulator's endpoints are
Linux'. `kernel` needs `make lab`, root, and the rules loaded with `anabranch-kernel load`; two runs
at a time.
"""

import sys
from pathlib import Path

import anabranch

EXAMPLE = Path(__file__).parent.parent / "examples" / "two_against_one.toml"
RULES = ["one-path", "reno", "cubic", "lia", "olia", "balia", "coupled-cubic", "wvegas"]
LINK = {"rate_mbps": 12, "delay_ms": 20, "queue": {"drop_tail": {"packets": 60}}}


def shares(backend: str, seeds: int, rule: str) -> dict[str, list[float]]:
    """The user's share in each run, by the algorithm of the other connection."""
    beside = ["reno", "cubic", "bbr"] if backend == "kernel" else ["reno", "cubic"]
    overrides: dict[str, object] = {
        "links.bottleneck": LINK,
        "flows[0].algorithm": "reno" if rule == "one-path" else rule,
        "measure.duration_s": 30,
        "measure.warmup_s": 5,
    }
    if rule == "one-path":
        overrides["flows[0].paths"] = [["bottleneck"]]
    if backend == "sim":
        overrides["tcp.profile"] = "linux"
    result = anabranch.run(EXAMPLE, beside, seeds, set=overrides, on=backend, jobs=2)
    rates = result.flows.pivot(index=["algorithm", "seed"], columns="flow", values="goodput_mbps")
    share = rates["two paths"] / rates.sum(axis=1)
    return {other: share.loc[other].tolist() for other in beside}


def main(backend: str = "sim", seeds: str = "5", *rules: str) -> None:
    """Prints a line per rule as its runs end."""
    for rule in rules or RULES:
        runs = shares(backend, int(seeds), rule)
        cells = [
            f"{other} {sum(of) / len(of):.2f} ({min(of):.2f} to {max(of):.2f})"
            for other, of in runs.items()
        ]
        print(f"{rule:14}", *cells, sep="  ", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
