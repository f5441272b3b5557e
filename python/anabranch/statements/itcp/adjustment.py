"""The adjustment of the kappas of I-TCP connections: equations (11) and (12).

Every step of a kappa is taken by the rule itself (crates/model/control/src/itcp.rs), with a buffer
occupancy that allows an increase at any time. A connection's share of the bottleneck is
phi_i = kappa_i / sum kappa, its load rho_i; L' = (rho_i - phi_i) / phi_i is what (9) estimates.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.integrate import solve_ivp

from anabranch import _core
from anabranch.scenario import ScenarioError
from anabranch.theory.array import Array

SLIDE = 1e-3
"""Width in L' of the transition of (11) from decrease to increase, so that a solver can follow it
along phi = rho, where it would chatter."""


def check(loads: Sequence[float], epsilon: float, gamma: float, max_kappa: float) -> None:
    """Raise `ScenarioError` for loads that no shares exceed, or parameters out of range."""
    for number, load in enumerate(loads, 1):
        if not load > 0:
            raise ScenarioError(f"load {load:g} of connection {number}: expected more than 0")
    if len(loads) < 2 or not sum(loads) < 1:
        raise ScenarioError(
            f"{len(loads)} loads that add up to {sum(loads):g}: expected two or more that add up "
            "to less than 1, or no shares exceed them"
        )
    if not 0 < epsilon < 1:
        raise ScenarioError(f"epsilon {epsilon:g}: expected a number between 0 and 1")
    if not 0.001 <= gamma < 1:
        raise ScenarioError(f"gamma {gamma:g}: expected a number from 0.001 to below 1")
    if not 1 < max_kappa < np.inf:
        raise ScenarioError(f"max kappa {max_kappa:g}: expected a number above 1")


class Rule:
    """The project's rate adjustment for connections whose load is known."""

    def __init__(self, epsilon: float, gamma: float, max_kappa: float, guard: bool = False) -> None:
        self._core = _core.RateAdjustment(
            epsilon=epsilon,
            gamma=gamma,
            max_kappa=max_kappa,
            max_queue_packets=2.0,
            low_threshold=0.0,
            high_threshold=1.0,
            guard=guard,
        )

    def after(self, kappa: float, share: float, load: float) -> float:
        """kappa after a round with this share; a decrease counts as the second in a row."""
        return self._core.kappa_after(kappa, (load - share) / share, 1.0, load / share, 2)


@dataclass(frozen=True)
class Linear:
    """The linear system (12), d kappa / dt = A kappa per round."""

    loads: tuple[float, ...]
    epsilon: float
    eigenvalues: Array
    """Per round, the largest first."""
    shares: Array
    """The leading eigenvector, as shares: the limit of phi from any start."""

    @property
    def is_stable(self) -> bool:
        """Whether kappa tends to 0, which the paper calls stable."""
        return bool(self.eigenvalues[0] < 0)

    @property
    def gap(self) -> float:
        """The rate at which phi tends to `shares`, per round: the difference of the eigenvalues."""
        return float(self.eigenvalues[0] - self.eigenvalues[1])


def matrix(loads: Sequence[float], epsilon: float) -> Array:
    """A of (12): 0.5 (rho 1' + (epsilon - 1) I)."""
    rho = np.asarray(loads, dtype=float)
    return 0.5 * (np.outer(rho, np.ones_like(rho)) + (epsilon - 1) * np.eye(len(rho)))


def linear(loads: Sequence[float], epsilon: float) -> Linear:
    """Eigenvalues of (12) and its leading eigenvector."""
    values, vectors = np.linalg.eig(matrix(loads, epsilon))
    order = np.argsort(values.real)[::-1]
    leading = vectors[:, order[0]].real
    return Linear(tuple(loads), epsilon, values.real[order], leading / leading.sum())


@dataclass(frozen=True)
class Trajectory:
    """kappa over time, in rounds; a row per time."""

    rounds: Array
    kappa: Array

    @property
    def shares(self) -> Array:
        """phi over time."""
        return np.asarray(self.kappa / self.kappa.sum(axis=1, keepdims=True))


