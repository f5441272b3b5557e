"""Qlog files of a sender over several paths as outputs of ss: what samples would have shown.

Paths by `path_id` (draft-ietf-quic-multipath) or tuple. A log shows windows and what is under way,
but neither the rule nor what waits to be sent.
"""

import pathlib
from collections.abc import Mapping, Sequence
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
STATUS = {"path_status_backup": True, "path_standby": True,
          "path_status_available": False, "path_available": False}  # fmt: skip
COUNTERS = ("bytes_sent", "bytes_retrans", "retrans", "bytes_received", "busy", "mss", "unacked")

Fields = dict[str, float]
"""Numbers of a path by the names of ss, and `window`, `in_flight`, `heard` and `since`."""


class _Log:
    """A connection so far."""

    def __init__(self) -> None:
        self.paths: dict[str, Fields] = {}
        self.backups: dict[str, str] = {}
        self.gone: set[str] = set()
        """Paths that were abandoned; another path has another number."""
        self.streams: dict[Any, int] = {}
        """End of the data of each stream."""
        self.credit: int | None = None
        """Data that the peer permits."""
        self.blocked = 0
        """Frames that say that flow control does not permit more."""
        self.kept: list[tuple[float, dict[str, Fields], dict[str, str]]] = []

    def take(self, event: Event) -> None:
        """An event."""
        data = event.data
        if event.name == "parameters_set" and data.get("initiator", data.get("owner")) == "remote":
            self._permit(data.get("initial_max_data"))
        if event.name not in (METRICS, "packet_sent", "packet_received", "packet_lost"):
            return
        path = self.paths.setdefault(event.path or "0", dict.fromkeys(COUNTERS, 0.0))
        if event.name == METRICS:
            _metrics(path, data, event.time_ms)
        elif event.name == "packet_lost":
            path["bytes_retrans"] += (size_of(data) or path["mss"]) * lost_packets(data)
            path["retrans"] += lost_packets(data)
        elif event.name == "packet_sent":
            path["bytes_sent"] += size_of(data)
            path["mss"] = max(path["mss"], size_of(data))
        else:
            path["bytes_received"] += size_of(data)
            path["heard"] = event.time_ms
        for frame in data.get("frames") or ():
            self._frame(frame, sent=event.name == "packet_sent")

    def _permit(self, most: Any) -> None:
        if most is not None:
            self.credit = max(self.credit or 0, int(most))

    def _frame(self, frame: Mapping[str, Any], *, sent: bool) -> None:
        kind = str(frame.get("frame_type", ""))
        if kind == "stream" and sent:
            raw = frame.get("raw") or {}
            length = frame.get("length", raw.get("payload_length", raw.get("length", 0)))
            end, stream = int(frame.get("offset", 0)) + int(length), frame.get("stream_id")
            self.streams[stream] = max(end, self.streams.get(stream, 0))
        elif kind == "max_data" and not sent:
            self._permit(frame.get("maximum"))
        elif kind in ("data_blocked", "stream_data_blocked") and sent:
            self.blocked += 1
        elif kind == "path_abandon" and "path_id" in frame:
            self.gone.add(str(frame["path_id"]))
        elif kind in STATUS and "path_id" in frame:
            self.backups[str(frame["path_id"])] = ("b" if sent else "B") * STATUS[kind]

    def keep(self, now: float) -> None:
        """Note the state of all paths."""
        states = {name: _state(path, now) for name, path in self.paths.items()}
        for state in states.values():
            state["blocked"] = self.blocked
            if self.credit is not None:
                state["credit"] = self.credit - sum(self.streams.values())
        self.kept.append((now, states, dict(self.backups)))

    def total(self, name: str) -> float:
        """Sum of a counter over the paths."""
        return sum(path[name] for path in self.paths.values())


def _metrics(path: Fields, data: Mapping[str, Any], now: float) -> None:
    window = next((data[name] for name in WINDOWS if data.get(name) is not None), None)
    rtt = data.get("smoothed_rtt", data.get("latest_rtt"))
    found = {"window": window, "backoff": data.get("pto_count"), "in_flight":
             data.get("bytes_in_flight")}  # fmt: skip
    if "heard" in path:  # before anything has come back an RTT is a guess
        least = data.get("min_rtt")
        found |= {"rtt": rtt, "minrtt": least}
        if least is None and rtt is not None:
            found["minrtt"] = min(float(rtt), path.get("minrtt", float(rtt)))
    path |= {name: float(value) for name, value in found.items() if value is not None}
    if path.get("in_flight"):
        path.setdefault("since", now)
    elif "since" in path:
        path["busy"] += now - path.pop("since")


def _state(path: Fields, now: float) -> Fields:
    state, size = dict(path), path["mss"] or 1.0
    state["unacked"] = path.get("in_flight", 0.0) / size
    lost = path["bytes_retrans"] + path.get("in_flight", 0.0)
    state["bytes_acked"] = max(0.0, path["bytes_sent"] - lost)
    state["busy"] += now - path.get("since", now)
    if "window" in path:
        state["cwnd"] = path["window"] / size
    if "heard" in path:
        state["lastack"] = now - path["heard"]
    return state


def is_qlog(data: bytes) -> bool:
    """Whether a file begins as one."""
    names = (b'"qlog_version"', b'"qlog_format"', b'"file_schema"')
    return data[:1] == b"\x1e" or any(name in data[:4096] for name in names)


def read(files: Sequence[pathlib.Path]) -> tuple[list[Output], str]:
    """Samples of the connections of files, and what was read. Raises `ScenarioError`, OSError."""
    logs = [log for file in files for log in _logs(file)]
    if not any(log.total("bytes_sent") for log in logs):
        raise ScenarioError(f"{files[0]}: a qlog without packets that were sent: take {RETAKE}")
    # The logs of both ends may be together: that of the sender says more.
    sends = [log for log in logs if log.total("bytes_sent") > log.total("bytes_received")]
    found: dict[float, Output] = {}
    for number, log in enumerate(sends or logs):
        for time_ms, states, backups in _thinned(log):
            sockets = found.setdefault(time_ms, Output(time_ms / 1e3)).sockets
            for name, fields in states.items():
                if name in log.gone and log.gone < log.paths.keys():
                    continue
                text = f"logged group:{number} on:path{name} retrans:0/{fields['retrans']:g} "
                text += f"tcp-ulp-mptcp flags:{backups[name]} " if backups.get(name) else ""
                text += " ".join(f"{key}:{value:g}" for key, value in fields.items())
                local, remote = f"path{name}:{number}", f"peer:{number}"
                sockets[local, remote] = Socket(local, remote, text, fields, "ESTAB")
    left = f"; {len(logs) - len(sends)} of receivers left out" if 0 < len(sends) < len(logs) else ""
    said = f"qlog of {len(logs)} connection{'s' * (len(logs) > 1)}{left}"
    return [found[time_ms] for time_ms in sorted(found)], said


def _logs(file: pathlib.Path) -> list[_Log]:
    found = []
    for trace in opened(file, lambda record: "timer_updated" in record):
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


def _thinned(log: _Log) -> list[tuple[float, dict[str, Fields], dict[str, str]]]:
    """States at equal distances from the first data to the last."""
    sent = [sum(state["bytes_sent"] for state in states.values()) for _, states, _ in log.kept]
    first = next((i for i, count in enumerate(sent) if count), 0)
    last = sent.index(sent[-1])
    numbers = {first + (last - first) * i // SAMPLES for i in range(SAMPLES + 1)}
    return [log.kept[i] for i in sorted(numbers)]
