"""A refutation in the numerical model of the theory: the violation, and a trajectory."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, product
from math import floor, log10
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from anabranch.theory.array import Array
from anabranch.theory.guarantees.conditions import (
    CONDITIONS,
    column_sums_of_inverse,
    numbers,
    phi_jacobian,
)
from anabranch.theory.guarantees.performance import RENO, gain
from anabranch.theory.guarantees.proofs.cases import ProvedRule
from anabranch.theory.guarantees.proofs.formula import value
from anabranch.theory.guarantees.proofs.symbol import ZERO, Atom, StatePath, Variables
from anabranch.theory.law import Law, States

# A solution of a formula as a state of rational numbers, as short as possible.


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


MOMENTS = (0.0, 1.0, 10.0, 100.0, 1000.0)
"""Times of a trajectory, in units of the slowest mode's first guess: an increase at phi."""

MOST_STEPS = 20_000
"""Evaluations of the drift for one trajectory."""

NEAR = Fraction(1, 10**9)
"""Relative distance at which a jump is seen."""

STEP = 1e-6
"""Relative step of the derivatives of a rule in Python."""


@dataclass(frozen=True)
class Trajectory:
    """`dx_r/dt = k_r (phi_r - q_r)` at fixed prices q, from a start."""

    says: str
    price: list[float]
    time_s: list[float]
    rate: list[list[float]]
    """Rates of the paths at each time, packets/s."""

    def as_dict(self) -> dict[str, Any]:
        return self.__dict__


@dataclass(frozen=True)
class Confirmation:
    """Whether the numerical model sees the violation, too."""

    seen: bool
    words: str
    trajectory: Trajectory | None = None

    def as_dict(self) -> dict[str, Any]:
        trajectory = self.trajectory.as_dict() if self.trajectory else None
        return {"seen": self.seen, "words": self.words, "trajectory": trajectory}


class WrittenLaw(Law):
    """A rule written in Python as a law; its derivatives are central differences."""

    def __init__(self, rule: ProvedRule) -> None:
        self.name, self.delay_based, self._rule = rule.name, False, rule

    def evaluate(self, states: States) -> tuple[Array, Array]:
        increase, decrease = [], []
        for first, last in zip(states.starts, states.starts[1:], strict=False):
            user = slice(int(first), int(last))
            columns = [states.window, states.rtt, states.queue_delay]
            columns += [states.loss_interval, states.base_rtt]
            rows = zip(*(column[user].tolist() for column in columns), strict=True)
            for one in self._rule.evaluate([StatePath(*row) for row in rows]):
                # A power of a negative number is complex.
                pair = [np.nan if isinstance(number, complex) else float(number) for number in one]
                increase.append(pair[0])
                decrease.append(pair[1])
        return np.array(increase), np.array(decrease)

    def _block_values(self, states: States, wrt: str) -> tuple[Array, Array]:
        sizes = np.diff(states.starts)
        found = [np.zeros(int((sizes**2).sum())) for _ in range(2)]
        place = 0
        for first, size in zip(states.starts[:-1], sizes, strict=True):
            user = slice(int(first), int(first + size))
            for k in range(int(size)):
                ends = []
                for sign in (1, -1):
                    column = getattr(states, wrt).copy()
                    column[first + k] *= 1 + sign * STEP
                    ends.append(self.evaluate(replace(states, **{wrt: column})))
                width = 2 * STEP * getattr(states, wrt)[first + k]
                for matrix, high, low in zip(found, *ends, strict=True):
                    matrix[place + k : place + size**2 : size] = (high[user] - low[user]) / width
            place += int(size) ** 2
        return found[0], found[1]


def confirmed(rule: ProvedRule, requirement: str, state: State, jump: bool = False) -> Confirmation:
    """The requirement at this state in floating point; of a jump, in fractions next to it."""
    try:
        if jump:
            words = _jump(rule, state)
            return Confirmation(bool(words), words or "not seen next to the state")
        with np.errstate(all="ignore"):  # phi may be infinite there
            return _confirmed(rule, requirement, state)
    except ZeroDivisionError:
        return Confirmation(True, "the rule divides by 0 there, or its decrease is 0")
    except np.linalg.LinAlgError:
        return Confirmation(False, "there are no derivatives in floating point")


def _confirmed(rule: ProvedRule, requirement: str, state: State) -> Confirmation:
    law = WrittenLaw(rule) if rule.written is not None else Law(rule.name)
    states = state.states()
    if requirement not in CONDITIONS:
        return GOALS[requirement](law, states)
    trajectory = TRAJECTORIES[requirement](law, states) if requirement in TRAJECTORIES else None
    for test in CONDITIONS[requirement][1]:
        if requirement == "C1" and test is not CONDITIONS["C1"][1][0]:
            break
        if test.violation(law, states)[0] > 0:
            return Confirmation(True, test.why(law, states), trajectory)
    return Confirmation(False, "not seen in floating point")


def _jump(rule: ProvedRule, state: State) -> str:
    """How phi jumps within a relative distance of 1e-9 of the state, if it does."""
    spread = [[phi] for phi in _phi(rule, state, state.rate)]
    for steps in product((-1, 0, 1), repeat=len(state.rate)):
        rate = [x * (1 + step * NEAR) for x, step in zip(state.rate, steps, strict=True)]
        for values, phi in zip(spread, _phi(rule, state, rate), strict=True):
            values.append(phi)
    r = max(range(len(spread)), key=lambda r: max(spread[r]) - min(spread[r]))
    low, high = min(spread[r]), max(spread[r])
    if high - low < 1e-3 * max(abs(low), abs(high)):
        return ""
    return f"phi_{r + 1} jumps from {float(low):.4g} to {float(high):.4g}"