def flow(loads: Sequence[float], rule: Rule, start: Sequence[float], rounds: float) -> Trajectory:
    """Solve (11), with the rule's own bounds 1 <= kappa <= M: d kappa / dt is a round's change.

    For the rule as printed: the guard would be a second discontinuity.
    """
    rho = np.asarray(loads, dtype=float)

    def change(_: float, kappa: Array) -> list[float]:
        shares = kappa / kappa.sum()
        return [_slide(rule, *one) for one in zip(kappa, shares, rho, strict=True)]

    moments = np.linspace(0.0, rounds, 401)
    solved = solve_ivp(
        change, (0.0, rounds), list(start), method="LSODA", t_eval=moments, rtol=1e-6, atol=1e-8
    )
    if not solved.success:
        raise ArithmeticError(f"equation (11) was not integrated: {solved.message}")
    return Trajectory(solved.t, solved.y.T)


def _slide(rule: Rule, kappa: float, share: float, load: float) -> float:
    """The change in a round, interpolated between decrease and increase where share and load are
    nearly equal."""
    growth = (load - share) / share
    rising = float(np.clip(0.5 + growth / SLIDE, 0.0, 1.0))
    fall = rule.after(kappa, max(share, load * (1 + 1e-12)), load) - kappa
    rise = rule.after(kappa, min(share, load * (1 - 1e-12)), load) - kappa
    return rising * rise + (1 - rising) * fall


# Proposition 1 of the I-TCP paper over random starts: do all shares come to exceed the loads?
#
# Assumptions: (i) one connection adjusts at a time; (ii) those with phi < rho before those
# with phi > rho; (iii) none with rho < phi < rho + epsilon shrinks; (iv) none is brought to kappa
# = 1.


LIMIT = 5_000
"""Steps after which a run in random order counts as endless."""

MAX_KAPPA = 10.0
"""M of the paper's table I."""

Hold = Literal["band", "guard", "none"]
"""Guard against a decrease: assumption (iii), ours, none."""

Order = Literal["random", "nearest"]
"""Connection that adjusts first: a random one, or the one with its share nearest to its load."""

Epsilon = Literal["within", "between", "beyond"]
"""Below (1 - rho) / N, as the proposition requires; up to (1 - rho) / (N - 1); above that."""


@dataclass(frozen=True)
class Start:
    """The start of a run."""

    loads: tuple[float, ...]
    kappas: tuple[float, ...]
    epsilon: float
    gamma: float
    order_seed: int


@dataclass(frozen=True)
class End:
    """The end of a run."""

    outcome: Literal["reached", "stuck", "endless"]
    steps: int
    floored: bool
    """Whether a kappa fell to 1, against assumption (iv)."""
    kappas: tuple[float, ...]


@dataclass(frozen=True)
class Trial:
    """One set of assumptions over many starts."""

    name: str
    hold: Hold
    order: Order
    epsilon: Epsilon
    starts: int
    kept: int
    """Starts whose run kept assumption (iv)."""
    reached: int
    """Number of these starts from which all shares came to exceed the loads."""
    stuck: int
    endless: int
    worst_steps: int
    """Largest number of steps of the starts that reached it."""
    floored_reached: int
    """Number of the other starts, which broke (iv), that reached it."""
    counterexample: Start | None


TRIALS: dict[str, tuple[Hold, Order, Epsilon]] = {
    "as stated": ("band", "random", "within"),
    "as stated, nearest first": ("band", "nearest", "within"),
    "epsilon up to (1 - rho) / (N - 1)": ("band", "random", "between"),
    "epsilon above that": ("band", "random", "beyond"),
    "our guard for (iii)": ("guard", "random", "within"),
    "our guard for (iii), nearest first": ("guard", "nearest", "within"),
    "without (iii)": ("none", "random", "within"),
    "without (iii), nearest first": ("none", "nearest", "within"),
}


