"""Contents of a file of measurements: connections, their paths, and samples over time."""

import pathlib
from dataclasses import dataclass


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
