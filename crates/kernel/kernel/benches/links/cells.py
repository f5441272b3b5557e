"""The links of each cell, named or random, and an estimate of what a lossy path holds up."""

import random
import sys

from bed import Link

NAMED = {
    "a": [Link(25, 40), Link(10, 120, 0.008)],
    "h": [Link(45, 20, queue=200), Link(10, 60, 0.01, 200)],
    "p": [Link(20, 20), Link(20, 60, 0.01)],
    "c": [Link(30, 30, queue=30), Link(3, 200, queue=30)],
    "e": [Link(20, 20), Link(20, 60)],
    "q": [Link(60, 16, queue=150), Link(8, 90, 0.006, 60)],
    "v3l": [Link(30, 5), Link(30, 200, 0.005)],
    "v4l": [Link(20, 20), Link(1, 300, 0.01)],
    "sat": [Link(50, 25), Link(20, 600, 0.002)],
    "big": [Link(120, 10, queue=250), Link(20, 40, 0.01)],
    "t6": [Link(100, 1), Link(0.05, 400, queue=10)],
    "home": [Link(100, 12, queue=100), Link(15, 60, 0.008)],
    "w1": [Link(12, 30), Link(6, 100, 0.015)],
    "w2": [Link(16, 25), Link(4, 80, 0.003)],
    "w3": [Link(35, 12), Link(6, 60, 0.02)],
    "w4": [Link(30, 15, 0.007), Link(10, 40)],
    "v5": [Link(8, 20), Link(8, 60), Link(8, 150, 0.005)],
    "both": [Link(24, 24, 0.003), Link(24, 40, 0.003)],
    "pol": [Link(40, 20), Link(10, 50, policed_bytes=24000)],
    "far": [Link(20, 20), Link(20, 300)],
}
FRAGMENT_PACKETS = 32768 / 1428
PACKET_BITS = 12000


def _log_uniform(source: random.Random, least: float, most: float) -> float:
    return float(least * (most / least) ** source.random())


def cell(name: str) -> list[Link]:
    """The links of a named cell, or random ones, drawn with seed N: `rN` a clean path and one with
    loss, `sN` a clean path and a very slow one, `tN` those of `rN` and a third with loss.
    """
    if name in NAMED:
        return NAMED[name]
    kind, number = name[:1], name[1:]
    if kind not in "rst" or not number.isdecimal():
        sys.exit(f"links: no cell {name!r}: choose of {', '.join(NAMED)}, r1, s1, t1, r2, ...")
    source = random.Random(int(number))
    clean = Link(
        rate_mbps=round(_log_uniform(source, 8, 50), 1),
        rtt_ms=round(_log_uniform(source, 10, 100)),
        queue=source.choice((50, 100, 200)),
    )
    others = [
        Link(
            rate_mbps=round(_log_uniform(source, 3, 30), 1),
            rtt_ms=round(_log_uniform(source, 20, 250)),
            loss=round(_log_uniform(source, 0.002, 0.02), 4),
        )
        for _ in range(2 if kind == "t" else 1)
    ]
    if kind == "s":
        rate = round(_log_uniform(source, 0.05, 0.5), 2)
        others = [Link(rate, round(_log_uniform(source, 100, 600)), queue=10)]
    return [clean, *others]


def describe(links: list[Link]) -> str:
    """Rates, round-trip times and losses, as in "25 + 10 Mbps, 40 + 120 ms, 0 + 0.8%"."""
    rates, rtts, losses = (
        " + ".join(f"{value:g}" for value in values)
        for values in zip(*((x.rate_mbps, x.rtt_ms, x.loss * 100) for x in links), strict=True)
    )
    return f"{rates} Mbps, {rtts} ms, {losses}%, {links[0].queue} packets"


def held_mb(rate_mbps: float, window: float, rtt_ms: float) -> float:
    """Data of a path of this rate while one with this window and RTT sends a fragment, MB."""
    return rate_mbps / 8 * FRAGMENT_PACKETS / window * rtt_ms / 1e3


def held_up_mb(links: list[Link]) -> float:
    """Estimate of the data that the clean path could send while the lossy one sends a fragment, MB.

    LIA's window on the lossy path is 2 / (loss * window of the clean path), at least TCP's smallest
    threshold of 2: an increase of 1 / (sum of the windows) balances halving at each loss, where the
    clean path has nearly all of the sum. The clean path's window is a sawtooth from half of what
    path and queue hold. OLIA's window on the lossy path is the least, 2.
    """
    clean, lossy = links[:2]
    if not lossy.loss:
        return held_mb(clean.rate_mbps, 2, lossy.rtt_ms)
    full = clean.rate_mbps * 1e3 * clean.rtt_ms / PACKET_BITS + clean.queue
    window = max(2.0, 2 / (lossy.loss * 0.75 * full))
    return held_mb(clean.rate_mbps, window, lossy.rtt_ms)
