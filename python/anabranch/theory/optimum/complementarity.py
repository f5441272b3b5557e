"""Fixed points as a complementarity problem, by Newton's method along the central path.

    windows  w >= least,     q - phi(w) >= 0,   of each path one of the two holds with equality
    losses   p >= 0,         c - A w >= 0,      of each link one of the two

A primal-dual interior-point method, as `interior_point.py`; but phi is a rule's, which need not be
the gradient of a utility, so its Jacobian takes the place of a utility's curvature. Dense: for
networks of the size of a paper's.

Why not the search of `fluid.newton`: there a queue's loss rises with its backlog, which damps the
search. Here links lose packets only where they are full, at any level of loss, so the Jacobian has
a block of zeros and Newton's method on the active set circles around the kinks at which paths come
into use. With prices in place of backlogs it found the published fixed points to 1e-9, but took
three times as long, failed in 10 of 128 cases on the networks of the OLIA draft (in none with
prices ten times as slow and a least window of 1e-5), and in 5 of 200 random networks; and in
another 5 with Balia, which has several fixed points, it found other ones.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from anabranch.theory.array import Array
from anabranch.theory.optimum.interior_point import next_shrink, stays_positive

MOST_STEPS = 200
PATIENCE = 30
"""Steps without a smaller residual after which the search stops."""
TOLERANCE = 1e-10


@dataclass(frozen=True, eq=False)
class Complementarity:
    """The problem; n paths, m links."""

    phi: Callable[[Array], tuple[Array, Array]]
    """Function of windows above 0, packets: phi of each path, and its Jacobian, n by n."""
    load: Array
    """m by n: the part of a link's capacity that one packet of window takes."""
    crossed: Array
    """m by n: how often a path crosses a link."""
    least: float
    """The least value of every window, packets."""


def solve(problem: Complementarity, start: Array) -> tuple[Array, Array, float]:
    """Windows, loss probabilities of links, and the residual: the largest violation of a pair.

    `start`: windows above the least, of the size of those to be found.
    """
    load, crossed, least = problem.load * start, problem.crossed, problem.least / start
    level = float(np.median(problem.phi(start)[0]))  # of losses; all is scaled by it and by `start`
    x = np.maximum(0.5 * (1 - least), 0.05)
    losses = np.full(len(load), 0.5)
    slack = np.maximum(crossed.T @ losses - problem.phi(start * (least + x))[0] / level, 0.5)
    free = np.maximum(1 - load @ (least + x), 0.1)
    best, best_at, shrink = (x, losses, np.inf), 0, 0.3
    paths = np.arange(len(x))
    links = len(x) + np.arange(len(free))
    for step in range(MOST_STEPS):
        phi, jacobian = problem.phi(start * (least + x))
        phi, jacobian = phi / level, jacobian * start / level
        above, room = crossed.T @ losses - phi, 1 - load @ (least + x)
        pairs = np.concatenate([np.minimum(x, above / phi), np.minimum(losses, room)])
        residual = float(np.max(np.abs(pairs)))
        if residual < best[2]:
            best, best_at = (x, losses, residual), step
        if residual < TOLERANCE or step - best_at > PATIENCE:
            break

        target = shrink * float(x @ slack + losses @ free) / (len(x) + len(free))
        matrix = np.block([[-jacobian, crossed.T], [load, np.zeros((len(free), len(free)))]])
        matrix[paths, paths] += slack / x
        matrix[links, links] -= free / losses
        right = np.concatenate([target / x - above, room - target / losses])
        try:
            change = np.linalg.solve(matrix, right)
        except np.linalg.LinAlgError:
            break
        d_x, d_losses = change[: len(x)], change[len(x) :]
        d_slack = target / x - slack - slack / x * d_x
        d_free = target / losses - free - free / losses * d_losses
        moves = ((x, d_x), (losses, d_losses), (slack, d_slack), (free, d_free))
        length = min(stays_positive(value, change) for value, change in moves)
        x, losses = x + length * d_x, losses + length * d_losses
        slack, free = slack + length * d_slack, free + length * d_free
        shrink = next_shrink(length)
    return start * (least + best[0]), level * best[1], best[2]
