"""Traces described in a few numbers: those that studies and the judge name, and synthetic links.

A line of mahimahi's format is an opportunity to deliver 1500 bytes, its time in ms; the trace
repeats after its last line (Netravali et al., "Mahimahi", USENIX ATC 2015, section 2.2). The CSV
does not repeat (docs/reference/traces.md).

In the synthetic links of `KINDS` nothing is measured or from a data set. Each has what one kind of
link does to a transport, with round numbers, so that a result can be explained. They are no models
of a product, and no substitute for a recording.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Annotated, ClassVar

import numpy as np

from anabranch.conversion.traces import OPPORTUNITY_BITS, LinkTrace, to_csv
from anabranch.typed_toml import Placed, Tag, Where


def walked(level: float, correlation: float, noise: float) -> float:
    """The next value of a random walk that returns to 0: AR(1) with the variance of the noise."""
    return correlation * level + math.sqrt(1 - correlation**2) * noise


@dataclass(frozen=True)
class Steps(Placed):
    """Rates one after the other."""

    kind: ClassVar = "steps"
    rates: tuple[tuple[float, float], ...]
    """Pairs of a duration, s, and a rate, Mbps."""

    def validate(self, where: Where) -> None:
        """Test that it delivers something, and that no duration or rate is negative."""
        if any(seconds <= 0 or rate < 0 for seconds, rate in self.rates):
            raise where.at("rates").error("expected durations above 0 and rates of 0 or more")
        if not any(rate > 0 for _, rate in self.rates):
            raise where.at("rates").error("expected a rate above 0")

    def steps(self) -> list[tuple[float, float]]:
        """Pairs of a duration, s, and a rate, Mbps."""
        return list(self.rates)


@dataclass(frozen=True)
class Walk(Placed):
    """A log-normal random walk that returns to its median (AR(1) of the logarithm)."""

    kind: ClassVar = "walk"
    seed: int
    step_s: float
    """The time between two changes of the rate, s."""
    steps_: int
    """The number of rates."""
    median_mbps: float
    sigma: float
    """Standard deviation of the natural logarithm of the rate."""
    correlation: float
    """Correlation of the logarithms of two successive rates."""
    outages: tuple[tuple[float, float], ...] = ()
    """Intervals without capacity, from and to, s."""

    def validate(self, where: Where) -> None:
        """Test the ranges."""
        for name in ("step_s", "steps_", "median_mbps"):
            if getattr(self, name) <= 0:
                raise where.at(name.rstrip("_")).error("expected a number above 0")
        if not 0 <= self.correlation < 1:
            raise where.at("correlation").error("expected 0 or more and less than 1")

    def steps(self) -> list[tuple[float, float]]:
        """Pairs of a duration, s, and a rate, Mbps."""
        noise = np.random.default_rng(self.seed).standard_normal(self.steps_)
        level, rates = float(noise[0]), []
        for number, draw in enumerate(noise):
            level = walked(level, self.correlation, draw) if number else level
            middle_s = (number + 0.5) * self.step_s
            out = any(from_s <= middle_s < to_s for from_s, to_s in self.outages)
            rates.append(0.0 if out else float(self.median_mbps * np.exp(self.sigma * level)))
        return [(self.step_s, rate) for rate in rates]


@dataclass(frozen=True)
class Delays(Placed):
    """Delays one after the other, added to the link's; the last one stays."""

    kind: ClassVar = "delays"
    delays_ms: tuple[tuple[float, float], ...]
    """Pairs of a duration, s, and a delay, ms."""

    def validate(self, where: Where) -> None:
        """Test that there is a delay, and that no duration or delay is negative."""
        if not self.delays_ms or any(s <= 0 or ms < 0 for s, ms in self.delays_ms):
            raise where.at("delays_ms").error("expected durations above 0 and delays of 0 or more")


Trace = Annotated[Steps | Walk, Tag("kind")]
"""A trace of rates."""


def csv(trace: Delays) -> bytes:
    """The file of a trace of delays, with a line for each."""
    seconds, delays = zip(*trace.delays_ms, strict=True)
    starts = itertools.accumulate(seconds[:-1], initial=0.0)
    return to_csv(LinkTrace(tuple(starts), {"delay_ms": delays})).encode()


def mahimahi(trace: Steps | Walk) -> bytes:
    """The file of a trace, as long as its steps.

    An opportunity that would come after the end is at the end, which is when the trace repeats.
    """
    times = list(_opportunities_ms(trace.steps()))
    end_ms = round(1e3 * sum(seconds for seconds, _ in trace.steps()))
    return "".join(f"{ms}\n" for ms in [*times, end_ms]).encode()


def _opportunities_ms(steps: list[tuple[float, float]]) -> Iterator[int]:
    """Times of opportunities: each when the capacity since the last one suffices for a packet."""
    start_s, waiting = 0.0, 0.0
    for seconds, rate in steps:
        packets = rate * 1e6 * seconds / OPPORTUNITY_BITS
        for number in range(int(waiting + packets)):
            yield int(1e3 * (start_s + (number + 1 - waiting) / packets * seconds))
        waiting = (waiting + packets) % 1
        start_s += seconds


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
    fading_db, neighbour = 0.0, False
    kept = math.exp(-WIFI_STEP_S / 2)
    rows = []
    for i in range(round(duration_s / WIFI_STEP_S)):
        snr_db = 19 + fading_db
        rate = next((mbps for least, mbps in WIFI_RATES if snr_db >= least), WIFI_LOWEST_MBPS)
        share = 0.5 if neighbour else 1.0
        loss = 0.02 if snr_db < WIFI_RATES[-1][0] else 0.0
        delay_ms = 5.0 if neighbour else 1.0
        rows.append((i * WIFI_STEP_S, rate * WIFI_EFFICIENCY * share, delay_ms, loss))
        fading_db = walked(fading_db, kept, random.gauss(0, 5))
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
"""Kinds of links that `anabranch trace make` knows, by name."""


def made(kind: str, seed: int = 1, duration_s: float | None = None) -> str:
    """The text of a trace file; the same seed and duration give the same bytes."""
    return KINDS[kind].text(Random(seed), duration_s or KINDS[kind].duration_s)
