"""Windows that stand still and links that are full: Newton's method along the central path.

    windows  w >= least,     q - phi(w) >= 0,   of each path one of the two holds with equality
    losses   p >= 0,         c - A w >= 0,      of each link one of the two

A primal-dual interior-point method, as `interior_point.py`; but phi is a rule's, which needs not be
the gradient of anything, so its Jacobian takes the place of a utility's curvature. Dense: for
networks of the size of a paper's.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from anabranch.theory.array import Array
from anabranch.theory.optimum.interior_point import next_shrink, stays_positive

MOST_STEPS = 200
PATIENCE = 30
"""Steps without a smaller residual after which a search is given up."""
TOLERANCE = 1e-10


@dataclass(frozen=True, eq=False)
class Standstill:
    """What is asked; paths and links are rows and columns as the names say."""

    phi: Callable[[Array], tuple[Array, Array]]
    """Of windows above 0: phi of each path, and its Jacobian."""
    load: Array
    """Links by paths: the part of a link's capacity that one packet of window takes."""
    crossed: Array
    """Links by paths: how often a path crosses a link."""
    least: float
    """Of every window, packets."""


def stand_still(asked: Standstill, start: Array) -> tuple[Array, Array, float]:
    """Windows, losses of links and the residual: how far the worst pair is from what it should be.

    `start`: windows above the least, about as large as those to be found.
    """
    load, crossed, least = asked.load * start, asked.crossed, asked.least / start
    level = float(np.median(asked.phi(start)[0]))  # of losses; all is scaled by it and by `start`
    x = np.maximum(0.5 * (1 - least), 0.05)
    losses = np.full(len(load), 0.5)
    dearer = np.maximum(crossed.T @ losses - asked.phi(start * (least + x))[0] / level, 0.5)
    free = np.maximum(1 - load @ (least + x), 0.1)
    best, best_at, shrink = (x, losses, np.inf), 0, 0.3
    paths = np.arange(len(x))
    links = len(x) + np.arange(len(free))
    for step in range(MOST_STEPS):
        phi, jacobian = asked.phi(start * (least + x))
        phi, jacobian = phi / level, jacobian * start / level
        above, room = crossed.T @ losses - phi, 1 - load @ (least + x)
        pairs = np.concatenate([np.minimum(x, above / phi), np.minimum(losses, room)])
        residual = float(np.max(np.abs(pairs)))
        if residual < best[2]:
            best, best_at = (x, losses, residual), step
        if residual < TOLERANCE or step - best_at > PATIENCE:
            break

        target = shrink * float(x @ dearer + losses @ free) / (len(x) + len(free))
        matrix = np.block([[-jacobian, crossed.T], [load, np.zeros((len(free), len(free)))]])
        matrix[paths, paths] += dearer / x
        matrix[links, links] -= free / losses
        right = np.concatenate([target / x - above, room - target / losses])
        try:
            change = np.linalg.solve(matrix, right)
        except np.linalg.LinAlgError:
            break
        d_x, d_losses = change[: len(x)], change[len(x) :]
        d_dearer = target / x - dearer - dearer / x * d_x
        d_free = target / losses - free - free / losses * d_losses
        moves = ((x, d_x), (losses, d_losses), (dearer, d_dearer), (free, d_free))
        length = min(stays_positive(value, change) for value, change in moves)
        x, losses = x + length * d_x, losses + length * d_losses
        dearer, free = dearer + length * d_dearer, free + length * d_free
        shrink = next_shrink(length)
    return start * (least + best[0]), level * best[1], best[2]
