"""A qlog file as one graph per path: window, bytes in flight, rates, RTTs, and its events.

Events of the connection as a whole are left to viewers of one connection, such as qvis.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from anabranch.qlog import METRICS, WINDOWS, Event, lost_packets, of_event, opened, size_of
from anabranch.scenario import ScenarioError
from anabranch.theory.array import Array

DRAWN = {
    **dict.fromkeys(WINDOWS, ("window_kb", 1e-3)),
    "bytes_in_flight": ("in_flight_kb", 1e-3),
    "pacing_rate": ("pacing_mbps", 1e-6),
    "smoothed_rtt": ("rtt_ms", 1.0),
    "latest_rtt": ("latest_rtt_ms", 1.0),
}
"""Values of `recovery_metrics_updated` that are drawn: name, and part of the unit."""

POINTS = 1500
"""Points of a line; what is zoomed into is read again."""

SPANS = 120
"""Spans of time in which events of one kind on one path are one mark."""

FRAMES = ("path_", "max_path")
"""Beginnings of the types of frames that are events of a path."""

NO_EVENTS = ("path_ack", "path_new_connection_id", "path_retire_connection_id")
"""Beginnings of those of them that say nothing of the path."""


@dataclass
class Line:
    """Values of a metric as they changed."""

    time_ms: list[float] = field(default_factory=list)
    value: list[float] = field(default_factory=list)


@dataclass
class Log:
    """A file, by path."""

    title: str
    lines: dict[str, dict[str, Line]] = field(default_factory=dict)
    """Metrics by path and name."""
    sent: dict[str, Line] = field(default_factory=dict)
    """Bytes of each packet that was sent, by path."""
    events: list[tuple[float, str | None, str, str]] = field(default_factory=list)
    """Time, path or None for all of them, kind, and details."""
    end_ms: float = 0.0


@lru_cache(maxsize=2)
def read(file: Path) -> Log:
    """Read a file. Raises `ScenarioError` where it is no qlog."""
    log = Log(file.stem)
    for trace in opened(file, _is_timer_that_is_set):
        log.title = trace.name
        for event in trace.events:
            with of_event(event.place):
                _take(log, event)
    if not log.lines and not log.sent:
        raise ScenarioError(f"{file}: no packets and no metrics of recovery in it")
    return log


def _is_timer_that_is_set(record: str) -> bool:
    """Half of a file may be these, of which nothing is shown."""
    return "timer_updated" in record and "expired" not in record


def _take(log: Log, event: Event) -> None:
    time, data, path = event.time_ms, event.data, event.path or "0"
    log.end_ms = max(log.end_ms, time)
    if event.name == METRICS:
        for key, (own, factor) in DRAWN.items():
            if key in data:
                line = log.lines.setdefault(path, {}).setdefault(own, Line())
                line.time_ms.append(time)
                line.value.append(factor * float(data[key]))
    elif event.name == "packet_sent":
        line = log.sent.setdefault(path, Line())
        line.time_ms.append(time)
        line.value.append(float(size_of(data)))
        _frames(log, time, path, data, "sent")
    elif event.name == "packet_received":
        _frames(log, time, path, data, "received")
    elif event.name == "packet_lost":
        trigger = str(data.get("trigger", "")).replace("_", " ")
        log.events += [(time, event.path, "lost", trigger)] * lost_packets(data)
    elif event.name in ("timer_updated", "loss_timer_updated"):
        if data.get("event_type") == "expired" and data.get("timer_type") == "pto":
            log.events.append((time, event.path, "timeout", "probe timeout"))
    elif event.path and event.name not in ("datagrams_sent", "datagrams_received"):
        log.events.append((time, event.path, event.name.replace("_", " "), _short(data)))


def _frames(log: Log, time: float, path: str, data: Mapping[str, Any], verb: str) -> None:
    for frame in data.get("frames", ()):
        kind = str(frame.get("frame_type", ""))
        if kind.startswith(FRAMES) and not kind.startswith(NO_EVENTS):
            rest = {key: value for key, value in frame.items() if key != "frame_type"}
            log.events.append((time, path, f"{kind.replace('_', ' ')} {verb}", _short(rest)))


def _short(data: Mapping[str, Any]) -> str:
    plain = [
        f"{key} {value}" for key, value in data.items() if isinstance(value, str | int | float)
    ]
    return ", ".join(plain)[:120]


def view(log: Log, from_ms: float | None = None, to_ms: float | None = None) -> dict[str, Any]:
    """The graphs of a time span, by default the whole file: plain data for the page."""
    start, stop = from_ms or 0.0, min(to_ms or log.end_ms, log.end_ms)
    time = np.linspace(start, max(stop, start + 1e-3), POINTS)
    paths = sorted(log.lines.keys() | log.sent.keys(), key=lambda name: (len(name), name))
    return {
        "title": log.title,
        "end_ms": log.end_ms,
        "time_ms": np.round(time, 4).tolist(),
        "paths": [
            {
                "path": path,
                "lines": {
                    **{n: _held(line, time) for n, line in log.lines.get(path, {}).items()},
                    "sent_mbps": _rate(log.sent.get(path, Line()), time),
                },
                "events": _marks(log, path, start, stop),
            }
            for path in paths
        ],
    }


def _held(line: Line, time: Array) -> list[float | None]:
    """The last value before each time."""
    before = np.searchsorted(line.time_ms, time, side="right") - 1
    values = np.asarray(line.value)[np.maximum(before, 0)]
    return [
        float(value) if known >= 0 else None
        for value, known in zip(np.round(values, 4), before, strict=True)
    ]


def _rate(line: Line, time: Array) -> list[float | None]:
    """Rate of sending, Mbps: the mean over a hundredth of the span, at least 5 ms, to each time."""
    if not line.time_ms:
        return [None] * len(time)
    width = max((time[-1] - time[0]) / 100, 5.0)
    total = np.concatenate([[0.0], np.cumsum(line.value)])
    upto = total[np.searchsorted(line.time_ms, time, side="right")]
    since = total[np.searchsorted(line.time_ms, time - width, side="right")]
    return np.round((upto - since) * 8e-3 / width, 4).tolist()  # type: ignore[no-any-return]


def _marks(log: Log, path: str, start: float, stop: float) -> list[dict[str, Any]]:
    """Events of a path and of all paths; those of one kind that are close are one mark."""
    marks: dict[tuple[str, int], dict[str, Any]] = {}
    for time, own, kind, details in log.events:
        if own in (path, None) and start <= time <= stop:
            span = int((time - start) / max(stop - start, 1e-3) * SPANS)
            mark = marks.setdefault(
                (kind, span), {"time_ms": time, "kind": kind, "details": details, "count": 0}
            )
            mark["count"] += 1
    return list(marks.values())
