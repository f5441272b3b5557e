"""Synthetic traces of links, from a seed: nothing in them is measured or from a data set.

Each has what one kind of link does to a transport, with round numbers, so that a result can be
explained. They are no models of a product, and no substitute for a recording.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from anabranch.conversion.traces import OPPORTUNITY_BITS, LinkTrace, to_csv

WIFI_STEP_S = 0.2
WIFI_RATES = ((25, 65.0), (22, 58.5), (20, 52.0), (17, 39.0), (13, 26.0), (11, 19.5), (8, 13.0))
"""Rates of IEEE 802.11n, Mbps (one stream, 20 MHz, guard interval 800 ns), each with the SNR, dB,
from which it is taken here; the standard leaves that to the radio."""
WIFI_LOWEST_MBPS = 6.5
WIFI_EFFICIENCY = 0.65
"""Payload of the rate: the rest is preambles, acknowledgements and back-off."""

LEO_SLOT_S = 15
"""For how long a terminal keeps its satellite: Starlink's scheduler assigns them for 15 s (Tanveer
et al., Making Sense of Constellations, CoNEXT Companion 2023)."""
LEO_HANDOVER_S = 0.2


@dataclass(frozen=True)
class Kind:
    """A kind of link; `text` makes a trace file of a seed and a duration in s."""

    meaning: str
    duration_s: float
    """Duration of the file in examples/."""
    text: Callable[[Random, float], str]


def _lte(_random: Random, duration_s: float) -> str:
    """Opportunities at 12 + 9 sin(pi t) Mbps, t in s, in whole ms; no chance in it."""
    lines: list[int] = []
    waiting = 0.0
    for ms in range(1, round(duration_s * 1e3) + 1):
        kbit = 12 + 9 * math.sin(2 * math.pi * (ms - 0.5) / 2000)
        waiting += kbit * 1e3 / OPPORTUNITY_BITS
        while waiting >= 1 - 1e-9:
            lines.append(ms)
            waiting -= 1
    return "".join(f"{ms}\n" for ms in lines)


def _wifi(random: Random, duration_s: float) -> str:
    """Fading that changes the rate, and a neighbour that takes half of the air at times.

    The SNR is 19 dB with a standard deviation of 5 dB and a correlation time of 2 s; below 8 dB one
    packet in fifty is lost in spite of retransmissions. The neighbour is silent for 4 s and sends
    for 2 s in the mean; beside it packets wait 4 ms longer.
    """
    snr_db, neighbour = 19.0, False
    kept = math.exp(-WIFI_STEP_S / 2)
    rows = []
    for i in range(round(duration_s / WIFI_STEP_S)):
        rate = next((mbps for least, mbps in WIFI_RATES if snr_db >= least), WIFI_LOWEST_MBPS)
        share = 0.5 if neighbour else 1.0
        loss = 0.02 if snr_db < WIFI_RATES[-1][0] else 0.0
        delay_ms = 5.0 if neighbour else 1.0
        rows.append((i * WIFI_STEP_S, rate * WIFI_EFFICIENCY * share, delay_ms, loss))
        snr_db = 19 + kept * (snr_db - 19) + math.sqrt(1 - kept**2) * random.gauss(0, 5)
        if random.random() < WIFI_STEP_S / (2 if neighbour else 4):
            neighbour = not neighbour
    return _csv(rows)


def _leo(random: Random, duration_s: float) -> str:
    """A satellite for 15 s each, with its own rate and delay, and 0.2 s without one in between.

    In a slot the rate is 40 to 200 Mbps and 15 % more or less each second; the delay beyond the
    link's is 2 to 20 ms and drifts by up to 0.3 ms per second. In a handover nothing leaves, and in
    the 0.2 s after it one packet in fifty is lost.
    """
    rows: list[tuple[float, float, float, float]] = []
    for slot in range(math.ceil(duration_s / LEO_SLOT_S)):
        mean_mbps, delay_ms = random.uniform(40, 200), random.uniform(2, 20)
        drift_ms = random.uniform(-0.3, 0.3)
        start = float(slot * LEO_SLOT_S)
        if slot:
            rows.append((start, 0.0, rows[-1][2], 0.0))
        for second in range(min(LEO_SLOT_S, math.ceil(duration_s - start))):
            mbps = mean_mbps * random.uniform(0.85, 1.15)
            delay = max(0.0, delay_ms + drift_ms * second)
            first = start + second
            if slot and second == 0:
                rows.append((first + LEO_HANDOVER_S, mbps, delay, 0.02))
                first += 2 * LEO_HANDOVER_S
            rows.append((first, mbps, delay, 0.0))
    return _csv(rows)


def _csv(rows: list[tuple[float, float, float, float]]) -> str:
    """Rounded, so that the last bit of a logarithm on another machine does not matter."""
    times, *columns = ([round(value, 3) for value in column] for column in zip(*rows, strict=True))
    named = zip(("rate_mbps", "delay_ms", "loss"), map(tuple, columns), strict=True)
    return to_csv(LinkTrace(tuple(times), dict(named)))


KINDS = {
    "lte": Kind("rate: 3 to 21 Mbps in a sine of 2 s; without chance; mahimahi's format", 2, _lte),
    "wifi": Kind("rate, delay, loss: fading, and a neighbour on the same channel", 120, _wifi),
    "leo": Kind("rate, delay, loss: a satellite for 15 s each, handovers of 0.2 s", 120, _leo),
}
"""What `anabranch trace make` makes, by name."""


def made(kind: str, seed: int = 1, duration_s: float | None = None) -> str:
    """The text of a trace file; the same seed and duration give the same bytes."""
    return KINDS[kind].text(Random(seed), duration_s or KINDS[kind].duration_s)
