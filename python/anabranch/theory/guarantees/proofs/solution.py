"""A solution of a formula as a state of rational numbers, as short as possible."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor, log10
from typing import Any

from anabranch.theory.guarantees.proofs.formula import value
from anabranch.theory.guarantees.proofs.symbol import ZERO, Atom, Variables
from anabranch.theory.law import States

DIGITS = (1, 2, 3, 6, 12)
"""Significant digits that are tried."""

UNITS = ((100, Fraction(1, 10)), (1, Fraction(1)))
"""Factors of rates and times that are tried, the first for windows and RTTs as they occur."""


@dataclass(frozen=True)
class State:
    """The paths of one user, in packets and seconds, exactly."""

    rate: Sequence[Fraction]
    rtt: Sequence[Fraction]
    queue_delay: Sequence[Fraction]
    loss_interval: Sequence[Fraction]

    @property
    def window(self) -> list[Fraction]:
        return [x * t for x, t in zip(self.rate, self.rtt, strict=True)]

    @property
    def at(self) -> dict[str, Fraction]:
        """The numbers of `Variables`, by name; "t" is the RTT of all paths where it is one."""
        groups = (("x", self.rate), ("t", self.rtt), ("q", self.queue_delay))
        named = {
            f"{letter}{r}": number
            for letter, numbers in (*groups, ("l", self.loss_interval))
            for r, number in enumerate(numbers, start=1)
        }
        return {**named, "t": self.rtt[0]}

    def states(self) -> States:
        """In floating point."""
        window, rtt, delay = (
            list(map(float, c)) for c in (self.window, self.rtt, self.queue_delay)
        )
        return States.of_user(
            window, rtt, delay, [1 / float(packets) for packets in self.loss_interval]
        )

    def __str__(self) -> str:
        """Rates, RTTs and, where they matter, queueing delays and losses."""
        words = [f"rates {_listed(self.rate)} packets/s", f"RTTs {_listed(self.rtt)} s"]
        if any(self.queue_delay):
            words.append(f"queueing delays {_listed(self.queue_delay)} s")
        if any(interval != 100 for interval in self.loss_interval):
            words.append(f"{_listed(self.loss_interval)} packets between losses")
        return ", ".join(words)

    def as_dict(self) -> dict[str, Any]:
        columns = {
            "rate": self.rate,
            "rtt": self.rtt,
            "window": self.window,
            "queue_delay": self.queue_delay,
            "loss_interval": self.loss_interval,
        }
        return {name: [str(number) for number in column] for name, column in columns.items()}


def _listed(numbers: Sequence[Fraction]) -> str:
    return f"[{', '.join(map(str, numbers))}]"


def state_at(
    variables: Variables,
    atoms: Sequence[Atom],
    solution: Mapping[str, Fraction | int],
    unitless: bool = False,
) -> State | None:
    """The state, in numbers as short as possible that solve the formula exactly.

    `unitless`: the formula does not change if all rates are multiplied by a number, or all times.
    """
    for units in UNITS[1:] if unitless else UNITS:
        for near in _rounded(_in(variables, solution, *units)):
            at = _with_roots(variables, atoms, near)
            if all(number > 0 for number in at.values()) and _solves(variables, atoms, at):
                return _state(variables, _in(variables, at, *UNITS[0]) if unitless else at)
    return None


def _state(variables: Variables, at: Mapping[str, Fraction]) -> State:
    """With empty queues and 100 packets between losses where the formula leaves them open."""
    # Beside others a number of packets that is missing was the unit, 1.
    packets = any(str(interval) in at for interval in variables.loss_interval)
    rests = (Fraction(1), Fraction(1), Fraction(0), Fraction(1 if packets else 100))
    groups = (variables.rate, variables.rtt, variables.queue_delay, variables.loss_interval)
    return State(
        *([at.get(str(v), rest) for v in group] for group, rest in zip(groups, rests, strict=True))
    )


def _in(
    variables: Variables, solution: Mapping[str, Fraction | int], rate: int, time: Fraction
) -> dict[str, Fraction]:
    """The solution with all rates and times multiplied; a rate or RTT that it leaves open was 1."""
    factors = {str(x): Fraction(rate) for x in variables.rate}
    factors |= {str(t): time for t in variables.rtt}
    whole = dict.fromkeys(factors, Fraction(1)) | {n: Fraction(v) for n, v in solution.items()}
    factors |= {str(q): time for q in variables.queue_delay}
    return {name: number * factors.get(name, Fraction(1)) for name, number in whole.items()}


def _rounded(solution: Mapping[str, Fraction | int]) -> Iterator[dict[str, Fraction]]:
    for digits in DIGITS:
        yield {name: _short(Fraction(number), digits) for name, number in solution.items()}
    yield {name: Fraction(number) for name, number in solution.items()}


def _short(number: Fraction, digits: int) -> Fraction:
    if number <= 0:
        return number
    unit = Fraction(10) ** (floor(log10(number)) - digits + 1)
    return round(number / unit) * unit


def _with_roots(
    variables: Variables, atoms: Sequence[Atom], at: dict[str, Fraction]
) -> dict[str, Fraction]:
    """With each root next to the one of its rounded radicand."""
    for root in variables.roots:
        name, generator = str(root), root.numer
        for one in atoms:
            if one.relation == ZERO and one.polynomial.degree(generator) == 2:
                constant = value(one.polynomial, {**at, name: Fraction(0)})
                leading = value(one.polynomial, {**at, name: Fraction(1)}) - constant
                if -constant / leading > 0:
                    at[name] = Fraction(float(-constant / leading) ** 0.5)
    return at


def _solves(variables: Variables, atoms: Sequence[Atom], at: Mapping[str, Fraction]) -> bool:
    """Exactly; where a root is irrational, its equation is left out and the rest needs a margin."""
    roots = {str(root) for root in variables.roots} & set(at)
    for one in atoms:
        number = value(one.polynomial, at)
        if roots and any(one.polynomial.degree(r.numer) > 0 for r in variables.roots):
            if one.relation == ZERO:
                continue
            scale = sum(abs(value(one.polynomial.ring.from_dict({p: c}), at))
                        for p, c in one.polynomial.items())  # fmt: skip
            if not (one.holds(number) and abs(number) > Fraction(1, 10**9) * scale):
                return False
        elif not one.holds(number):
            return False
    return True
