"""The types of the plain data that `_core` gives: networks, rules and tables."""

from typing import Literal, NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Link(TypedDict):
    """A link of `Scenario.network()`."""

    name: str
    rate_mbps: float
    """The rate, or the mean rate of the trace, Mbps."""
    delay_ms: float
    """Propagation delay, one way."""
    loss_probability: float
    """Mean loss probability of random losses."""
    down_s: list[tuple[float, float]]
    """When the link is down: from, to."""
    queue: Literal["drop_tail", "red", "pie", "policer", "codel", "fq_codel", "dualpi2"]
    """The queueing discipline."""
    red: list[tuple[float, float]] | None
    """The curve of RED as points (queue in packets, drop probability); None: another discipline."""
    limit_packets: int | None
    """Packets that may wait; None: any number."""
    limit_bytes: int | None
    """Bytes that may wait; None: any number."""
    policer_mbps: float | None
    """Rate of a policer; None: another discipline."""
    more: list[Literal["rate", "delay", "jitter", "reorder", "loss", "bursts", "periodic", "arq"]]
    """Features that change rate, delay or losses, beyond the numbers above."""


class NetworkPath(TypedDict):
    """A path of a flow of `Scenario.network()`."""

    links: list[int]
    """Indexes of its links, in the order in which packets cross them."""
    back: list[int]
    """Indexes of the links that bring acknowledgements back; none if they are only delayed."""
    return_delay_ms: float
    """Delay of acknowledgements, without queues."""
    start_s: float
    """When the path opens."""


class Flow(TypedDict):
    """A flow of `Scenario.network()`: `count` users alike."""

    name: str
    count: int
    packet_bytes: int
    """Size of its full packets on the wire, headers included."""
    algorithm: str
    start_s: float
    start_spread_s: float
    """Users start within this time after `start_s`, as far as the file states it; else 0."""
    stop_s: float | None
    """None: the end of the run."""
    paths: list[NetworkPath]
    workload: Literal["bulk", "file", "on_off", "poisson", "gateway", "messages", "media"]
    bytes: NotRequired[int]
    """Size of the file, where `workload` is "file"."""
    on_s: NotRequired[float]
    """Length of a period of sending, where `workload` is "on_off"."""
    off_s: NotRequired[float]
    """Length of a pause, where `workload` is "on_off"."""


class PlainNetwork(TypedDict):
    """A scenario as plain data, for theory."""

    packet_bytes: int
    """Size of a full packet on the wire, headers included."""
    header_bytes: int
    """The part of a packet that is not payload."""
    initial_window_packets: float
    receive_buffer_packets: int
    """Packets that may be outstanding of a connection, over all its paths."""
    sample_s: float
    """Time between two samples."""
    ecn: bool
    """Whether endpoints use ECN."""
    links: list[Link]
    flows: list[Flow]


class Parameter(TypedDict):
    """A parameter of a rule."""

    name: str
    default: float
    min: float
    max: float
    """May be infinite."""
    choices: list[float]
    """The only allowed values; empty where every value from `min` to `max` is allowed."""
    unit: str
    """Empty for a pure number."""
    meaning: str


class RuleInfo(TypedDict):
    """Entry of one rule in the table of rules."""

    name: str
    aliases: list[str]
    summary: str
    source: str
    parameters: list[Parameter]
    delay_based: bool
    """It acts once per round trip and has no increase per acknowledged packet."""
    by_rate: bool
    """It acts on samples of the delivery rate, paces, and has no increase either."""
    scalable: bool
    """It reduces by the share of packets that are marked, where acknowledgements count them."""
    """In slow start it grows in every other round trip only."""
    fluid: bool
    """Whether the increase and decrease at a state describe the rule, so that it has a fluid
    model."""
    reno_on_one_path: bool
    """With its defaults it is NewReno over one path."""
    equilibrium_by_loss: bool
    """Windows and RTTs alone give the loss probability of its equilibrium."""
    increase_cancels: bool
    """Whether the increase is a difference of two terms that may cancel."""
    leaves_capacity: str | None
    caution: str | None
    """Why it does not use 95 % of every set of paths where it is alone."""
    keeps_overshoot: bool
    """Whether an overshoot of slow start lasts for minutes."""
    weight: str | None
    """The parameter that is a connection's weight and may change during a connection."""
    variant_of: str | None
    """The rule that this one is another reading of."""
    studied_as: str
    """The specification that a study of all rules runs."""
    linux_name: str
    """Name in Linux, if it is there."""


Column = list[str] | Floats | Integers
Tables = dict[str, dict[str, Column]]
"""Measurements of a run: columns of equal length by table; `_core.columns()` has their meanings.

Totals are over the measurement window. NaN: not measured.
"""

Served = TypedDict(
    "Served",
    {
        "class": Integers,  # index of the class
        "arrival_s": Floats,
        "service_s": Floats,  # service time with the whole server
        "sojourn_s": Floats,  # from arrival to the end of service
        "workload_s": Floats,  # work in each queue at the arrival; files by queues
    },
)
"""The files that `share` served, in the order of their arrival."""
