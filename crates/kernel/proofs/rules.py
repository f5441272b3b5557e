"""Bounds the increase and decrease of every rule in the kernel, for all states of its paths.

    python crates/kernel/proofs/rules.py              # every rule with an increase per packet
    python crates/kernel/proofs/rules.py --only lia   # one of them
    python crates/kernel/proofs/rules.py --paths 3    # of a connection with three paths

Evaluates the Rust rule in intervals that hold the results of soft floats, in every case of its
comparisons. Exit code 1 if a divisor may be 0 or a result may be saturated.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from anabranch import _core
from intervals import Case, DivisionByZero, Infeasible, Interval, OutOfRange

KERNEL = Path(__file__).parent.parent / "bpf" / "rules"
MOST_CASES = 20_000

MAX_WINDOW = 2.0**24
LONGEST_S = 2.0**32 / 8e6
"""srtt_us is a word of 32 bits, in eighths of a microsecond, and not 0."""

Bounds = tuple[float, float]

FIELDS: dict[str, list[Bounds]] = {
    "window": [(1.0, MAX_WINDOW)],
    "rtt": [(1 / 8e6, LONGEST_S)],
    "base_rtt": [(1e-6, LONGEST_S)],
    "round_rtt": [(1e-6, LONGEST_S)],
    "queue_delay": [(0.0, 1e-5), (1e-5, LONGEST_S)],
    "since_loss": [(0.0, 2.0**32)],
    "between_losses": [(0.0, 2.0**32)],
    "loss_interval": [(0.0, 0.0), (0.5, 2.0**32)],
}
"""What the kernel's programs put into each field of a path. Where there are several ranges, each is
evaluated by itself: the rules distinguish them."""


@dataclass
class Found:
    """Bounds of one rule over all states of connections of one size."""

    rule: str
    paths: int
    increase: Bounds = (float("inf"), float("-inf"))
    decrease: Bounds = (float("inf"), float("-inf"))
    cases: int = 0
    failure: str = ""

    def note(self, increase: Interval, decrease: Interval) -> None:
        """Enclose these results, too."""
        self.increase = _hull(self.increase, increase)
        self.decrease = _hull(self.decrease, decrease)


def _hull(bounds: Bounds, found: Interval) -> Bounds:
    return min(bounds[0], found.low), max(bounds[1], found.high)


@dataclass(frozen=True)
class State:
    """The fields of one path, in intervals; those of CUBIC are 0."""

    window: Interval
    rtt: Interval
    base_rtt: Interval
    round_rtt: Interval
    queue_delay: Interval
    since_loss: Interval
    between_losses: Interval
    loss_interval: Interval
    peak: float = 0
    prior_peak: float = 0
    epoch_window: float = 0
    age: float = 0
    rounds: float = 0


def names() -> list[str]:
    """Rules of the kernel's programs that have an increase per packet."""
    headers = {file.stem.replace("_", "-") for file in KERNEL.glob("*.h")}
    return [
        rule["name"]
        for rule in _core.rules()
        if rule["name"] in headers and not _core.Law(rule["name"]).delay_based
    ]


def bounds(rule: str, paths: int) -> Found:
    """Bounds over all states of this number of paths."""
    law, found = _core.Law(rule), Found(rule, paths)
    try:
        for ranges in product(*FIELDS.values()):
            box = dict(zip(FIELDS, ranges, strict=True))
            for case in _cases(law, paths, box, found):
                found.cases += case
    except (DivisionByZero, OutOfRange, OverflowError) as error:
        found.failure = f"{type(error).__name__}: {error}"
    return found


def _cases(law: _core.Law, paths: int, box: Mapping[str, Bounds], found: Found) -> Iterator[int]:
    """Evaluate the rule in each case of its comparisons."""
    waiting: list[list[bool]] = [[]]
    while waiting:
        answers = waiting.pop()
        case = Case(answers)
        states = [
            State(
                *(Interval(*box[name], f"{name}{r}", case) for name in FIELDS),
            )
            for r in range(paths)
        ]
        try:
            pairs = law.evaluate_in(states)
        except Infeasible:
            pairs = []
        for pair in pairs:
            found.note(*(Interval.of(number, case) for number in pair))
        for number in range(len(answers), len(case.asked)):
            waiting.append([*answers, *[True] * (number - len(answers)), False])
        if found.cases > MOST_CASES:
            raise OverflowError(f"more than {MOST_CASES} cases")
        yield 1


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=names(), help="this rule; repeatable")
    parser.add_argument("--paths", type=int, default=2, help="paths of the connection")
    arguments = parser.parse_args()
    failed = False
    for name in arguments.only or names():
        found = bounds(name, arguments.paths)
        failed = failed or bool(found.failure)
        text = found.failure or "I in {:.3g} to {:.3g}, D in {:.3g} to {:.3g}".format(
            *found.increase, *found.decrease
        )
        print(f"{name:12} {found.paths} paths, {found.cases} cases: {text}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
