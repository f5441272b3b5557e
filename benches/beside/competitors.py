"""The share that a user with two paths over one link has beside Reno, CUBIC and BBR.

    .venv/bin/python benches/beside/competitors.py [sim|quic] [seeds] [Mbps,...] [rule ...]

Prints tables (docs/records/competitors.csv): links of 12 and 100 Mbps with an RTT of 40 ms and
a drop-tail queue of 1 and 4 bandwidth-delay products, a line per rule, a column per algorithm of
the other connection, which has one path. A cell is the mean over the seeds, of runs of 40 s (20 s
at 100 Mbps over QUIC) of which the second half is measured; a half is fair, and cells below a
quarter of that are bold. The simulator's endpoints are Linux'. `benches/shares_beside.py kernel`
has the kernel's.
"""

import sys
from pathlib import Path

import anabranch

EXAMPLE = Path(__file__).parents[2] / "examples" / "two_against_one.toml"
RTT_MS = 40
PACKET_BITS = 12_000
BESIDE = {
    "sim": ["reno", "cubic", "bbr", "bbr3"],
    "quic": ["reno", "cubic", "bbr", "bbr3", "noq-bbr3"],
}
STARVED = 0.5 / 4


def shares(backend: str, seeds: int, rule: str, rate_mbps: int, bdps: int) -> dict[str, float]:
    """The user's mean share by the algorithm of the other connection."""
    queue = round(bdps * rate_mbps * 1e3 * RTT_MS / PACKET_BITS)
    link = {
        "rate_mbps": rate_mbps,
        "delay_ms": RTT_MS / 2,
        "queue": {"drop_tail": {"packets": queue}},
    }
    duration_s = 20 if backend == "quic" and rate_mbps > 12 else 40
    overrides: dict[str, object] = {
        "links.bottleneck": link,
        "flows[0].algorithm": rule,
        "measure.duration_s": duration_s,
        "measure.warmup_s": duration_s / 2,
    }
    if backend == "sim":
        overrides |= {"tcp.profile": "linux", "tcp.kernel_programs": False}
    beside = BESIDE[backend]
    result = anabranch.run(EXAMPLE, beside, seeds, set=overrides, on=backend)
    rates = result.flows.pivot(index=["algorithm", "seed"], columns="flow", values="goodput_mbps")
    share = rates["two paths"] / rates.sum(axis=1)
    return {other: float(share.loc[other].mean()) for other in beside}


def main(backend: str = "sim", seeds: str = "3", rates: str = "12,100", *rules: str) -> None:
    """Prints a table per link; a line follows as its runs end."""
    names = rules or [str(rule["name"]) for rule in anabranch.rules()]
    for rate_mbps in map(int, rates.split(",")):
        for bdps in (1, 4):
            print(f"\n{rate_mbps} Mbps, {bdps} BDP, {backend}:\n")
            print("| rule |" + "".join(f" beside {other} |" for other in BESIDE[backend]))
            print("|---|" + "--:|" * len(BESIDE[backend]))
            for rule in names:
                cells = shares(backend, int(seeds), rule, rate_mbps, bdps).values()
                shown = [f"**{of:.2f}**" if of < STARVED else f"{of:.2f}" for of in cells]
                print(f"| {rule} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
