"""The choice of the connections of a file that are those of a flow."""

from collections.abc import Sequence
from dataclasses import dataclass

from anabranch._core import ScenarioError
from anabranch.files import size
from anabranch.readers.connection import Connection, Recording

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
