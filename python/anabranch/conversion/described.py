"""Traces described in a few numbers: rates in mahimahi's format, delays as CSV.

A line of mahimahi's is an opportunity to deliver 1500 bytes, its time in ms; the trace repeats
after its last line (Netravali et al., "Mahimahi", USENIX ATC 2015, section 2.2). The CSV does not
repeat (docs/reference/traces.md).
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np

from anabranch.conversion.traces import LinkTrace, to_csv
from anabranch.papers.entries.reader import Tag, Where

BITS = 12_000
"""What an opportunity delivers: 1500 bytes."""


@dataclass(frozen=True)
class Steps:
    """Rates one after the other."""

    kind: ClassVar = "steps"
    rates: tuple[tuple[float, float], ...]
    """Pairs of a duration, s, and a rate, Mbps."""
    where: Where = field(default=Where(), compare=False, repr=False)

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
class Walk:
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
    where: Where = field(default=Where(), compare=False, repr=False)

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
        level, rates = 0.0, []
        for number, draw in enumerate(noise):
            innovation = np.sqrt(1 - self.correlation**2) if number else 1.0
            level = self.correlation * level + innovation * draw
            middle_s = (number + 0.5) * self.step_s
            out = any(from_s <= middle_s < to_s for from_s, to_s in self.outages)
            rates.append(0.0 if out else float(self.median_mbps * np.exp(self.sigma * level)))
        return [(self.step_s, rate) for rate in rates]


@dataclass(frozen=True)
class Delays:
    """Delays one after the other, added to the link's; the last one stays."""

    kind: ClassVar = "delays"
    delays_ms: tuple[tuple[float, float], ...]
    """Pairs of a duration, s, and a delay, ms."""
    where: Where = field(default=Where(), compare=False, repr=False)

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


def rates_at(
    trace: Steps | Walk, times_s: "np.ndarray[tuple[int], np.dtype[np.float64]]"
) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """The rate at these times, Mbps; the trace repeats."""
    seconds, rates = (np.array(column) for column in zip(*trace.steps(), strict=True))
    ends = np.cumsum(seconds)
    place = np.searchsorted(ends, np.mod(times_s, ends[-1]), side="right")
    return np.asarray(rates[np.minimum(place, len(rates) - 1)])


def _opportunities_ms(steps: list[tuple[float, float]]) -> Iterator[int]:
    """Times of opportunities: each when the capacity since the last one suffices for a packet."""
    start_s, waiting = 0.0, 0.0
    for seconds, rate in steps:
        packets = rate * 1e6 * seconds / BITS
        for number in range(int(waiting + packets)):
            yield int(1e3 * (start_s + (number + 1 - waiting) / packets * seconds))
        waiting = (waiting + packets) % 1
        start_s += seconds
