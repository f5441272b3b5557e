"""The fluid model of a network at one state: rates, losses, drifts and their derivatives."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from anabranch.scenario import ScenarioError
from anabranch.theory.array import Array
from anabranch.theory.fluid.queues import Backlogs
from anabranch.theory.fluid.switching import Switching, jumps
from anabranch.theory.law import Law, States, row
from anabranch.theory.network import Network

LEAST_LOSS = 1e-12
"""The least loss probability of a path: rules divide by it."""


@dataclass(frozen=True, eq=False)
class Group:
    """The users of one algorithm."""

    law: Law | Switching
    paths: Array
    starts: Array


class Model:
    """A network with the laws of its users.

    `settled`: OLIA's alpha is 0, as at its equilibrium, instead of a smooth function (`switching`).
    Raises `ScenarioError` for a rule without a fluid model.
    """

    def __init__(self, network: Network, settled: bool = False) -> None:
        self.network = network
        self.backlogs = Backlogs.of(network)
        self.groups = [_group(network, spec, settled) for spec in dict.fromkeys(network.algorithms)]
        self.crossing = sparse.csr_array(network.routes.T)  # paths by links

    @property
    def switches(self) -> bool:
        """Whether a rule's alpha jumps where two paths are equal."""
        return any(isinstance(group.law, Switching) for group in self.groups)

    def at(self, window: Array, backlog: Array, beyond: Array | None = None) -> "Point":
        """The state with these windows of the paths and backlogs of the links, packets.

        `beyond`: as in `Backlogs.loss`.
        """
        return Point(self, window, backlog, beyond)


class Point:
    """The model at one state. Derivatives are in the logarithm of windows, and in backlogs."""

    def __init__(
        self, model: Model, window: Array, backlog: Array, beyond: Array | None = None
    ) -> None:
        network, crossing = model.network, model.crossing
        self.model, self.window, self.backlog = model, window, backlog
        self.waiting, self.waiting_slope = model.backlogs.waiting(backlog)
        self.loss, self.loss_slope = model.backlogs.loss(backlog, beyond)
        wait = crossing @ (self.waiting / network.capacity)
        kept = np.log1p(-self.loss) + np.log1p(-network.queues.random_loss)
        self.path_loss = -np.expm1(crossing @ kept)
        """q_r: the probability that a packet of the path is lost, on any of its links."""
        self.states = States(
            starts=network.starts,
            window=window,
            rtt=network.base_rtt + wait,
            base_rtt=network.base_rtt,
            queue_delay=network.service + wait,
            loss_interval=1.0 / np.maximum(self.path_loss, LEAST_LOSS),
        )
        self.rate = self.states.rate
        self.load = network.routes @ self.rate
        """y_l, packets/s offered to each link; losses on other links are not subtracted."""

    @property
    def rtt(self) -> Array:
        """Round-trip time of each path, s."""
        return self.states.rtt

    @cached_property
    def increase_decrease(self) -> tuple[Array, Array]:
        """I_r per acknowledged packet and D_r per loss, packets."""
        increase, decrease = np.empty_like(self.window), np.empty_like(self.window)
        for group, states in self._groups():
            increase[group.paths], decrease[group.paths] = group.law.evaluate(states)
        return increase, decrease

    @property
    def drift(self) -> Array:
        """`I_r - q_r D_r`: change of the window per packet sent, packets."""
        increase, decrease = self.increase_decrease
        return np.asarray(increase - self.path_loss * decrease)

    @property
    def excess(self) -> Array:
        """`(1 - p_l) y_l - c_l`: growth of the queue, packets/s."""
        return np.asarray((1 - self.loss) * self.load - self.model.network.capacity)

    def delay_derivatives(self) -> sparse.csr_array:
        """Derivatives of the RTTs in the backlogs."""
        model = self.model
        slope = self.waiting_slope / model.network.capacity
        return sparse.csr_array(model.crossing @ diagonal(slope))

    def loss_derivatives(self) -> sparse.csr_array:
        """Derivatives of the path losses q in the backlogs."""
        by_link = self.model.crossing @ diagonal(self.loss_slope / (1 - self.loss))
        return sparse.csr_array(diagonal(1 - self.path_loss) @ by_link)

    def drift_derivatives(self) -> tuple[sparse.csr_array, sparse.csr_array]:
        """Derivatives of the drift in log windows (block-diagonal) and in backlogs (paths by
        links)."""
        q = self.path_loss
        _, decrease = self.increase_decrease
        in_window, in_rtt, in_delay, in_interval = (
            self._law_derivatives(field)
            for field in ("window", "rtt", "queue_delay", "loss_interval")
        )
        delay, dq = self.delay_derivatives(), self.loss_derivatives()
        interval = diagonal(-((1 / np.maximum(q, LEAST_LOSS)) ** 2) * (q > LEAST_LOSS))
        in_backlog = (in_rtt + in_delay) @ delay + (
            in_interval @ interval - diagonal(decrease)
        ) @ dq
        return sparse.csr_array(in_window @ diagonal(self.window)), sparse.csr_array(in_backlog)

    def excess_derivatives(self) -> tuple[sparse.csr_array, sparse.csr_array]:
        """Derivatives of the excess in log windows (links by paths) and in backlogs."""
        model = self.model
        kept = diagonal(1 - self.loss) @ model.network.routes
        delay = self.delay_derivatives()
        in_backlog = -diagonal(self.load * self.loss_slope) - (
            kept @ diagonal(self.rate / self.states.rtt) @ delay
        )
        return sparse.csr_array(kept @ diagonal(self.rate)), sparse.csr_array(in_backlog)

    def _groups(self) -> Iterator[tuple[Group, States]]:
        for group in self.model.groups:
            if len(group.paths) == len(self.window):
                yield group, self.states
            else:
                columns = [column[group.paths] for column in self.states.columns()[1:]]
                yield group, States(group.starts, *columns)

    def _law_derivatives(self, field: str) -> sparse.csr_array:
        """Derivatives of the drift at fixed q in one column of the states."""
        paths = len(self.window)
        total = sparse.csr_array((paths, paths))
        for group, states in self._groups():
            increase, decrease = group.law.derivatives(states, field)
            block = increase - diagonal(self.path_loss[group.paths]) @ decrease
            total = total + _spread(block, group.paths, paths)
        return total


def _group(network: Network, spec: str, settled: bool) -> Group:
    law = Law(spec)
    if law.delay_based:
        raise ScenarioError(
            f"{law.name} acts once per round trip, so it has no increase per packet"
        )
    if row(law.name)["by_rate"]:
        raise ScenarioError(
            f"{law.name} has no fluid model, because it acts on delivery rates: run it on sim"
        )
    if not row(law.name)["fluid"]:
        raise ScenarioError(
            f"{law.name} has no fluid model, because its window follows the time since the last "
            "loss: run it on sim"
        )
    users = np.array([algorithm == spec for algorithm in network.algorithms])
    sizes = np.diff(network.starts)[users]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rule = Switching(law, settled) if jumps(law) else law
    return Group(rule, np.flatnonzero(users[network.user_of_path]), starts)


def _spread(block: sparse.csr_array, paths: Array, size: int) -> sparse.csr_array:
    """A matrix of some paths as one of all paths."""
    coo = block.tocoo()
    return sparse.csr_array(
        sparse.coo_array((coo.data, (paths[coo.row], paths[coo.col])), shape=(size, size))
    )


def diagonal(values: Array) -> sparse.dia_array:
    """The matrix with these values on its diagonal."""
    return sparse.diags_array(values)
