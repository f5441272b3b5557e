"""The states of a connection that the kernel's programs can present to a rule.

`gather.h` fills the fields from words of the kernel, of which nothing is assumed but what it checks
itself. A sibling with another algorithm has a window and an RTT, and 0 in the other fields.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from bounds.monomial import Bounds
from bounds.number import UNIT, Case

WORD = 2.0**32 * (1 + UNIT)
MOST_PATHS = 8
"""MAX_PATHS of path.h."""

SHORTEST_RTT_S = 5e-3 * (1 - UNIT)
"""Below it delay is not taken for a queue (delay_based.h)."""

LOSS_BASED: dict[str, Bounds] = {
    "window": (1.0, WORD),  # snd_cwnd and a fraction
    "rtt": (1 / 8e6 * (1 - UNIT), WORD / 8e6),  # srtt_us, in eighths of a microsecond, not 0
    "base_rtt": (1e-6 * (1 - UNIT), WORD / 1e6),  # 2^32 - 1 before the first sample
    "round_rtt": (1e-6 * (1 - UNIT), WORD / 1e6),
    "queue_delay": (0.0, WORD / 8e6),
    "since_loss": (0.0, WORD),
    "between_losses": (0.0, WORD),
    "loss_interval": (0.0, WORD),
    "peak": (0.0, WORD),
    "prior_peak": (0.0, WORD),
    "epoch_window": (1.0, WORD),  # set before the first increase
    "age": (0.0, WORD / 1e6),
    "rounds": (0.0, WORD),  # 64 bits, in 2^-32
}
DELAY_BASED = LOSS_BASED | {
    "base_rtt": (SHORTEST_RTT_S, WORD / 1e6),
    "round_rtt": (SHORTEST_RTT_S, WORD / 1e6),
}
LEAST = {
    "since_loss": 1.0,
    "between_losses": 1.0,
    "loss_interval": 0.5,  # a mean of numbers of at least 1, rounded
    "peak": 1.0,
    "prior_peak": 1.0,
}
"""The smallest value of a field besides 0."""

MEMORY: dict[str, list[Bounds]] = {
    "alpha": [(0.0, 1.1e6)],
    "equilibrium_rate": [(0.0, WORD / SHORTEST_RTT_S * (1 + 4 * UNIT))],
    "queue_delay": [(0.0, 0.0), (1e-13, WORD / 1e6)],
}
"""wVegas' memory of a path, which `bounds` shows to remain within these: the rule tells 0, for
none, from others. alpha is at most the larger parameter, of which the largest value is 10^6."""


@dataclass(frozen=True)
class State:
    """The fields of one path, in numbers of a case."""

    window: Any
    rtt: Any
    base_rtt: Any
    round_rtt: Any
    queue_delay: Any
    since_loss: Any
    between_losses: Any
    loss_interval: Any
    peak: Any
    prior_peak: Any
    epoch_window: Any
    age: Any
    rounds: Any

    @property
    def rate(self) -> Any:
        """For rules in Python."""
        return self.window / self.rtt


@dataclass(frozen=True)
class Memory:
    """wVegas' memory of one path, in numbers of a case."""

    alpha: Any
    equilibrium_rate: Any
    queue_delay: Any


def states(case: Case, paths: int, fields: dict[str, Bounds]) -> list[State]:
    """The paths of a connection, the own one first."""
    return [
        State(
            *(
                case.input(f"{name}_{r}", low, high, LEAST.get(name, 0.0))
                for name, (low, high) in fields.items()
            )
        )
        for r in range(1, paths + 1)
    ]


def memories(case: Case, paths: int, own: dict[str, Bounds]) -> list[Memory]:
    """The memory of each path, the own one within these bounds."""
    found = []
    for r in range(1, paths + 1):
        ranges = own if r == 1 else {name: _hull(of) for name, of in MEMORY.items()}
        found.append(Memory(*(case.input(f"memory_{name}_{r}", *ranges[name]) for name in MEMORY)))
    return found


def memory_ranges() -> Iterator[dict[str, Bounds]]:
    """Each choice of one range for each field of the own memory."""
    for choice in product(*MEMORY.values()):
        yield dict(zip(MEMORY, choice, strict=True))


def _hull(ranges: list[Bounds]) -> Bounds:
    return min(low for low, _ in ranges), max(high for _, high in ranges)
