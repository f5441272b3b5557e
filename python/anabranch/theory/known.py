"""Features of scenarios that each model of theory knows: one table; the rest is refused."""

from collections.abc import Iterator, Mapping
from typing import Literal

import numpy as np

from anabranch.core_types import Link, PlainNetwork
from anabranch.scenario import Scenario, ScenarioError
from anabranch.theory.array import Array
from anabranch.theory.network import Network

Model = Literal["optimum", "fixed point", "equilibrium", "fluid"]

RATES: frozenset[Model] = frozenset({"optimum"})
CAPACITY: frozenset[Model] = frozenset({"optimum", "fixed point"})
QUEUES: frozenset[Model] = frozenset({"equilibrium", "fluid"})
NONE: frozenset[Model] = frozenset()

KNOWN: Mapping[str, tuple[frozenset[Model], str]] = {
    # Links, whose rate bounds what the optimum and the fixed points of the rules can have.
    "policer": (CAPACITY, "a policer"),
    "pie": (CAPACITY, "pie"),
    "codel": (CAPACITY, "codel"),
    "fq_codel": (CAPACITY, "fq_codel"),
    "dualpi2": (CAPACITY, "dualpi2"),
    "losses": (QUEUES, "random losses"),
    "bursts": (NONE, "losses in bursts"),
    "periodic": (NONE, "losses in equal distances"),
    "loss": (NONE, "a loss probability that changes"),
    "arq": (NONE, "retransmissions of the link (ARQ)"),
    "rate": (NONE, "a rate that changes"),
    "delay": (RATES, "a delay that changes"),
    "jitter": (RATES, "jitter"),
    "reorder": (RATES, "reordering"),
    # Flows and endpoints.
    "back": (NONE, "a way back over links (back)"),
    "ecn": (CAPACITY, "ECN"),
    "receive_buffer": (NONE, "a receive buffer that limits the window"),
}
"""Models that know a feature, and its name. Drop-tail and RED, constant rates and delays,
and outages, which end an interval, are known to all; workloads are judged by `schedule`."""

DISCIPLINES = ("policer", "pie", "codel", "fq_codel", "dualpi2")
KEYS = {
    "bursts": "loss",
    "periodic": "loss",
    "losses": "loss",
    "rate": "rate_mbps",
    "delay": "delay_ms",
    "jitter": "jitter_ms",
} | dict.fromkeys(DISCIPLINES, "queue")
"""Keys of a link that differ from the feature."""

PLACES: Mapping[Model, str] = {
    "optimum": "in the optimum",
    "fixed point": "at the fixed points",
    "equilibrium": "on equilibrium",
    "fluid": "on fluid",
}


def check(scenario: Scenario, model: Model) -> None:
    """Raise `ScenarioError` for the first feature of a scenario that a model does not know."""
    network = scenario.network()
    for feature, key in _features(network):
        known, words = KNOWN[feature]
        if model not in known:
            raise ScenarioError(_refusal(scenario, key, words, model, feature))


def check_buffer(scenario: Scenario, model: Model, network: Network, window: Array) -> None:
    """Raise `ScenarioError` where users' windows, packets, do not fit into their buffers."""
    buffer = scenario.network()["receive_buffer_packets"]
    used = network.sums @ window
    over = np.flatnonzero(used > buffer * (1 + 1e-6))
    if len(over):
        user = int(over[np.argmax(used[over])])
        words = (
            f"{buffer} packets, and flow {network.flows[user]} needs windows of {used[user]:.0f}; "
            f"{KNOWN['receive_buffer'][1]}"
        )
        key = "tcp.receive_buffer_packets"
        raise ScenarioError(_refusal(scenario, key, words, model, "receive_buffer"))


def _features(network: PlainNetwork) -> Iterator[tuple[str, str]]:
    """The features of a scenario that not all models know, with their keys."""
    for link in network["links"]:
        place = f"links.{link['name']}"
        yield from ((feature, f"{place}.{KEYS.get(feature, feature)}") for feature in _of(link))
    for flow in network["flows"]:
        if any(path["back"] for path in flow["paths"]):
            yield "back", f"flows.{flow['name']}.paths"
    if network["ecn"]:
        yield "ecn", "tcp.ecn"


def _of(link: Link) -> Iterator[str]:
    if link["queue"] in DISCIPLINES:
        yield link["queue"]
    yield from link["more"]
    if link["loss_probability"] > 0 and not {"loss", "bursts", "periodic", "arq"} & set(
        link["more"]
    ):
        yield "losses"


def _refusal(scenario: Scenario, key: str, words: str, model: Model, feature: str) -> str:
    others = [name for name in ("equilibrium", "fluid") if name in KNOWN[feature][0]]
    of_queues = model in QUEUES and (feature in DISCIPLINES or feature == "ecn")
    where = "in the equations of queues" if of_queues else PLACES[model]
    backends = " or ".join([*others, "sim"])
    return (
        f"{scenario.source}: {key}: {words} is not available {where}; run it with --on {backends}"
    )
