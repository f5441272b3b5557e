"""The equilibrium of a scenario, whatever its rules are, and what a person reads of it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from anabranch.scenario import Scenario
from anabranch.theory.fluid import rounds
from anabranch.theory.fluid.newton import Equilibrium, Tick, equilibrium
from anabranch.theory.network import Network


@dataclass(frozen=True, eq=False)
class Balance:
    """A scenario's equilibrium with all its flows present."""

    scenario: str
    found: Equilibrium

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain data for JSON."""
        found, network = self.found, self.found.network
        path = ["window", "rate", "rtt", "path_loss"]
        return {
            "scenario": self.scenario,
            "residual": found.residual,
            "steps": found.steps,
            "isolated": found.isolated,
            "users": [
                {
                    "flow": flow,
                    "algorithm": network.algorithms[user],
                    "share": float(found.share[user]),
                    "paths": [
                        {"goodput_mbps": float(found.goodput_mbps[r])}
                        | {f"{name}{UNITS[name]}": float(getattr(found, name)[r]) for name in path}
                        for r in range(network.starts[user], network.starts[user + 1])
                    ],
                }
                for user, flow in enumerate(network.flows)
            ],
            "links": [
                {
                    "link": link,
                    "loss_probability": float(found.loss[number]),
                    "queue_packets": float(found.waiting[number]),
                    "utilization": float(self.utilization[number]),
                }
                for number, link in enumerate(network.links)
            ],
        }

    @property
    def utilization(self) -> np.ndarray:
        """Of each link: what its queue lets through over its capacity."""
        found, network = self.found, self.found.network
        return np.asarray((1 - found.loss) * (network.routes @ found.rate) / network.capacity)


UNITS = {"window": "_packets", "rate": "_packets_per_s", "rtt": "_s", "path_loss": ""}


def of(scenario: Scenario, algorithm: str | None = None) -> Balance:
    """Find it: by Newton's method, or by rounds where a rule acts once per round trip.

    Raises `NotConverged`, and `ScenarioError` for rules without a model.
    """
    return Balance(scenario.name or "scenario", settled(Network.of(scenario, algorithm)))


def settled(network: Network, tick: Tick | None = None) -> Equilibrium:
    """As `of`, for a network."""
    find = rounds.equilibrium if rounds.needed(network) else equilibrium
    return find(network, tick=tick)
