"""A discontinuous rule, averaged over the variation of windows and loss intervals.

OLIA moves window from the paths with the largest window to those with the fewest losses. Its phi is
discontinuous where two paths are equal, which is where its equilibria are. With packets windows are
sawteeth and the packets between losses are random, so the mean is smooth, and it has one
equilibrium where the rule itself may have a set.
"""

from dataclasses import replace
from functools import lru_cache

import numpy as np
from scipy import sparse
from scipy.stats import qmc

from anabranch.theory.array import Array
from anabranch.theory.law import Law, States, blocks

EVALUATIONS = 1 << 17
"""Paths evaluated per average, over all users: more samples of each where users are few."""

SAMPLES = (64, 4096)
"""Fewest and most samples of each user."""

STEP = 0.1
"""Relative step of the differences: larger than the steps of an average over samples."""


class Averaged:
    """`Law` whose increase and decrease are means over windows and loss intervals.

    A window is uniform from 2/3 to 4/3 of its mean, as a sawtooth that halves. The packets since
    the last loss, and those between the two before, are exponential; the rule takes the larger.
    """

    def __init__(self, law: Law) -> None:
        self._law = law
        self.name = law.name

    @staticmethod
    def where_it_jumps(law: Law) -> "Law | Averaged":
        """The law, averaged if phi is discontinuous where the losses of two paths are equal."""

        def phi(factor: float) -> Array:
            return law.phi(States.of_user([10.0, 8.0], [0.1, 0.1], 0.0, [1e-3, factor * 1e-3]))

        jumps = np.abs(phi(1 + 1e-9) - phi(1 - 1e-9)).max() > 1e-6 * np.abs(phi(2.0)).max()
        return Averaged(law) if jumps else law

    def evaluate(self, states: States) -> tuple[Array, Array]:
        """Mean `I_r` per acknowledged packet and mean `D_r` per loss, packets."""
        paths, sizes = len(states.window), np.diff(states.starts)
        local = np.arange(paths) - np.repeat(states.starts[:-1], sizes)
        samples = samples_of(paths)
        window, interval = _factors(int(sizes.max(initial=1)), samples)
        first = np.arange(samples)[:, None] * paths + states.starts[None, :-1]
        many = States(
            starts=np.append(first.ravel(), samples * paths).astype(np.int64),
            window=(states.window * window[:, local]).ravel(),
            rtt=np.tile(states.rtt, samples),
            base_rtt=np.tile(states.base_rtt, samples),
            queue_delay=np.tile(states.queue_delay, samples),
            loss_interval=(states.loss_interval * interval[:, local]).ravel(),
        )
        increase, decrease = (values.reshape(samples, paths) for values in self._law.evaluate(many))
        return increase.mean(axis=0), decrease.mean(axis=0)

    def derivatives(self, states: States, wrt: str) -> tuple[sparse.csr_array, sparse.csr_array]:
        """Jacobians in `wrt`: for windows and loss intervals of the means, else the rule's own."""
        if wrt not in ("window", "loss_interval"):
            return self._law.derivatives(states, wrt)
        sizes = np.diff(states.starts)
        local = np.arange(len(states.window)) - np.repeat(states.starts[:-1], sizes)
        width = np.repeat(sizes, sizes)
        row = np.concatenate([[0], np.cumsum(width)])[:-1]
        values = np.zeros((2, int(width.sum())))
        column = getattr(states, wrt)
        for k in range(int(sizes.max(initial=0))):
            step = np.where(local == k, STEP * column, 0.0)
            above = self.evaluate(replace(states, **{wrt: column + step}))
            below = self.evaluate(replace(states, **{wrt: column - step}))
            has = width > k
            first = np.repeat(states.starts[:-1], sizes)[has]
            size = 2 * STEP * column[first + k]
            for i in range(2):
                values[i, row[has] + k] = (above[i][has] - below[i][has]) / size
        return blocks(states.starts, values[0]), blocks(states.starts, values[1])


def samples_of(paths: int) -> int:
    """Samples of each user in a network of so many paths: a power of 2, as Sobol points need."""
    few, many = SAMPLES
    return int(np.clip(1 << (EVALUATIONS // max(paths, 1)).bit_length(), few, many))


@lru_cache(maxsize=4)
def _factors(paths: int, samples: int) -> tuple[Array, Array]:
    """For each sample and path of a user, the factors of window and loss interval."""
    uniform = qmc.Sobol(3 * paths, rng=np.random.default_rng(0)).random(samples)
    window, since, between = (
        uniform[:, :paths],
        uniform[:, paths : 2 * paths],
        uniform[:, 2 * paths :],
    )
    interval = -np.log1p(-np.maximum(since, between))
    return (2 + 2 * window) / 3, interval
