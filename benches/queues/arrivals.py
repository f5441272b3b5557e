"""Arrivals at a queue, what becomes of them, and `crates/model/net` as a queue for them."""

import random
import subprocess
from dataclasses import dataclass, field

import numpy as np

RATE_MBPS = 12.0
DURATION_S = 120.0
MTU = 1500


@dataclass
class Packet:
    at: float
    flow: int
    size: int
    capable: bool
    low_delay: bool = False
    marked: bool = False


@dataclass
class Fates:
    waits_ms: list[float] = field(default_factory=list)
    drops: int = 0
    marks: int = 0

    def row(self) -> list[float]:
        median, p95 = np.percentile(self.waits_ms, [50, 95])
        return [float(median), float(p95), float(self.drops), float(self.marks)]


def arrivals(capable: bool, duration_s: float = DURATION_S, seed: int = 7) -> list[Packet]:
    """Three flows at random that change their rates, together 60 to 140 % of the link's, and one
    that sends a small packet every 20 ms."""
    draw = random.Random(seed)
    packets = []
    for flow in range(3):
        time, change, mean = 0.0, 0.0, 0.0
        while time < duration_s:
            if time >= change:
                mean = draw.uniform(0.2, 0.47) * RATE_MBPS * 1e6
                change = time + draw.uniform(1.0, 4.0)
            packets.append(Packet(time, flow, MTU, capable, capable and flow < 2))
            time += draw.expovariate(mean / (8 * MTU))
    packets += [Packet(0.02 * i + 0.0003, 3, 200, capable) for i in range(int(duration_s / 0.02))]
    return sorted(packets, key=lambda packet: packet.at)


def by_link(name: str, offered: list[Packet], rate_mbps: float = RATE_MBPS) -> Fates:
    lines = (f"{it.at!r} {it.flow} {it.size} {it.capable + it.low_delay}\n" for it in offered)
    command = ["cargo", "run", "-q", "--release", "-p", "anabranch-net", "--example", "queue"]
    done = subprocess.run(
        [*command, "--", name, str(rate_mbps)],
        input="".join(lines),
        capture_output=True,
        text=True,
        check=True,
    )
    fates = Fates()
    for line in done.stdout.splitlines():
        _, _, fate, wait_ms = line.split()
        if fate == "dropped":
            fates.drops += 1
        else:
            fates.waits_ms.append(float(wait_ms))
            fates.marks += fate == "marked"
    return fates
