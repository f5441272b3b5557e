"""Qlog files of a sender over several paths as outputs of ss: what samples would have shown.

Paths by `path_id` (draft-ietf-quic-multipath) or tuple. A log shows windows and what is under way,
but neither the rule nor what waits to be sent.
"""

import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anabranch._core import ScenarioError
from anabranch.qlog import METRICS, WINDOWS, Event, lost_packets, of_event, opened, size_of
from anabranch.readers.ss import Output, Socket

SAMPLES = 20
STEP_MS = 20.0
"""Time between states that are kept, doubled when there are too many."""
KEPT = 4000
RETAKE = "a qlog of the sender, of 10 s or more, with packets and recovery metrics"
REMEDIES = {
    "backup-flag": "send PATH_STATUS_AVAILABLE for {path}, or do not mark it as a backup",
    "loss": "a rule that does not take every loss for congestion, such as bbr",
    "mtu-black-hole": "test the size of packets on {path} (RFC 9000, section 14.3)",
    "path-dead": "abandon {path}, or open the firewall for it",
    "receive-buffer": "raise initial_max_data and initial_max_stream_data, at the receiver",
    "slow-path-blocks": "send PATH_STATUS_BACKUP for {slow}, or raise the receiver's flow control",
}
"""Remedies of causes whose remedy in causes.toml is about TCP."""
STATUS = {
    "path_status_backup": True,
    "path_standby": True,
    "path_status_available": False,
    "path_available": False,
}


@dataclass
class _Path:
    """State of a path so far; times in ms, sizes in bytes."""

    sent: int = 0
    lost: int = 0
    losses: int = 0
    received: int = 0
    largest: int = 0
    in_flight: float = 0.0
    packets: float | None = None
    window: float | None = None
    rtt: float | None = None
    least: float | None = None
    timeouts: float = 0.0
    heard: float | None = None
    busy: float = 0.0
    since: float | None = None
    backup: str = ""


@dataclass
class _Log:
    """A connection."""

    paths: dict[str, _Path] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    """Paths that were abandoned; another path has another number."""
    streams: dict[Any, int] = field(default_factory=dict)
    """End of the data of each stream."""
    credit: int | None = None
    """Data that the peer permits."""
    blocked: int = 0
    """Frames that say that flow control does not permit more."""
    kept: list[tuple[float, dict[str, dict[str, float]], dict[str, str]]] = field(
        default_factory=list
    )

    def take(self, event: Event) -> None:
        """An event."""
        data, now = event.data, event.time_ms
        if event.name == "parameters_set":
            self._permit(data.get("initial_max_data"), data.get("initiator", data.get("owner")))
            return
        if event.name not in (METRICS, "packet_sent", "packet_received", "packet_lost"):
            return
        path = self.paths.setdefault(event.path or "0", _Path())
        if event.name == METRICS:
            _metrics(path, data, now)
        elif event.name == "packet_lost":
            path.lost += (size_of(data) or path.largest) * lost_packets(data)
            path.losses += lost_packets(data)
        elif event.name == "packet_sent":
            path.sent += size_of(data)
            path.largest = max(path.largest, size_of(data))
        else:
            path.received += size_of(data)
            path.heard = now
        for frame in data.get("frames") or ():
            self._frame(frame, sent=event.name == "packet_sent")

    def _permit(self, most: Any, whose: Any) -> None:
        if most is not None and whose in ("remote", "peer"):
            self.credit = max(self.credit or 0, int(most))

    def _frame(self, frame: Mapping[str, Any], *, sent: bool) -> None:
        kind = str(frame.get("frame_type", ""))
        if kind == "stream" and sent:
            raw = frame.get("raw") or {}
            length = frame.get("length", raw.get("payload_length", raw.get("length", 0)))
            end = int(frame.get("offset", 0)) + int(length)
            stream = frame.get("stream_id")
            self.streams[stream] = max(end, self.streams.get(stream, 0))
        elif kind == "max_data" and not sent:
            self._permit(frame.get("maximum"), "remote")
        elif kind in ("data_blocked", "stream_data_blocked") and sent:
            self.blocked += 1
        elif kind == "path_abandon" and "path_id" in frame:
            self.gone.add(str(frame["path_id"]))
        elif kind in STATUS and "path_id" in frame:
            path = self.paths.setdefault(str(frame["path_id"]), _Path())
            path.backup = ("b" if sent else "B") * STATUS[kind]

    def keep(self, now: float) -> None:
        """Note the state of all paths."""
        left = None if self.credit is None else self.credit - sum(self.streams.values())
        states = {name: _fields(path, now) for name, path in self.paths.items()}
        for fields in states.values():
            fields["blocked"] = self.blocked
            if left is not None:
                fields["credit"] = left
        backups = {name: path.backup for name, path in self.paths.items()}
        self.kept.append((now, states, backups))


