"""OLIA's alpha as a set: what it may be where two paths are equal, and a smooth choice from it.

OLIA moves window from a path with the largest window (M) to a better one (B). Its alpha is
`(beta_r - mu_r)/n`, where beta is 1 on the path in B and mu is 1 on the path in M. Where several
paths tie, which is where the rule comes to rest, the equation has a solution in Filippov's sense:
beta is any distribution over B and mu any over M. So at an equilibrium alpha is 0. Otherwise window
would move to a path in B that is not in M, which needs `q_r tau_r^2 > 2/y^2` there and
`q_k tau_k^2 < 2/y^2` on the path in M that loses it; but B has the least `q tau^2`. What remains,
`q_r tau_r^2 = 2/y^2` on every path above one packet and no less on the others, is the draft's fixed
point: the best paths only, with the total of one TCP on one of them.
"""

from dataclasses import replace

import numpy as np
from scipy import sparse

from anabranch.theory.array import Array
from anabranch.theory.law import Law, States, blocks, row

WIDTH = 0.02
"""Relative difference of windows, or of qualities, over which the smooth alpha changes by e."""

QUALITY = {"olia": (1, 2), "olia-printed": (2, 1)}
"""Exponents (a, b) of a path's quality l^a/tau^b, by rule whose alpha jumps."""


class Switching:
    """A rule of `QUALITY` with `beta ~ quality^(1/width)` and `mu ~ window^(1/width)`.

    As the width goes to 0, beta and mu tend to distributions over B and M. `settled`: alpha is 0
    instead, if it is at the rule's equilibrium.
    """

    def __init__(self, law: Law, settled: bool = False, width: float = WIDTH) -> None:
        self._law, self._width = law, width
        self._alpha = not (settled and row(law.name)["equilibrium_by_loss"])
        self.name = law.name
        self._of_interval, self._of_rtt = QUALITY[law.name]

    def evaluate(self, states: States) -> tuple[Array, Array]:
        """`I_r` per acknowledged packet and `D_r` per loss, packets."""
        increase, decrease = self._law.evaluate(_without_alpha(states))
        if not self._alpha:
            return increase, decrease
        beta, mu = self._distributions(states)
        return increase + (beta - mu) / (_siblings(states) * states.window), decrease

    def derivatives(self, states: States, wrt: str) -> tuple[sparse.csr_array, sparse.csr_array]:
        """The exact Jacobians, as `Law.derivatives`."""
        increase, decrease = self._law.derivatives(_without_alpha(states), wrt)
        if not self._alpha:
            return increase, decrease
        beta, mu = self._distributions(states)
        scale = 1 / (_siblings(states) * states.window)
        if wrt == "window":
            of_mu = -_of_softmax(states, mu, 1 / (self._width * states.window))
            own = sparse.diags_array(-(beta - mu) / states.window)
            increase = increase + sparse.diags_array(scale) @ (of_mu + own)
        elif wrt == "loss_interval":
            power = self._of_interval / (self._width * states.loss_interval)
            increase = increase + sparse.diags_array(scale) @ _of_softmax(states, beta, power)
        elif wrt == "rtt":
            power = -self._of_rtt / (self._width * states.rtt)
            increase = increase + sparse.diags_array(scale) @ _of_softmax(states, beta, power)
        return sparse.csr_array(increase), decrease

    def _distributions(self, states: States) -> tuple[Array, Array]:
        """beta and mu."""
        quality = self._of_interval * np.log(states.loss_interval)
        quality -= self._of_rtt * np.log(states.rtt)
        window = np.log(states.window)
        return _softmax(states, quality / self._width), _softmax(states, window / self._width)


def jumps(law: Law) -> bool:
    """Whether the rule's phi is discontinuous where two paths are equal."""
    return law.name in QUALITY


def _without_alpha(states: States) -> States:
    """The states with losses such that the best path is the one with the largest window."""
    largest = states.window >= _largest(states, states.window)
    return replace(states, loss_interval=np.where(largest, 1.0, 1e-9) * states.rtt**2)


def _siblings(states: States) -> Array:
    sizes = np.diff(states.starts)
    return np.repeat(sizes, sizes)


def _largest(states: States, values: Array) -> Array:
    """The largest value of each user's paths, for each of its paths."""
    return np.repeat(np.maximum.reduceat(values, states.starts[:-1]), np.diff(states.starts))


def _softmax(states: States, exponent: Array) -> Array:
    """Proportional to exp(exponent), with sum 1 for each user."""
    value = np.exp(exponent - _largest(states, exponent))
    total = np.add.reduceat(value, states.starts[:-1])
    return np.asarray(value / np.repeat(total, np.diff(states.starts)))


def _of_softmax(states: States, share: Array, slope: Array) -> sparse.csr_array:
    """The Jacobian of shares whose exponents have these slopes in the same path's quantity."""
    sizes = np.diff(states.starts)
    width = np.repeat(sizes, sizes)
    of = np.repeat(np.arange(len(share)), width)
    begin = np.cumsum(width) - width - np.repeat(states.starts[:-1], sizes)
    by = np.arange(len(of)) - begin[of]
    values = share[of] * ((of == by) - share[by]) * slope[by]
    return blocks(states.starts, values)
