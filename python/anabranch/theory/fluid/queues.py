"""A link's backlog as waiting packets and a loss probability."""

from dataclasses import dataclass

import numpy as np

from anabranch.scenario import ScenarioError
from anabranch.theory.array import Array
from anabranch.theory.network import Network

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
        knots = np.array([_rising(curve[:, 0]) for curve in curves]).reshape(-1, 3)
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


def _rising(knots: Array) -> Array:
    """The same knots, made strictly increasing where RED's thresholds coincide."""
    return np.maximum.accumulate(knots + 1e-6 * np.arange(len(knots)))