def _phi(rule: ProvedRule, state: State, rate: Sequence[Fraction]) -> list[Fraction]:
    columns = zip(rate, state.rtt, state.queue_delay, state.loss_interval, strict=True)
    paths = [
        StatePath(x * rtt, rtt, delay, interval, rtt - delay) for x, rtt, delay, interval in columns
    ]
    return [Fraction(i) / Fraction(d) for i, d in rule.evaluate(paths)]


class _Chatters(Exception):
    """The integration needs more than `MOST_STEPS`, as where phi jumps."""


def trajectory(
    law: Law, says: str, start: States, price: Array, horizon: float
) -> Trajectory | None:
    """The rates from a start, at fixed prices, at times up to `horizon` s; None where it fails."""
    calls = 0

    def drift(_: float, log_rate: Array) -> Array:
        nonlocal calls
        calls += 1
        if calls > MOST_STEPS:
            raise _Chatters
        states = start.with_rate(np.exp(log_rate))
        return np.asarray(gain(law, states) * (law.phi(states) - price) / states.rate)

    if not np.isfinite(start.rate).all():
        return None
    times = np.array(MOMENTS) / MOMENTS[-1] * horizon
    span = (0, horizon)
    try:
        # A rate may tend to 0, and where phi jumps steps fail.
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = solve_ivp(
                drift, span, np.log(start.rate), "LSODA", times, rtol=1e-8, atol=1e-10
            )
    except _Chatters:
        return None
    rates = np.exp(found.y.T)
    if not found.success or not np.isfinite(rates).all():
        return None
    return Trajectory(says, price.tolist(), found.t.tolist(), rates.tolist())


def _horizon(law: Law, states: States) -> float:
    """A time in which windows settle: a thousand times the time of one loss."""
    return float(1000 / (states.rate * law.phi(states)).min())


def _unstable(law: Law, states: States) -> Trajectory | None:
    """From next to the state, at the prices that make it stationary, in the rising direction."""
    jacobian = phi_jacobian(law, states)[0]
    scale = states.rate
    symmetric = scale[:, None] * (jacobian + jacobian.T) / 2 * scale
    direction = np.linalg.eigh(symmetric)[1][:, -1]
    start = states.with_rate(scale * (1 + 0.01 * direction))
    price = law.phi(states)
    says = f"at the prices that make rates {numbers(scale)} stationary, from {numbers(start.rate)}"
    return trajectory(law, says, start, price, _horizon(law, states))


def _total_rises(law: Law, states: States) -> Trajectory | None:
    """The total rate after the price of one path has risen by a tenth."""
    sums, _ = column_sums_of_inverse(phi_jacobian(law, states))
    k = int(sums[0].argmax())
    price = law.phi(states)
    price[k] *= 1.1
    says = (
        f"stationary at a total of {states.rate.sum():.6g} packets/s; after the price of path "
        f"{k + 1} has risen by a tenth"
    )
    return trajectory(law, says, states, price, _horizon(law, states))


TRAJECTORIES: Mapping[str, Callable[[Law, States], Trajectory | None]] = {
    "C2": _unstable,
    "C4": _total_rises,
}
"""Where a violation shows in time."""


def _increase(law: Law, states: States) -> Confirmation:
    own, reno = law.evaluate(states)[0], RENO.evaluate(states)[0]
    words = f"I = {numbers(own)} beside 1/w = {numbers(reno)}"
    return Confirmation(bool((own > reno).any()), words)


def _one_tcp(price: Array, states: States) -> Array:
    """The rate of one TCP on each path at these prices."""
    alone = replace(states, starts=np.arange(len(price) + 1), window=np.ones_like(price))
    # NewReno's phi is inversely proportional to the square of its window.
    return np.asarray(np.sqrt(RENO.phi(alone) / price) / states.rtt)


def _below_best(law: Law, states: States) -> Confirmation:
    price = law.phi(states)
    tcp, total = _one_tcp(price, states), float(states.rate.sum())
    words = (
        f"at loss probabilities {numbers(price)} the paths have {total:.4g} packets/s in total, "
        f"one TCP on each {numbers(tcp)}"
    )
    return Confirmation(bool(total < tcp.max() * (1 - 1e-9)), words, _stays(law, states))


def _above_one(law: Law, states: States) -> Confirmation:
    price = law.phi(states)
    tcp = _one_tcp(price, states)
    words = (
        f"at loss probabilities {numbers(price)} the paths have {numbers(states.rate)} packets/s, "
        f"one TCP on each {numbers(tcp)}"
    )
    paths = range(len(price))
    subsets = [list(some) for n in paths for some in combinations(paths, n + 1)]
    best = max(states.rate[subset].sum() / tcp[subset].max() for subset in subsets)
    return Confirmation(bool(best > 1 + 1e-9), words, _stays(law, states))


def _stays(law: Law, states: States) -> Trajectory | None:
    """From a tenth above, at the prices that make the state stationary."""
    start = states.with_rate(1.1 * states.rate)
    says = f"from rates {numbers(start.rate)} at these prices"
    return trajectory(law, says, start, law.phi(states), _horizon(law, states))


GOALS: Mapping[str, Callable[[Law, States], Confirmation]] = {
    "1/w": _increase,
    "best": _below_best,
    "harm": _above_one,
}
"""Requirements of RFC 6356."""
