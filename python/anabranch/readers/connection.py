"""Contents of a file of measurements: connections, their paths, and samples over time."""

import pathlib
from collections.abc import Sequence
from dataclasses import dataclass

from anabranch._core import ScenarioError
from anabranch.files import size


@dataclass(frozen=True)
class Sample:
    """State of a path or connection at one time. `rtt_ms`: None where it is not logged."""

    time_s: float
    """Since the first sample of the file."""
    bytes: int
    """Since the connection began, or since the file does where it says no more."""
    rtt_ms: float | None = None


@dataclass(frozen=True)
class MeasuredPath:
    """A subflow of Multipath TCP, or the only path of a connection."""

    local: str
    """Address and port of the end that wrote the file; "" where it does not say."""
    remote: str
    bytes: int
    """Acknowledged by the peer, or received, by the direction of the connection."""
    rtt_ms: float | None = None
    """Mean of the samples' smoothed RTTs."""
    samples: tuple[Sample, ...] = ()


@dataclass(frozen=True)
class Connection:
    """A connection in one direction.

    `goodput_mbps` is payload that arrived, over `seconds`; None where the file does not determine
    it, and then `unknown` is the reason with a remedy.
    """

    label: str
    """Name of the connection in the file, for a person."""
    sent: bool
    """Whether the end that wrote the file sent the data; otherwise it received them."""
    bytes: int
    seconds: float | None
    goodput_mbps: float | None
    unknown: str = ""
    rtt_ms: float | None = None
    """Mean over the paths, weighted by their bytes."""
    paths: tuple[MeasuredPath, ...] = ()
    samples: tuple[Sample, ...] = ()
    reverse: bool = False
    """Whether the data goes from the server to the client of a test in both directions."""
    protocol: str = "TCP"
    lost_share: float | None = None
    """Share of the datagrams of UDP that were lost."""


@dataclass(frozen=True)
class Recording:
    """A file as it was read."""

    file: pathlib.Path
    format: str
    """With the version where the file says it, and the number of outputs in it."""
    connections: tuple[Connection, ...]
    """In the order of the file; numbers count from 1."""


# The choice of the connections of a file that are those of a flow.


CONTROL_SHARE = 0.01
CONTROL_BYTES = 1_000_000
"""A connection with less than both, the share being of the largest, controls a test or is idle."""

LISTED = 20


@dataclass(frozen=True)
class Taken:
    """A connection chosen from a file, and the line that says so."""

    connections: tuple[Connection, ...]
    said: str


def taken(recording: Recording, users: int = 1, number: int | None = None) -> Taken:
    """The connection of a flow, or as many as the flow has users.

    `number`, from 1 on, chooses one; otherwise there must be one with data, or `users` of them. Of
    a test in both directions it is that from the client to the server. Raises `ScenarioError` with
    the list to choose from, and where the file does not say what the goodput was.
    """
    every = recording.connections
    read = f"{recording.file}: {recording.format}: {_rates(every)}"
    if number is not None:
        if not 1 <= number <= len(every):
            raise ScenarioError(f"{read}: no connection #{number}{_list(recording, every)}")
        return _measured(recording, [every[number - 1]], f"{read}; took #{number}")
    largest = max((connection.bytes for connection in every), default=0)
    data = [c for c in every if not _controls(c, largest)]
    forward = [c for c in data if not c.reverse]
    chosen = forward if forward and len(forward) < len(data) else data
    if len(chosen) not in (1, users):
        raise ScenarioError(
            f"{read}: {len(chosen)} have data, and the flow has {_users(users)}: choose one, as in "
            f"FLOW={recording.file}#{every.index(chosen[0]) + 1}{_list(recording, chosen)}"
        )
    said = read
    if len(chosen) > 1:
        said += f"; took {len(chosen)}, one for each user: their mean"
    elif len(every) > 1:
        said += f"; took #{every.index(chosen[0]) + 1}"
    if len(chosen) < len(data):
        said += ", from the client to the server"
    if len(data) < len(every):
        left = len(every) - len(data)
        said += f" ({left} with less than 1 % of its bytes left out, as control connections)"
    if len(every) > len(chosen):
        other = next(i for i, c in enumerate(every, 1) if c not in chosen)
        said += f"; {recording.file}#{other} takes {'the other' if len(every) == 2 else 'another'}"
    if len(chosen) == 1 and users > 1:
        said += f"; it stands for each of {users} users"
    return _measured(recording, chosen, said)


def _measured(recording: Recording, chosen: Sequence[Connection], said: str) -> Taken:
    for connection in chosen:
        if connection.goodput_mbps is None:
            raise ScenarioError(f"{recording.file}: {connection.label}: {connection.unknown}")
    return Taken(tuple(chosen), said)


def _controls(connection: Connection, largest: int) -> bool:
    small = connection.bytes < CONTROL_SHARE * largest
    return small and connection.bytes < CONTROL_BYTES


def _users(users: int) -> str:
    return "1 user" if users == 1 else f"{users} users"


def _rates(connections: Sequence[Connection]) -> str:
    noun = "connection" if len(connections) == 1 else "connections"
    shown = [_rate(connection) for connection in connections[:LISTED]]
    rest = ", ..." if len(connections) > LISTED else ""
    known = any(connection.goodput_mbps is not None for connection in connections)
    return f"{len(connections)} {noun}: {_joined(shown)}{rest}{' Mbps' if known else ''}"


def _joined(parts: Sequence[str]) -> str:
    return " and ".join(parts) if len(parts) < 3 else ", ".join(parts)


def _rate(connection: Connection) -> str:
    rate = connection.goodput_mbps
    return f"unknown ({size(connection.bytes)})" if rate is None else f"{rate:.3g}"


def _list(recording: Recording, connections: Sequence[Connection]) -> str:
    numbers = {id(c): i for i, c in enumerate(recording.connections, 1)}
    rows = [
        f"#{numbers[id(c)]} {c.label} ({_rate(c)}{' Mbps' if c.goodput_mbps is not None else ''})"
        for c in connections[:LISTED]
    ]
    return f": {'; '.join(rows)}"
