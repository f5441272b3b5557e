"""Figures from what receivers have recorded."""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

RECOVERED = 0.9
"""Share of the goodput before a failure at which the sum of the links is back."""
STEP_S = 0.1

Three = tuple[float, float, float]


class Series:
    """Bytes that each connection has received, from the output of load.py."""

    def __init__(self, file: Path) -> None:
        self.arrivals: dict[int, list[tuple[float, int]]] = defaultdict(list)
        self.ends: list[float] = []
        """When connections ended."""
        for line in file.read_text().splitlines():
            connection, *rest = line.split()
            if rest[0] == "end":
                self.ends.append(float(rest[1]))
            else:
                self.arrivals[int(connection)].append((float(rest[0]), int(rest[1])))

    def received(self, begin: float, end: float) -> int:
        """Bytes of all connections in a time."""
        return sum(
            size
            for arrivals in self.arrivals.values()
            for time, size in arrivals
            if begin <= time < end
        )

    def mbps(self, begin: float, end: float) -> float:
        """Goodput of all connections in a time."""
        return self.received(begin, end) * 8e-6 / (end - begin)

    def stalls_s(self, begin: float, end: float, connections: int) -> tuple[float, float]:
        """The longest time without a byte on any connection, and on the worst connection."""
        inside = [
            [time for time, _ in arrivals if begin <= time < end]
            for arrivals in self.arrivals.values()
        ]
        inside = [times for times in inside if times]
        # A connection without a byte in this time stalls all of it.
        inside += [[]] * (connections - len(inside))
        everything = [time for times in inside for time in times]
        worst = max(_longest_gap(times, begin, end) for times in inside)
        return _longest_gap(everything, begin, end), worst

    def ended_before(self, time: float) -> float:
        """How many connections ended before a time."""
        return sum(end < time for end in self.ends)

    def back_s(self, normal: float, begin: float, end: float) -> float | None:
        """The time from `begin` on until the goodput is that of normal times again, if it is.

        Each of the two following seconds must have it, so that data which waited at a receiver
        and is read at once does not count.
        """
        for step in range(math.ceil((end - begin - 2) / STEP_S)):
            at = begin + step * STEP_S
            if all(self.mbps(at + s, at + s + 1) >= RECOVERED * normal for s in (0, 1)):
                return at - begin
        return None


def _longest_gap(times: Iterable[float], begin: float, end: float) -> float:
    marks = [begin, *sorted(times), end]
    return max(later - earlier for earlier, later in itertools.pairwise(marks))


def three(values: Sequence[float]) -> Three:
    """Median, 95 % quantile (the smallest value that 95 % do not exceed) and maximum."""
    ranked = sorted(values)
    count = len(ranked)
    return ranked[math.ceil(count / 2) - 1], ranked[math.ceil(0.95 * count) - 1], ranked[-1]