def random_start(dice: np.random.Generator, epsilon: Epsilon) -> Start:
    """Two to six connections whose loads add up to 0.2 to 0.95."""
    n = int(dice.integers(2, 7))
    total = dice.uniform(0.2, 0.95)
    loads = tuple(float(load) for load in total * dice.dirichlet(np.full(n, 2.0)))
    low, high = {
        "within": (0.0, (1 - total) / n),
        "between": ((1 - total) / n, (1 - total) / (n - 1)),
        "beyond": ((1 - total) / (n - 1), 2 * (1 - total) / (n - 1)),
    }[epsilon]
    kappas = tuple(float(kappa) for kappa in dice.uniform(1.0, MAX_KAPPA, n))
    seed = int(dice.integers(2**31))
    # At least a hundredth of the range, and below 1.
    step = float(dice.uniform(max(0.01 * high, low), min(high, 0.99)))
    return Start(loads, kappas, step, float(dice.uniform(0.05, 0.9)), seed)


def play(start: Start, hold: Hold, order: Order) -> End:
    """Adjust one connection at a time until all shares exceed the loads, or none may be adjusted.

    The order "nearest" is deterministic: a repeated state proves that the run is endless.
    """
    rule = Rule(start.epsilon, start.gamma, MAX_KAPPA, guard=hold == "guard")
    dice = np.random.default_rng(start.order_seed)
    kappas, floored = list(start.kappas), False
    been: set[tuple[float, ...]] = set()
    for step in range(LIMIT):
        if order == "nearest" and tuple(kappas) in been:
            return End("endless", step, floored, tuple(kappas))
        been.add(tuple(kappas))
        total = sum(kappas)
        shares = [kappa / total for kappa in kappas]
        short = [s <= load for s, load in zip(shares, start.loads, strict=True)]
        if not any(short):
            return End("reached", step, floored, tuple(kappas))
        moves = dict(_moves(rule, start, kappas, shares, hold))
        chosen = [i for i in moves if short[i]] or list(moves)
        if not chosen:
            return End("stuck", step, floored, tuple(kappas))
        if order == "random":
            i = chosen[int(dice.integers(len(chosen)))]
        else:
            i = min(chosen, key=lambda i: abs(shares[i] - start.loads[i]))
        floored = floored or (moves[i] == 1.0 and not short[i])
        kappas[i] = moves[i]
    return End("endless", LIMIT, floored, tuple(kappas))


def _moves(
    rule: Rule, start: Start, kappas: list[float], shares: list[float], hold: Hold
) -> Iterator[tuple[int, float]]:
    """Connections that may be adjusted, each with its new kappa."""
    for i, (kappa, share, load) in enumerate(zip(kappas, shares, start.loads, strict=True)):
        if hold == "band" and load < share < load + start.epsilon:
            continue
        after = rule.after(kappa, share, load)
        if after != kappa:
            yield i, after


def trial(name: str, starts: int, seed: int) -> Trial:
    """Run one set of assumptions of `TRIALS` from random starts."""
    hold, order, epsilon = TRIALS[name]
    dice = np.random.default_rng(seed)
    runs = [(s, play(s, hold, order)) for s in (random_start(dice, epsilon) for _ in range(starts))]
    kept = [(start, end) for start, end in runs if not end.floored]
    failed = [(start, end) for start, end in kept if end.outcome != "reached"]
    # Report the one with the fewest connections.
    simplest = min(failed, key=lambda run: len(run[0].loads), default=None)
    reached = [end.steps for _, end in kept if end.outcome == "reached"]
    return Trial(
        name=name,
        hold=hold,
        order=order,
        epsilon=epsilon,
        starts=starts,
        kept=len(kept),
        reached=len(reached),
        stuck=sum(end.outcome == "stuck" for _, end in failed),
        endless=sum(end.outcome == "endless" for _, end in failed),
        worst_steps=max(reached, default=0),
        floored_reached=sum(end.floored and end.outcome == "reached" for _, end in runs),
        counterexample=simplest[0] if simplest else None,
    )
