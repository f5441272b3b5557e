"""The adjustment of the kappas of I-TCP connections: equations (11) and (12).

Every step of a kappa is taken by the rule itself (crates/model/control/src/itcp.rs), with a buffer
occupancy that allows an increase at any time. A connection's share of the bottleneck is
phi_i = kappa_i / sum kappa, its load rho_i; L' = (rho_i - phi_i) / phi_i is what (9) estimates.
"""

from collections.abc import Sequence
from dataclasses import dataclass

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
