"""Network utility maximisation: the problem, and a solution with its certificate."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from anabranch.scenario import ScenarioError
from anabranch.theory.array import Array
from anabranch.theory.network import Network

ACCEPTED_GAP, ACCEPTED_MISMATCH = 1e-5, 1e-3
"""The largest gap and mismatch of an answer that is accepted."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Links, paths and users; all rates in one unit of the caller's choice."""

    capacity: Array
    routes: sparse.csr_array
    """Links by paths: how often a path crosses a link."""
    sums: sparse.csr_array
    """Users by paths: the matrix that sums over the paths of a user."""
    weight: Array
    """Weight of each user's utility."""
    floor: Array
    """The least rate of each path."""
    links: Sequence[str]
    users: Sequence[str]
    """Names for messages."""

    @classmethod
    def of(
        cls, network: Network, weight: Array | float = 1.0, floor: Array | float = 0.0
    ) -> "Problem":
        """The problem of a network, in Mbps of goodput; `floor` in Mbps."""
        return cls(
            capacity=network.goodput_mbps(network.capacity),
            routes=network.routes,
            sums=network.sums,
            weight=np.broadcast_to(np.asarray(weight, dtype=float), network.users),
            floor=np.broadcast_to(np.asarray(floor, dtype=float), network.paths),
            links=network.links,
            users=[f"flow {flow}" for flow in network.flows],
        )

    @property
    def room(self) -> Array:
        """Capacity of each link less the floors of its paths."""
        return np.asarray(self.capacity - self.routes @ self.floor)

    def check(self) -> None:
        """Raise `ScenarioError` for a problem that is infeasible or unbounded."""
        over = np.flatnonzero(self.room < -1e-9 * self.capacity)
        if len(over):
            worst = over[np.argmin(self.room[over] / self.capacity[over])]
            least = self.capacity[worst] - self.room[worst]
            raise ScenarioError(
                f"infeasible: the least rates of the paths over link {self.links[worst]} add up to "
                f"{least:.6g}, and it has {self.capacity[worst]:.6g}: "
                "lower the probing, the number of users, or raise its rate"
            )
        free = np.flatnonzero(np.diff(self.routes.tocsc().indptr) == 0)
        if len(free):
            user = self.users[int(self.sums.tocsc().indices[free[0]])]
            raise ScenarioError(
                f"unbounded: a path of {user} crosses no link, so nothing limits its rate"
            )


@dataclass(frozen=True, eq=False)
class Solution:
    """The best rates and the prices that prove it."""

    rate: Array
    """Rate of each path."""
    price: Array
    """Price of each link: the utility of one more unit of its capacity."""
    solver: str
    iterations: int
    gap: float = np.inf
    """Upper bound on the utility that is missing, over what users pay (`sum_u w_u U'(y_u) y_u`)."""
    mismatch: float = np.inf
    """Mismatch of the worst user: |U' - price of its cheapest path| / U'.

    A user that pays a negligible part of what all pay has no effect on the gap.
    """

    @property
    def accepted(self) -> bool:
        """Whether it is close enough to the optimum, in sum and for every user."""
        return self.gap <= ACCEPTED_GAP and self.mismatch <= ACCEPTED_MISMATCH
