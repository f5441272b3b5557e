"""The fluid model of a network at one state: rates, losses, drifts and their derivatives."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from anabranch.scenario import ScenarioError
from anabranch.theory.array import Array
from anabranch.theory.law import Law, States, blocks, row
from anabranch.theory.network import Network

# A link's backlog as waiting packets and a loss probability.


STANDING_SHARE = 0.7
"""Mean length of a drop-tail queue that drops packets, over its limit: senders fill it, lose
packets and reduce their windows. docs/notebook/theory-fluid.md has the experiment."""

PRICE_AT_LIMIT = 0.1
"""Loss probability when the backlog of a drop-tail queue exceeds the standing queue by the limit.
It sets how quickly the price changes (gamma is this over the limit); equilibria do not depend on
it."""

LARGEST_LOSS = 0.99

UNLIMITED = 1e9
"""The limit of a queue without one, packets: more than any windows."""

LARGEST_SCALE = 1e3


@dataclass(frozen=True, eq=False)
class Backlogs:
    """Map from the backlog z of every link, packets, to its waiting packets and losses.

    For RED z is the queue itself, and RED's curve gives its losses. For drop-tail z is the queue,
    up to the standing queue; the rest of z is a price, which rises with the excess
    demand, dp/dt = gamma (y - c). So one equation, dz/dt = (1 - p) y - c, holds for both.
    """

    knots: Array
    """Links by points: backlogs between which the loss probability is linear, rising."""
    losses: Array
    """Links by points: the loss probability at the knots."""
    standing: Array
    """The most packets that wait."""

    @classmethod
    def of(cls, network: Network) -> "Backlogs":
        """The map of a network; raises `ScenarioError` for a queue without one."""
        if network.queues.unmodelled:
            raise ScenarioError(
                f"{network.queues.unmodelled} is not available in the equations of queues; run it "
                "with --on sim"
            )
        limits = np.minimum(network.queues.limit, UNLIMITED)
        curves = [
            _drop_tail(limit) if red is None else np.asarray(red, dtype=float)
            for red, limit in zip(network.queues.red, limits, strict=True)
        ]
        knots = np.array([curve[:, 0] for curve in curves]).reshape(-1, 3)
        # Strictly increasing where RED's thresholds coincide.
        knots = np.maximum.accumulate(knots + 1e-6 * np.arange(3), axis=1)
        red = np.array([red is not None for red in network.queues.red], dtype=bool)
        standing = np.where(red, limits, STANDING_SHARE * limits)
        losses = np.array([curve[:, 1] for curve in curves]).reshape(-1, 3)
        return cls(knots, losses, standing)

    @property
    def scale(self) -> Array:
        """A typical backlog, packets."""
        unlimited = self.knots[:, 0] >= STANDING_SHARE * UNLIMITED
        return np.where(unlimited, LARGEST_SCALE, self.knots[:, 1])

    def waiting(self, backlog: Array) -> tuple[Array, Array]:
        """Packets in the queue, and the derivative."""
        return np.minimum(backlog, self.standing), (backlog < self.standing) * 1.0

    def loss(self, backlog: Array, beyond: Array | None = None) -> tuple[Array, Array]:
        """Loss probability, and the derivative; beyond the last knot as before it, to 0.99.

        `beyond`: the backlog less its first knot, where that is known more precisely.
        """
        first, middle, last = self.knots.T
        _, at_middle, at_last = self.losses.T
        steep = backlog > middle
        low, high = np.where(steep, middle, first), np.where(steep, last, middle)
        start, end = np.where(steep, at_middle, 0.0), np.where(steep, at_last, at_middle)
        slope = (end - start) / (high - low)
        if beyond is None:
            beyond = backlog - first
        line = start + slope * np.where(steep, backlog - low, beyond)
        inside = (beyond > 0) & (line < LARGEST_LOSS)
        return np.clip(line, 0.0, LARGEST_LOSS), slope * inside

    def at_loss(self, loss: Array) -> Array:
        """How far beyond the first knot the loss probability is this, if it is small, packets."""
        first, middle, _ = self.knots.T
        return np.asarray(loss / np.maximum(self.losses[:, 1], 1e-9) * (middle - first))


def _drop_tail(limit: float) -> Array:
    """The price's curve as RED's: knots at the standing queue, then linear to beyond 1."""
    standing = STANDING_SHARE * limit
    far = np.array([standing, standing + limit, standing + limit / PRICE_AT_LIMIT])
    return np.column_stack([far, [0.0, PRICE_AT_LIMIT, 1.0]])


# OLIA's alpha as a set: what it may be where two paths are equal, and a smooth choice from it.
#
# OLIA moves window from a path with the largest window (M) to a better one (B). Its alpha is
# `(beta_r - mu_r)/n`, where beta is 1 on the path in B and mu is 1 on the path in M. Where several
# paths tie, which is where the rule comes to rest, the equation has a solution in Filippov's
# sense: beta is any distribution over B and mu any over M. So at an equilibrium alpha is 0.
# Otherwise window would move to a path in B that is not in M, which needs `q_r tau_r^2 > 2/y^2`
# there and `q_k tau_k^2 < 2/y^2` on the path in M that loses it; but B has the least `q tau^2`.
# The remainder, `q_r tau_r^2 = 2/y^2` on every path above one packet and no less on the others, is
# the draft's fixed point: the best paths only, with the total of one TCP on one of them.


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
