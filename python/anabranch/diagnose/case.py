"""Types that the rows of the decision share: the case, a finding, an input that is missing."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from anabranch.diagnose.connection import Connection, Path
from anabranch.diagnose.inputs import Evidence
from anabranch.diagnose.quic import RETAKE

Confidence = Literal["certain", "likely", "possible"]
HostName = Literal["this host", "peer"]

SAMPLES = "ss -tinmM; sleep 5; ss -tinmM"
WINDOW_SHARE = 0.9
"""A sender with less than a window unacknowledged is not held by it."""
HELD_SAMPLES = 0.2
"""Share of the samples in which flow control holds a connection of QUIC."""
IN_FLIGHT_SHARE = 0.5
"""Without `-M`: what arrived out of order fills the window, too, and is in flight on no path."""


@dataclass(frozen=True)
class Fact:
    """A number that a finding rests on."""

    field: str
    value: str
    compared_with: str = ""

    def __str__(self) -> str:
        return f"{self.field} {self.value}" + (f" {self.compared_with}" * bool(self.compared_with))


@dataclass(frozen=True)
class Command:
    """A step of a remedy."""

    host: HostName
    command: str


@dataclass(frozen=True)
class Finding:
    """A row that fires."""

    id: str
    """In causes.toml."""
    facts: tuple[Fact, ...]
    confidence: Confidence
    path: Path | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    """Words in braces of its sentence and remedy."""
    remedy: tuple[Command, ...] = ()
    """Empty: the remedy of causes.toml, on this host."""


@dataclass(frozen=True)
class Missing:
    """An input without which a row cannot be asked."""

    cause: str
    command: str
    why: str


Answer = Finding | Missing | None


@dataclass(frozen=True)
class Case:
    """A connection with all that is known beside it."""

    evidence: Evidence
    connection: Connection

    @property
    def paths(self) -> tuple[Path, ...]:
        """The paths that are established."""
        return self.connection.used

    @property
    def starved(self) -> tuple[Path, ...]:
        """Paths whose own window does not hold them."""
        return tuple(path for path in self.paths if not path.window_is_full)

    @property
    def samples(self) -> int:
        """How many outputs of ss have the connection."""
        return max(len(path.moments) for path in self.connection.paths)

    @property
    def retake(self) -> str:
        """Files to take again."""
        return RETAKE if self.connection.is_logged else SAMPLES

    def endpoint_id(self, path: Path) -> str:
        """Number of the endpoint of a path, N where no input says it."""
        for endpoint in self.evidence.here.endpoints or ():
            if endpoint.address == path.address:
                return str(endpoint.id)
        return "N"

    def rtt_ms(self, path: Path) -> float:
        """Largest smoothed RTT of its samples."""
        return max((m.rtt_ms for m in path.moments if m.rtt_ms is not None), default=0.0)

    def delay_ms(self, path: Path) -> float:
        """RTT and the time that what waits in the subflow's send queue needs."""
        rate = path.rate_mbps or 0.0
        unsent = min(m.number("notsent") for m in path.moments)
        return self.rtt_ms(path) + (unsent * 8e-3 / rate if rate > 0 else 0.0)

    @property
    def slowest(self) -> Path:
        """The path with the largest RTT."""
        return max(self.paths, key=self.rtt_ms)

    @property
    def window_holds(self) -> tuple[Fact, ...]:
        """Numbers that show that the receive window holds the connection; empty if it does not."""
        if self.starved and self.connection.is_logged:
            return self._flow_control
        window = self.connection.window_bytes
        if not self.starved or not window:
            return ()
        if outstanding := self.connection.outstanding_bytes:
            most = max(outstanding)
            if most < WINDOW_SHARE * window:
                return ()
            return (Fact("write_seq - snd_una", f"{most}", f">= 0.9 snd_wnd {window}"),)
        flights = [
            sum(
                path.moments[i].number("unacked") * path.moments[i].number("mss")
                for path in self.paths
                if i < len(path.moments)
            )
            for i in range(self.samples)
        ]
        # A capture of plain TCP has all that fills the window.
        share = WINDOW_SHARE if self.paths[0].last.is_captured else IN_FLIGHT_SHARE
        if max(flights) < share * window:
            return ()
        said = f">= {share} snd_wnd {window}"
        return (Fact("in flight over all paths", f"{max(flights):.0f}", said),)

    @property
    def _flow_control(self) -> tuple[Fact, ...]:
        moments = self.paths[0].moments
        blocked = [moment.number("blocked") for moment in moments]
        credits = [moment.socket.fields.get("credit", math.inf) for moment in moments]
        held = [
            now > before or credit < self.paths[0].last.number("mss")
            for before, now, credit in zip(blocked, blocked[1:], credits[1:], strict=False)
        ]
        if sum(held) < max(1.0, HELD_SAMPLES * len(held)):
            return ()
        said = f"of {len(held)} in which flow control permits no packet"
        frames = Fact("DATA_BLOCKED", f"{blocked[-1]:.0f} sent")
        return (Fact("samples", f"{sum(held)}", said), frames)


def ms(value: float) -> str:
    """Milliseconds with three digits."""
    return f"{value:.3g} ms"


def mbps(value: float) -> str:
    """Mbps with three digits."""
    return f"{value:.3g} Mbps"
