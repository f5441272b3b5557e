"""A scenario as arrays: links, paths and the users that own them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy import sparse

from anabranch.core_types import Link, PlainNetwork
from anabranch.scenario import Scenario, ScenarioError
from anabranch.theory.array import Array


@dataclass(frozen=True, eq=False)
class Queues:
    """Queues and random loss of the links; an entry for each link."""

    red: Sequence[Array | None]
    """RED's curve as rows (queue in packets, drop probability), linear between; None: drop-tail."""
    limit: Array
    """Packets that may wait; infinite where there is no limit."""
    random_loss: Array
    """Probability that a packet is lost on the wire."""
    unmodelled: str | None = None
    """The key and value of what the equations of queues do not describe."""


@dataclass(frozen=True, eq=False)
class Network:
    """Users, each with one path or several, over links. Rates are packets/s, times s."""

    links: Sequence[str]
    capacity: Array
    """Capacity of each link, packets/s: its rate, or its policer's."""
    queues: Queues
    routes: sparse.csr_array
    """Links by paths: how often a path crosses a link."""
    base_rtt: Array
    """Base RTT of each path, s: propagation both ways, and one packet's transmission on each
    link."""
    service: Array
    """The part of `base_rtt` that is transmission."""
    starts: Array
    """The paths of user u are those from `starts[u]` to `starts[u + 1]`; int64."""
    algorithms: Sequence[str]
    """Algorithm of each user."""
    flows: Sequence[str]
    """Flow's name of each user."""
    packet_bits: float
    """Bits of a full packet on the wire."""
    payload_bits: float
    """The part of `packet_bits` that counts as goodput."""
    scenario: str = "scenario"
    """The name of the scenario."""

    @property
    def users(self) -> int:
        return len(self.starts) - 1

    @property
    def paths(self) -> int:
        return int(self.starts[-1])

    @property
    def user_of_path(self) -> Array:
        return np.repeat(np.arange(self.users), np.diff(self.starts))

    @property
    def sums(self) -> sparse.csr_array:
        """Users by paths: the matrix that sums over the paths of a user."""
        ones = np.ones(self.paths)
        shape = (self.users, self.paths)
        return sparse.csr_array((ones, np.arange(self.paths), self.starts), shape=shape)

    def links_of_paths(self) -> list[list[str]]:
        """The names of the links of each path, in the order of `links`."""
        columns = sparse.csc_array(self.routes)
        names = np.array(self.links, dtype=object)
        return [list(names[columns.indices[a:b]]) for a, b in pairwise(columns.indptr)]

    def of_paths(self, there: Array) -> "Network":
        """The network with only these paths (a bool for each), and the users that have one."""
        own = np.flatnonzero(there)
        sizes = self.sums @ there.astype(float)
        users = np.flatnonzero(sizes)
        return replace(
            self,
            routes=sparse.csr_array(self.routes[:, own]),
            base_rtt=self.base_rtt[own],
            service=self.service[own],
            starts=np.concatenate([[0], np.cumsum(sizes[users])]).astype(np.int64),
            algorithms=[self.algorithms[user] for user in users.tolist()],
            flows=[self.flows[user] for user in users.tolist()],
        )

    def goodput_mbps(self, rate: Array) -> Array:
        """Payload at a rate in packets/s."""
        return np.asarray(rate * self.payload_bits / 1e6)

    @classmethod
    def of(cls, scenario: Scenario, algorithm: str | None = None) -> "Network":
        """All links and users of a scenario, regardless of when they are present.

        `algorithm` replaces the scenario's own choice, as in `run`. Raises `ScenarioError`.

        >>> from anabranch import load
        >>> network = Network.of(load("examples/two_links.toml"))
        >>> network.users, network.paths, network.links
        (11, 12, ['left', 'right'])
        """
        chosen = scenario if algorithm is None else scenario.with_algorithm(algorithm)
        plain = chosen.network()
        links, flows = plain["links"], plain["flows"]
        for flow in flows:
            if flow["packet_bytes"] != plain["packet_bytes"]:
                raise ScenarioError(
                    f"flow {flow['name']}: packets of {flow['packet_bytes']} bytes beside those of "
                    f"{plain['packet_bytes']} have no model, which counts links in packets: run it "
                    "on sim, or remove packet_bytes of the flow"
                )
        bits = plain["packet_bytes"] * 8
        line = np.array([link["rate_mbps"] * 1e6 / bits for link in links])
        policer = [link["policer_mbps"] for link in links]
        policed = np.array([np.inf if mbps is None else mbps * 1e6 / bits for mbps in policer])
        capacity = np.minimum(line, policed)
        delay = np.array([link["delay_ms"] / 1e3 for link in links])
        users = [flow for flow in flows for _ in range(flow["count"])]
        paths = [path for user in users for path in user["paths"]]
        routes = _routes([path["links"] for path in paths], len(links))
        back = np.array([path["return_delay_ms"] / 1e3 for path in paths])
        service = routes.T @ (1 / line)
        return cls(
            links=[link["name"] for link in links],
            capacity=capacity,
            queues=_queues(plain),
            routes=routes,
            base_rtt=routes.T @ delay + service + back,
            service=service,
            starts=np.cumsum([0] + [len(user["paths"]) for user in users], dtype=np.int64),
            algorithms=[user["algorithm"] for user in users],
            flows=[user["name"] for user in users],
            packet_bits=float(bits),
            payload_bits=float(bits - 8 * plain["header_bytes"]),
            scenario=scenario.name or "scenario",
        )


def _routes(links_of_paths: Sequence[Sequence[int]], links: int) -> sparse.csr_array:
    rows = np.array([link for path in links_of_paths for link in path], dtype=np.int64)
    lengths = [len(path) for path in links_of_paths]
    columns = np.repeat(np.arange(len(lengths)), lengths)
    shape = (links, len(lengths))
    return sparse.csr_array(sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape=shape))


def _queues(plain: PlainNetwork) -> Queues:
    links, packet_bytes = plain["links"], plain["packet_bytes"]

    def limit(link: Link) -> float:
        packets = float("inf") if link["limit_packets"] is None else link["limit_packets"]
        in_bytes = float("inf") if link["limit_bytes"] is None else link["limit_bytes"]
        return min(packets, in_bytes / packet_bytes)

    return Queues(
        red=[None if link["red"] is None else np.array(link["red"]) for link in links],
        limit=np.array([limit(link) for link in links]),
        random_loss=np.array([link["loss_probability"] for link in links]),
        unmodelled=_unmodelled(plain),
    )


def _unmodelled(plain: PlainNetwork) -> str | None:
    other = [link for link in plain["links"] if link["queue"] not in ("drop_tail", "red")]
    if other:
        return f"links.{other[0]['name']}.queue: {other[0]['queue']}"
    return "tcp.ecn: ECN" if plain["ecn"] else None
