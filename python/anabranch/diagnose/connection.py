"""A connection and its paths, as samples of ss show them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from anabranch.diagnose.inputs import Evidence
from anabranch.readers.ss import Output, Socket, group_of, times_of

FLAGS = re.compile(r"\btcp-ulp-mptcp flags:(\S+)")
PACING = re.compile(r"\bpacing_rate (\d+)bps(?:/(\d+)bps)?")
DELIVERY = re.compile(r"\bdelivery_rate (\d+)bps")
RETRANS = re.compile(r"\bretrans:(\d+)/(\d+)")
BUFFER = re.compile(r"\bskmem:\([^)]*\btb(\d+)[^)]*\bw(\d+)")
RULE = re.compile(r"(?<!\S)([a-z][a-z0-9_]*)(?: wscale:| rto:| send | cwnd:)")
DEVICE = re.compile(r"\bgroup:-?\d+ .*?\bon:(\S+)")
NUMBER = re.compile(r"\b(write_seq|snd_una):(\d{17,20}|[0-9a-f]{1,16})\b")

FULL_BUSY = 0.9
"""Least share of the time in which a path that its own window holds had data under way."""
FULL_WINDOW = 0.9
"""Least share of the window in flight: between an ACK and the next packet a few are missing."""
PACED_WINDOW = 0.5
"""The same for rules that pace, where a healthy window is 0.6 to 1.5 times what is in flight."""
PACED = ("bbr", "bbr2", "bbr3", "bbr1")
LITTLE_BYTES = 100_000
"""A connection that moved less is idle, or controls a test."""


@dataclass(frozen=True)
class Moment:
    """A path in one sample."""

    socket: Socket

    def number(self, name: str) -> float:
        """A field; those that are 0 are not printed."""
        return self.socket.fields.get(name, 0.0)

    @cached_property
    def is_captured(self) -> bool:
        """Whether a capture says it: window, rule and what waits are unknown."""
        return self.socket.text.startswith("captured ")

    @cached_property
    def is_logged(self) -> bool:
        """Whether a qlog says it: rule and what waits are unknown."""
        return self.socket.text.startswith("logged ")

    @property
    def unsent_bytes(self) -> float | None:
        """Data given to the path and not sent; None where only ss says it."""
        return None if self.is_captured or self.is_logged else self.number("notsent")

    @cached_property
    def rtt_ms(self) -> float | None:
        """Smoothed RTT; None before the first sample of it."""
        return self.socket.fields.get("rtt")

    @cached_property
    def queue_ms(self) -> float | None:
        """RTT above the least."""
        least = self.socket.fields.get("minrtt")
        return None if least is None or self.rtt_ms is None else self.rtt_ms - least

    @cached_property
    def retransmitted(self) -> int:
        """Packets sent again since the start."""
        match = RETRANS.search(self.socket.text)
        return int(match[2]) if match else 0

    @cached_property
    def buffer(self) -> tuple[int, int] | None:
        """Size of the send buffer and bytes in it; None without `-m`."""
        match = BUFFER.search(self.socket.text)
        return (int(match[1]), int(match[2])) if match else None

    @cached_property
    def pacing_mbps(self) -> tuple[float, float | None] | None:
        """Pacing rate, and its limit by the program; None where ss prints none."""
        match = PACING.search(self.socket.text)
        if not match:
            return None
        return int(match[1]) / 1e6, int(match[2]) / 1e6 if match[2] else None

    @property
    def is_full(self) -> bool:
        """Whether the window is in flight."""
        in_flight, window = self.number("unacked"), self.number("cwnd")
        if self.rule in PACED:
            waits = self.number("notsent") > 2 * self.number("mss")
            return in_flight >= PACED_WINDOW * window and waits
        return window > 0 and in_flight >= FULL_WINDOW * window

    @cached_property
    def rule(self) -> str:
        """Name of the congestion control."""
        match = RULE.search(self.socket.text)
        return match[1] if match else ""


@dataclass(frozen=True)
class Path:
    """A subflow, or the only path of plain TCP."""

    local: str
    remote: str
    address: str
    """Local address, without port and device."""
    device: str | None
    moments: tuple[Moment, ...]
    """In the samples that have it."""
    seconds: float | None
    """Between its first and last sample; None where that is not known."""

    @property
    def last(self) -> Moment:
        """The path in its last sample."""
        return self.moments[-1]

    @property
    def name(self) -> str:
        """Device, or address where no file says the device."""
        return self.device or self.address

    @cached_property
    def flags(self) -> str:
        """Flags of tcp-ulp-mptcp; "" for plain TCP."""
        match = FLAGS.search(self.last.socket.text)
        return match[1] if match else ""

    @property
    def joining(self) -> bool:
        """Whether nobody has answered its SYN."""
        return self.last.socket.state == "SYN-SENT"

    def grown(self, name: str) -> float:
        """Growth of a counter between its first and last sample, or its value in the only one."""
        if len(self.moments) == 1:
            return self.last.number(name)
        return self.last.number(name) - self.moments[0].number(name)

    @cached_property
    def rate_mbps(self) -> float | None:
        """Rate at which the peer acknowledged data."""
        return self.grown("bytes_acked") * 8e-6 / self.seconds if self.seconds else None

    @cached_property
    def seen_mbps(self) -> float | None:
        """Rate between the samples; of one sample that of its last flight, which is no mean."""
        if self.rate_mbps is not None:
            return self.rate_mbps
        match = DELIVERY.search(self.last.socket.text)
        return int(match[1]) / 1e6 if match else None

    @cached_property
    def busy_share(self) -> float | None:
        """Share of the time with data under way; of one sample that since the first data."""
        if self.seconds:
            return self.grown("busy") / 1e3 / self.seconds
        return None

    @cached_property
    def window_is_full(self) -> bool:
        """Whether its own window holds it: always busy, and the window in flight in a sample."""
        if (self.busy_share if self.busy_share is not None else 1.0) < FULL_BUSY:
            return False
        return any(moment.is_full for moment in self.moments)

    @cached_property
    def full_moments(self) -> tuple[Moment, ...]:
        """The samples in which the window is in flight."""
        return tuple(moment for moment in self.moments if moment.is_full)

    @cached_property
    def retransmitted_share(self) -> float | None:
        """Share of its bytes sent again between the samples."""
        sent = self.grown("bytes_sent")
        return self.grown("bytes_retrans") / sent if sent > 0 else None


@dataclass(frozen=True)
class Connection:
    """The connection that is asked about."""

    paths: tuple[Path, ...]
    token: str | None
    """Token of this end; None for plain TCP."""
    totals: tuple[Socket, ...]
    """The line of `ss -M` in each sample, none without."""
    seconds: float | None
    others: int
    """Connections that moved less."""
    port: str
    """Port of the peer."""

    @property
    def is_multipath(self) -> bool:
        """Whether the program asked for Multipath TCP, even if the peer did not answer."""
        return bool(self.totals) or any(path.flags for path in self.paths)

    @cached_property
    def fell_back(self) -> bool:
        """Whether the peer did not answer in Multipath TCP."""
        if any(re.search(r"(?<!\S)fallback(?!\S)", total.text) for total in self.totals):
            return True
        known = [path.flags for path in self.paths if path.flags and not path.joining]
        return bool(known) and not any("M" in flags or "J" in flags for flags in known)

    @property
    def is_logged(self) -> bool:
        """Whether it is one of QUIC, by a qlog."""
        return self.paths[0].last.is_logged

    @property
    def used(self) -> tuple[Path, ...]:
        """The paths that are established."""
        return tuple(path for path in self.paths if not path.joining)

    @cached_property
    def goodput_mbps(self) -> float | None:
        """Sum of the rates, less what was sent over two paths where ss says it."""
        rates = [path.rate_mbps for path in self.paths]
        return sum(r for r in rates if r is not None) if any(r is not None for r in rates) else None

    @cached_property
    def outstanding_bytes(self) -> tuple[int, ...]:
        """Unacknowledged data of the connection in each sample; empty without `-M`."""
        found = []
        for total in self.totals:
            numbers = dict(NUMBER.findall(total.text))
            if len(numbers) == 2:
                # Before iproute2 6.5 in hexadecimal, of at most 16 digits; decimals have 17 to 20,
                # but for one number of 2000.
                base = 16 if max(map(len, numbers.values())) <= 16 else 10
                found.append(
                    (int(numbers["write_seq"], base) - int(numbers["snd_una"], base)) % (1 << 64)
                )
        return tuple(found)

    @cached_property
    def window_bytes(self) -> int | None:
        """Largest receive window that a sample shows; None before Linux 5.18."""
        windows = [
            moment.socket.fields["snd_wnd"]
            for path in self.used
            for moment in path.moments
            if "snd_wnd" in moment.socket.fields
        ]
        return int(max(windows)) if windows else None

    @cached_property
    def buffers(self) -> tuple[tuple[int, int], ...]:
        """Size of the send buffer, and bytes in it, in each sample that says it."""
        if self.totals:
            found = [BUFFER.search(total.text) for total in self.totals]
            return tuple((int(m[1]), int(m[2])) for m in found if m)
        first = self.used[0] if self.used else None
        if first is None or self.is_multipath:
            return ()
        return tuple(m.buffer for m in first.moments if m.buffer is not None)


def connection_of(evidence: Evidence, peer: str = "") -> Connection | None:
    """The connection that moved most, to a peer if one is given; None where no sample has one."""
    samples = evidence.samples
    groups: dict[str, dict[tuple[str, str], None]] = {}
    for output in samples:
        for key, socket in output.sockets.items():
            if socket.state in ("LISTEN", "TIME-WAIT", "LAST-ACK", "FIN-WAIT-1", "FIN-WAIT-2"):
                continue
            groups.setdefault(group_of(key, socket), {})[key] = None
    times = times_of(samples) if samples else []
    candidates = [
        (name, _paths(list(keys), samples, times, evidence)) for name, keys in groups.items()
    ]
    candidates = [(name, paths) for name, paths in candidates if paths and _is_to(paths, peer)]
    if not candidates:
        return None
    name, paths = max(candidates, key=lambda one: _moved(one[1], len(samples)))
    key = (paths[0].local, paths[0].remote)
    token = name.removeprefix("token ") if name.startswith("token ") else None
    totals = _totals(samples, key, token)
    seconds = times[-1] - times[0] if len(times) > 1 else None
    port = paths[0].remote.rpartition(":")[2]
    return Connection(paths, token, totals, seconds, len(candidates) - 1, port)


def _is_to(paths: Sequence[Path], peer: str) -> bool:
    """Whether a path leads to an address, or to an address and port; "" is any."""
    for path in paths:
        host, _, port = path.remote.rpartition(":")
        address = host.strip("[]").partition("%")[0].removeprefix("::ffff:")
        if peer in ("", address, f"{address}:{port}", f"[{address}]:{port}"):
            return True
    return False


def _moved(paths: Sequence[Path], samples: int) -> tuple[float, float]:
    """Bytes between the samples, and in all: one that has ended may have moved more before."""
    counters = ("bytes_acked", "bytes_received")
    grown = [max(p.grown(n) for n in counters) for p in paths if len(p.moments) > 1 or samples < 2]
    return sum(grown), sum(max(p.last.number(n) for n in counters) for p in paths)


def _paths(
    keys: list[tuple[str, str]], samples: Sequence[Output], times: Sequence[float], of: Evidence
) -> tuple[Path, ...]:
    found = []
    for local, remote in keys:
        seen = [
            (i, o.sockets[local, remote])
            for i, o in enumerate(samples)
            if (local, remote) in o.sockets
        ]
        seconds = times[seen[-1][0]] - times[seen[0][0]] if times and len(seen) > 1 else None
        host, _, _ = local.rpartition(":")
        host, _, device = host.partition("%")
        address = host.strip("[]").removeprefix("::ffff:")
        named = device or (of.here.addresses or {}).get(address)
        if named is None and (captured := DEVICE.search(seen[-1][1].text)):
            named = captured[1]
        moments = tuple(Moment(socket) for _, socket in seen)
        found.append(Path(local, remote, address, named or None, moments, seconds))
    # The first subflow, whose flags have no J, before those that joined.
    return tuple(sorted(found, key=lambda path: "j" in path.flags.lower()))


def _totals(
    samples: Sequence[Output], key: tuple[str, str], token: str | None
) -> tuple[Socket, ...]:
    found = []
    for output in samples:
        for at, total in output.connections.items():
            said = re.search(r"\btoken:([0-9a-f]+)", total.text)
            same = said and token and said[1].lstrip("0") == token
            if same or (at == key and not token):
                found.append(total)
    return tuple(found)