def _metrics(path: _Path, data: Mapping[str, Any], now: float) -> None:
    for name in WINDOWS:
        path.window = float(data[name]) if data.get(name) is not None else path.window
    rtt = data.get("smoothed_rtt", data.get("latest_rtt"))
    # Before anything has come back it is a guess.
    path.rtt = float(rtt) if rtt is not None and path.heard is not None else path.rtt
    if data.get("min_rtt") is not None:
        path.least = float(data["min_rtt"])
    elif rtt is not None and path.heard is not None:
        path.least = min(float(rtt), path.least or float(rtt))
    path.timeouts = float(data.get("pto_count") or 0) if "pto_count" in data else path.timeouts
    if data.get("packets_in_flight") is not None:
        path.packets = float(data["packets_in_flight"])
    if data.get("bytes_in_flight") is not None:
        path.in_flight = float(data["bytes_in_flight"])
    elif "packets_in_flight" in data and not path.window:
        path.in_flight = path.packets or 0.0
    if path.in_flight and path.since is None:
        path.since = now
    elif not path.in_flight and path.since is not None:
        path.busy += now - path.since
        path.since = None


def _fields(path: _Path, now: float) -> dict[str, float]:
    size = path.largest or 1
    fields = {
        "mss": path.largest,
        "unacked": path.in_flight / size,
        "backoff": path.timeouts,
        "bytes_sent": path.sent,
        "bytes_retrans": path.lost,
        "retrans": path.losses,
        "bytes_acked": max(0.0, path.sent - path.lost - path.in_flight),
        "bytes_received": path.received,
        "busy": path.busy + (now - path.since if path.since is not None else 0.0),
    }
    if path.window is not None:
        fields["cwnd"] = path.window / size
    if path.rtt is not None and path.heard is not None:
        fields |= {"rtt": path.rtt, "minrtt": path.least or path.rtt}
    if path.heard is not None:
        fields["lastack"] = now - path.heard
    return fields


def is_qlog(data: bytes) -> bool:
    """Whether a file begins as one."""
    begin = data[:4096]
    return begin[:1] == b"\x1e" or any(
        name in begin for name in (b'"qlog_version"', b'"qlog_format"', b'"file_schema"')
    )


def read(files: Sequence[pathlib.Path]) -> tuple[list[Output], str]:
    """Samples of the connections of files, and what was read. Raises `ScenarioError`, OSError."""
    logs = [(file, log) for file in files for log in _logs(file)]
    moved = [(file, log) for file, log in logs if any(p.sent for p in log.paths.values())]
    if not moved:
        raise ScenarioError(f"{files[0]}: a qlog without packets that were sent: take {RETAKE}")
    # The logs of both ends may be together: that of the sender says more.
    sends = [log for _, log in moved if _total(log, "sent") > _total(log, "received")]
    found: dict[float, Output] = {}
    for number, log in enumerate(sends or [log for _, log in moved]):
        for time_ms, states, backups in _thinned(log):
            output = found.setdefault(time_ms, Output(time_ms / 1e3))
            for name, fields in states.items():
                if name in log.gone and log.gone < log.paths.keys():
                    continue
                flags = f"tcp-ulp-mptcp flags:{backups[name]} " if backups[name] else ""
                text = f"logged group:{number} on:path{name} retrans:0/{fields['retrans']:g} "
                text += flags + " ".join(f"{key}:{value:g}" for key, value in fields.items())
                local, remote = f"path{name}:{number}", f"peer:{number}"
                output.sockets[local, remote] = Socket(local, remote, text, fields, "ESTAB")
    left = f"; {len(logs) - len(sends)} of receivers left out" if 0 < len(sends) < len(logs) else ""
    outputs = [found[time_ms] for time_ms in sorted(found)]
    return outputs, f"qlog of {len(logs)} connection{'s' * (len(logs) > 1)}{left}"


def _total(log: _Log, name: str) -> int:
    return sum(getattr(path, name) for path in log.paths.values())


def _logs(file: pathlib.Path) -> list[_Log]:
    found = []
    for trace in opened(file, _says_nothing):
        log, step, last = _Log(), STEP_MS, 0.0
        for event in trace.events:
            with of_event(event.place):
                log.take(event)
            last = event.time_ms
            if not log.kept or last >= log.kept[-1][0] + step:
                log.keep(last)
            if len(log.kept) > KEPT:
                log.kept, step = log.kept[::2], 2 * step
        log.keep(last)
        found.append(log)
    return found


def _says_nothing(record: str) -> bool:
    return "timer_updated" in record


def _thinned(log: _Log) -> list[tuple[float, dict[str, dict[str, float]], dict[str, str]]]:
    """States at equal distances while data is sent."""
    sent = [sum(fields["bytes_sent"] for fields in states.values()) for _, states, _ in log.kept]
    inside = [one for one, count in zip(log.kept, sent, strict=True) if count > 0]
    ends = [one for one, count in zip(log.kept, sent, strict=True) if count < sent[-1]]
    inside = [one for one in inside if not ends or one[0] <= ends[-1][0] + STEP_MS] or log.kept
    first, last = inside[0][0], inside[-1][0]
    found: dict[int, None] = {}
    for i in range(SAMPLES + 1):
        at = first + (last - first) * i / SAMPLES
        found[max(n for n, one in enumerate(inside) if one[0] <= at)] = None
    return [inside[n] for n in found]
