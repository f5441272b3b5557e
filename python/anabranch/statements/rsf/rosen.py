"""Rosen's diagonal strict concavity for the rent-seeking game of the RSF paper, section 3.

Player i has the marginal utility m_i = (S - lambda_i) / S^2 - p, S being the sum of all lambda. G
is the Jacobian of z_i m_i, and Rosen's condition asks G + G' to be negative definite. With the
shares u = lambda / S that is a matter of w 1' + 1 w' - 2 diag(z), where w_i = z_i (2 u_i - 1).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from anabranch.theory.array import Array


def utilities(rates: ArrayLike, price: float) -> Array:
    """U_i = lambda_i / S - p lambda_i: (6)."""
    rates = np.asarray(rates, dtype=float)
    return np.asarray(rates / rates.sum() - price * rates)


def marginals(rates: ArrayLike, price: float) -> Array:
    """dU_i / dlambda_i: the pseudogradient (10) for z = 1."""
    rates = np.asarray(rates, dtype=float)
    total = rates.sum()
    return np.asarray((total - rates) / total**2 - price)


def jacobian(rates: ArrayLike, weights: ArrayLike) -> Array:
    """G: row i is the gradient of z_i m_i, z_i ((2 lambda_i - S) 1' - S e_i') / S^3."""
    rates, z = np.asarray(rates, dtype=float), np.asarray(weights, dtype=float)
    total = rates.sum()
    rows = (2 * rates - total)[:, None] - total * np.eye(len(rates))
    return np.asarray(z[:, None] * rows / total**3)


def leading_eigenvalue(rates: ArrayLike, weights: ArrayLike) -> float:
    """The largest eigenvalue of (G + G') S^2 / 2, which depends on shares alone; Rosen's condition
    holds at a state where this is below 0."""
    rates = np.asarray(rates, dtype=float)
    g = jacobian(rates / rates.sum(), weights)
    return float(np.linalg.eigvalsh(g + g.T)[-1] / 2)


def condition(first: ArrayLike, second: ArrayLike, weights: ArrayLike) -> float:
    """The left side of (11): above 0 for any two states if the game is diagonally strictly concave.
    The price cancels."""
    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    z = np.asarray(weights, dtype=float)
    return float((a - b) @ (z * (marginals(b, 0.0) - marginals(a, 0.0))))


def two_player_edge(weights: Sequence[float]) -> float:
    """With two players the condition holds where |u_1 - u_2| is below this.

    The determinant of w 1' + 1 w' - 2 diag(z) is 4 z1 z2 (1 - d^2) - (z1 - z2)^2 d^2 for
    d = u_1 - u_2; it is 0 where d is the geometric over the arithmetic mean of the weights.
    """
    a, b = weights
    return float(2 * np.sqrt(a * b) / (a + b))


@dataclass(frozen=True)
class Scan:
    """Rosen's condition over random states."""

    game: str
    players: int
    weights: str
    states: int
    holding: int
    worst: float
    """The largest leading eigenvalue found."""
    at: tuple[float, ...]
    """The shares there."""


def scan(players: int, spread: float, states: int, seed: int) -> Scan:
    """Game (6): random shares, from even ones to nearly all on one path; weights from 1 to
    `spread`, all 1 where that is 1."""
    dice = np.random.default_rng(seed)
    found = []
    for _ in range(states):
        shares = _shares(dice, players)
        weights = np.exp(dice.uniform(0.0, np.log(spread), players))
        found.append((leading_eigenvalue(shares, weights), shares))
    label = "1" if spread == 1 else f"1 to {spread:g}"
    return _summary("(6), one connection", players, label, found)


def scan_connections(connections: int, paths: int, states: int, seed: int) -> Scan:
    """Game (15): each connection chooses a rate on every path; weights 1.

    Its utility depends on the sum of its rates alone, so that G is the sums' G, each entry
    repeated for every pair of paths.
    """
    dice = np.random.default_rng(seed)
    found = []
    for _ in range(states):
        shares = _shares(dice, connections)
        g = np.kron(jacobian(shares, np.ones(connections)), np.ones((paths, paths)))
        found.append((float(np.linalg.eigvalsh(g + g.T)[-1] / 2), shares))
    return _summary(f"(15), {paths} paths each", connections, "1", found)


def _shares(dice: np.random.Generator, players: int) -> Array:
    """Dirichlet shares of concentrations 0.05 to 5: mostly one path, or all alike; none is 0."""
    even = np.exp(dice.uniform(np.log(0.05), np.log(5.0)))
    shares = np.maximum(dice.dirichlet(np.full(players, even)), 1e-6)
    return np.asarray(shares / shares.sum())


def _summary(game: str, players: int, weights: str, found: list[tuple[float, Array]]) -> Scan:
    worst, at = max(found, key=lambda pair: pair[0])
    # An eigenvalue that is exactly 0 is computed with a rounding error.
    holding = sum(value < -1e-12 for value, _ in found)
    return Scan(game, players, weights, len(found), holding, worst, tuple(at.tolist()))
