"""Means of windows that are halved at random losses, between which they follow the rule.

The fluid model takes a mean window and a mean loss interval for the values that a rule sees. Here a
path meets single losses, at the rate q x, and the rule sees its window and the packets between its
losses. Queues are still a fluid: each user is simulated many times, and the load is the mean.
"""

from dataclasses import dataclass

import numpy as np

from anabranch.theory.array import Array
from anabranch.theory.fluid.model import Model
from anabranch.theory.law import Law, States
from anabranch.theory.network import Network

STEPS_PER_ROUND = 4
"""Steps in a round trip of the fastest path."""


@dataclass(frozen=True)
class Effects:
    """Effects of packets beside single losses."""

    whole_packets: bool = True
    """A path has floor(w) packets in flight: half a packet less than its window, in the mean."""
    recovery: bool = True
    """For one RTT after a loss the window does not grow and no other loss counts."""


@dataclass(frozen=True, eq=False)
class Means:
    """Over time and copies."""

    goodput_mbps: Array
    """Goodput of each path, Mbps."""
    window: Array
    """Window of each path, packets."""
    loss: Array
    """Loss probability of each link."""


def means(
    network: Network,
    effects: Effects = Effects(),
    copies: int = 64,
    rounds: int = 1500,
    warmup_rounds: int = 500,
    seed: int = 1,
) -> Means:
    """Simulate a number of round trips of the slowest path, and average after the warm-up.

    Raises `ScenarioError` for a rule without a fluid model.
    """
    process = _Process(network, effects, copies, seed)
    step = float(network.base_rtt.min()) / STEPS_PER_ROUND
    per_round = round(float(network.base_rtt.max()) / step)
    for _ in range(warmup_rounds * per_round):
        process.advance(step)
    sums, steps = [np.zeros(0)] * 3, (rounds - warmup_rounds) * per_round
    for number in range(steps):
        state = process.advance(step)
        sums = list(state) if number == 0 else [a + b for a, b in zip(sums, state, strict=True)]
    delivered, window, loss = (total / steps for total in sums)
    return Means(network.goodput_mbps(delivered), window, loss)


class _Process:
    """Windows of all copies, copies by paths, and the backlogs that they share."""

    def __init__(self, network: Network, effects: Effects, copies: int, seed: int) -> None:
        self.network, self.effects, self.copies = network, effects, copies
        model = Model(network)  # raises for a rule without a fluid model
        self.backlogs, self.crossing = model.backlogs, model.crossing
        self.dice = np.random.default_rng(seed)
        self.backlog = self.backlogs.knots[:, 0] + self.backlogs.at_loss(np.array(3e-3))
        self.backlog = np.minimum(self.backlog, self.backlogs.scale)
        shape = (copies, network.paths)
        self.window = np.full(shape, 10.0)
        self.since, self.between, self.recovering = np.ones(shape), np.ones(shape), np.zeros(shape)
        self.laws = [
            (Law(group.law.name), group.paths, _tiled(group.starts, copies))
            for group in model.groups
        ]

    def advance(self, step: float) -> tuple[Array, Array, Array]:
        """Rates delivered and windows of the paths, losses of the links; then one step."""
        network = self.network
        waiting, _ = self.backlogs.waiting(self.backlog)
        loss, _ = self.backlogs.loss(self.backlog)
        wait = self.crossing @ (waiting / network.capacity)
        rtt = network.base_rtt + wait
        kept = np.log1p(-loss) + np.log1p(-network.queues.random_loss)
        q = -np.expm1(self.crossing @ kept)
        flight = self.window - 0.5 if self.effects.whole_packets else self.window
        rate = flight / rtt
        increase, decrease = self._rule(rtt, wait)

        before = self.window.mean(axis=0)
        free = self.recovering <= 0
        lost = free & (self.dice.random(rate.shape) < -np.expm1(-q * rate * step))
        grown = self.window + free * increase * rate * (1 - q) * step
        self.window = np.maximum(np.where(lost, self.window - decrease, grown), 1.0)
        self.since = self.since + rate * step
        self.between = np.where(lost, self.since, self.between)
        self.since = np.where(lost, 0.0, self.since)
        self.recovering = np.where(lost, rtt * self.effects.recovery, self.recovering - step)

        mean = rate.mean(axis=0)
        excess = (1 - loss) * (network.routes @ mean) - network.capacity
        self.backlog = np.maximum(self.backlog + excess * step, 0.0)
        return mean * (1 - q), before, loss

    def _rule(self, rtt: Array, wait: Array) -> tuple[Array, Array]:
        """I and D of all copies."""
        network = self.network
        increase, decrease = np.empty_like(self.window), np.empty_like(self.window)
        interval = np.maximum(np.maximum(self.since, self.between), 1.0)
        for law, paths, starts in self.laws:
            rtts, base_rtts, delays = (
                np.tile(column[paths], self.copies)
                for column in (rtt, network.base_rtt, network.service + wait)
            )
            window, packets = self.window[:, paths].ravel(), interval[:, paths].ravel()
            states = States(starts, window, rtts, base_rtts, delays, packets)
            found = law.evaluate(states)
            increase[:, paths], decrease[:, paths] = (v.reshape(self.copies, -1) for v in found)
        return increase, decrease


def _tiled(starts: Array, copies: int) -> Array:
    """The users of `starts`, repeated `copies` times."""
    first = np.arange(copies)[:, None] * starts[-1] + starts[None, :-1]
    return np.append(first.ravel(), copies * starts[-1]).astype(np.int64)
