"""The equilibrium of a network: phi_r = q_r on used paths, (1 - p_l) y_l = c_l on full links."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from anabranch.theory.array import Array
from anabranch.theory.fluid import rounds
from anabranch.theory.fluid.model import Point
from anabranch.theory.fluid.newton import TOLERANCE, Tick, search
from anabranch.theory.network import Network

UNITS = {"window": "_packets", "rate": "_packets_per_s", "rtt": "_s", "path_loss": ""}


@dataclass(frozen=True, eq=False)
class Equilibrium:
    """Stationary windows and queues, all flows of the network present."""

    network: Network
    window: Array
    """Window of each path, packets; 1 on a path that is in use for probing only."""
    rate: Array
    """x_r of each path, packets/s sent."""
    rtt: Array
    """Round-trip time of each path, s."""
    path_loss: Array
    """q_r, a probability."""
    backlog: Array
    """z_l of each link, packets: what waits, and a price beyond it (`fluid.queues.Backlogs`)."""
    waiting: Array
    """Queue of each link, packets."""
    loss: Array
    """p_l, the probability that the queue drops a packet."""
    residual: float
    """Largest of |I - q D| / (q D + D/w^2) and |y - c| / c, where neither is held by its bound;
    of rules that act once per round trip, the largest relative change of a mean window."""
    steps: int
    """Steps of the search; for rules that act once per round trip, rounds."""
    isolated: bool
    """Whether no other equilibrium is near. If not, the rule leaves the split open."""

    @classmethod
    def of(
        cls, network: Network, at: Point | rounds.Means, residual: float, steps: int, isolated: bool
    ) -> "Equilibrium":
        """At this point of the model, or at these means over rounds."""
        return cls(
            network=network,
            window=at.window,
            rate=at.rate,
            rtt=at.rtt,
            path_loss=at.path_loss,
            backlog=at.backlog,
            waiting=at.waiting,
            loss=at.loss,
            residual=residual,
            steps=steps,
            isolated=isolated,
        )

    @property
    def load(self) -> Array:
        """y_l, packets/s offered to each link."""
        return np.asarray(self.network.routes @ self.rate)

    @property
    def goodput_mbps(self) -> Array:
        """Goodput of each path, Mbps."""
        return self.network.goodput_mbps(self.rate * (1 - self.path_loss))

    @property
    def share(self) -> Array:
        """Share of each user in the goodput of all."""
        users = self.network.sums @ self.goodput_mbps
        return np.asarray(users / users.sum())

    @property
    def utilization(self) -> Array:
        """Utilization of each link: the rate that leaves its queue over its capacity."""
        return np.asarray((1 - self.loss) * self.load / self.network.capacity)

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        network, share, utilization = self.network, self.share, self.utilization
        columns = {"goodput_mbps": self.goodput_mbps}
        columns |= {name + unit: getattr(self, name) for name, unit in UNITS.items()}

        def path(number: int) -> dict[str, float]:
            return {name: float(column[number]) for name, column in columns.items()}

        return {
            "scenario": network.scenario,
            "residual": self.residual,
            "steps": self.steps,
            "isolated": self.isolated,
            "users": [
                {
                    "flow": flow,
                    "algorithm": network.algorithms[user],
                    "share": float(share[user]),
                    "paths": list(map(path, range(*network.starts[user : user + 2]))),
                }
                for user, flow in enumerate(network.flows)
            ],
            "links": [
                {
                    "link": link,
                    "loss_probability": float(self.loss[number]),
                    "queue_packets": float(self.waiting[number]),
                    "utilization": float(utilization[number]),
                }
                for number, link in enumerate(network.links)
            ],
        }


def equilibrium(
    network: Network, tolerance: float = TOLERANCE, tick: Tick | None = None
) -> Equilibrium:
    """Find it: by Newton's method, or by rounds where a rule acts once per round trip.

    `tolerance`: of Newton's residual. `tick` is called at each step
    and may raise to stop the search. Raises `NotConverged`, and `ScenarioError` for a rule without
    a fluid model.
    """
    if rounds.needed(network):
        mean = rounds.settle(network, tick)
        return Equilibrium.of(network, mean, mean.residual, mean.rounds, isolated=True)
    found = search(network, tolerance, tick)
    return Equilibrium.of(network, found.point, found.residual, found.steps, found.isolated())
