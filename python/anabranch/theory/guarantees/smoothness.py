"""Discontinuities and kinks of Phi, by bisection of a line towards the largest change."""

from collections.abc import Callable

import numpy as np

from anabranch.theory.array import Array
from anabranch.theory.guarantees.jacobian import phi_jacobian, scaled
from anabranch.theory.guarantees.random_states import by_user
from anabranch.theory.law import Law, States

HALVINGS = 40
"""After these the change of a smooth function is rounding."""

CHANGE = 1e-3
"""Relative change over the last piece of the line above which Phi is not smooth."""


def jump(law: Law, states: States) -> tuple[Array, States, States]:
    """Change of phi over the last piece, relative to phi at the ends of the line; its two ends.

    The line of each user leads from its rates to the same rates given to the next path, so
    paths overtake each other on the way.
    """

    first, last = _ends(states)
    size = np.abs(law.phi(first)) + np.abs(law.phi(last))

    def change(a: States, b: States) -> Array:
        difference = np.abs(law.phi(a) - law.phi(b)) / size
        return np.asarray(by_user(a, difference).max(axis=1))

    return _halve(states, change)


def kink(law: Law, states: States) -> Array:
    """Relative change of the Jacobian over the last piece."""

    def change(a: States, b: States) -> Array:
        before, scale = scaled(phi_jacobian(law, a))
        after = phi_jacobian(law, b) * scale[:, :, None] * scale[:, None, :]
        return np.asarray(np.abs(before - after).max(axis=(1, 2)))

    return _halve(states, change)[0]


def _ends(states: States) -> tuple[States, States]:
    rate = by_user(states, states.rate)
    return states, states.with_rate(np.roll(rate, 1, axis=1).ravel())


def _halve(
    states: States, change: Callable[[States, States], Array]
) -> tuple[Array, States, States]:
    low, high = _ends(states)
    paths = int(states.starts[1])
    for _ in range(HALVINGS):
        middle = states.with_rate((low.rate + high.rate) / 2)
        first = np.repeat(change(low, middle) >= change(middle, high), paths)
        low, high = (
            states.with_rate(np.where(first, low.rate, middle.rate)),
            states.with_rate(np.where(first, middle.rate, high.rate)),
        )
    return change(low, high), low, high
