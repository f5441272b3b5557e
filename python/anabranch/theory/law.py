"""A rule as a law of windows: its increase and decrease at given states, with exact derivatives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from anabranch import _core
from anabranch.scenario import rules
from anabranch.theory.array import Array


@dataclass(frozen=True, eq=False)
class States:
    """States of the paths of many users: a column for each quantity, in packets and seconds."""

    starts: Array
    """The paths of user u are those from `starts[u]` to `starts[u + 1]`; int64."""
    window: Array
    rtt: Array
    base_rtt: Array
    queue_delay: Array
    """Queueing and transmission on the forward path."""
    loss_interval: Array
    """Packets between losses: the inverse of the loss probability."""

    @classmethod
    def of_user(
        cls,
        window: Sequence[float] | Array,
        rtt: Sequence[float] | Array,
        queue_delay: Sequence[float] | Array | float = 0.0,
        loss_probability: Sequence[float] | Array | float = 0.01,
    ) -> "States":
        """One user with these paths; `rtt` includes `queue_delay`.

        >>> States.of_user(window=[10, 20], rtt=[0.1, 0.1], queue_delay=0.02).base_rtt.tolist()
        [0.08, 0.08]
        """
        windows, rtts = np.asarray(window, dtype=float), np.asarray(rtt, dtype=float)
        delays = np.broadcast_to(np.asarray(queue_delay, dtype=float), windows.shape).copy()
        losses = np.broadcast_to(np.asarray(loss_probability, dtype=float), windows.shape)
        starts = np.array([0, len(windows)], dtype=np.int64)
        return cls(starts, windows, rtts, rtts - delays, delays, 1.0 / losses)

    @property
    def rate(self) -> Array:
        """x_r = w_r / tau_r, packets/s."""
        return np.asarray(self.window / self.rtt)

    def with_rate(self, rate: Array) -> "States":
        """The same paths with the windows that give these rates, packets/s."""
        return replace(self, window=np.asarray(rate * self.rtt, dtype=float))

    def columns(self) -> tuple[Array, ...]:
        """All columns, in the order in which they are declared."""
        return (
            self.starts,
            self.window,
            self.rtt,
            self.base_rtt,
            self.queue_delay,
            self.loss_interval,
        )


class Law:
    """An algorithm of the table, such as "olia" or "balia:cap=inf".

    Raises `ScenarioError` for one that is not in the table.

    >>> two_paths = States.of_user(window=[10, 10], rtt=[0.1, 0.1])
    >>> increase, decrease = Law("lia").evaluate(two_paths)
    >>> increase.tolist(), decrease.tolist()
    ([0.025, 0.025], [5.0, 5.0])
    """

    def __init__(self, spec: str) -> None:
        self._core = _core.Law(spec)
        self.name: str = self._core.name
        self.delay_based: bool = self._core.delay_based

    def evaluate(self, states: States) -> tuple[Array, Array]:
        """`I_r` per acknowledged packet and `D_r` per loss, packets."""
        increase, decrease = self._core.evaluate(states)
        return increase, decrease

    def phi(self, states: States) -> Array:
        """`phi_r = I_r / D_r`: the loss probability at which the window is stationary."""
        increase, decrease = self.evaluate(states)
        return np.asarray(increase / decrease)

    def derivatives(self, states: States, wrt: str) -> tuple[sparse.csr_array, sparse.csr_array]:
        """Exact Jacobians of I and D in `wrt`, block-diagonal: a block for each user.

        `wrt` is "window", "rtt", "queue_delay" or "loss_interval". At a kink of the rule the
        derivative is the branch's that is taken.
        """
        increase, decrease = self._block_values(states, wrt)
        return blocks(states.starts, increase), blocks(states.starts, decrease)

    def _block_values(self, states: States, wrt: str) -> tuple[Array, Array]:
        """Values of the blocks of both Jacobians, row by row."""
        increase, decrease = self._core.derivatives(wrt, states)
        return increase, decrease

    def phi_derivatives(self, states: States, wrt: str) -> sparse.csr_array:
        """The exact Jacobian of phi in `wrt`: (dI - phi dD) / D."""
        increase, decrease = self.evaluate(states)
        dI, dD = self._block_values(states, wrt)
        sizes = np.diff(states.starts)
        row = np.repeat(np.arange(len(decrease)), np.repeat(sizes, sizes))  # of each value
        values = (1.0 / decrease)[row] * (dI - (increase / decrease)[row] * dD)
        return blocks(states.starts, values)

    def __repr__(self) -> str:
        return f"Law({self.name!r})"


def row(spec: str) -> Mapping[str, Any]:
    """The row of the table of rules for a canonical specification such as "balia:cap=inf"."""
    name = spec.partition(":")[0]
    return next(rule for rule in rules() if rule["name"] == name)


def blocks(starts: Array, values: Array) -> sparse.csr_array:
    """A block-diagonal matrix from its blocks, row by row."""
    sizes = np.diff(starts)
    of_row = np.repeat(np.arange(len(sizes)), sizes)  # the user of each path
    pointers = np.concatenate([[0], np.cumsum(sizes[of_row])])
    first = np.repeat(starts[:-1][of_row], sizes[of_row])
    columns = first + np.arange(len(values)) - np.repeat(pointers[:-1], sizes[of_row])
    n = int(starts[-1])
    return sparse.csr_array((values, columns, pointers), shape=(n, n))
