"""The events of a sender as tables."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from anabranch.qlog.events import (
    METRICS,
    WINDOWS,
    Event,
    Trace,
    lost_packets,
    of_event,
    opened,
    size_of,
)

DEFAULT_BYTES = 1500

SAMPLED = (*WINDOWS, "smoothed_rtt", "latest_rtt", "bytes_in_flight", "packets_in_flight")
"""Metrics of which at least one makes an event a sample."""

SAMPLES = ["window_packets", "rtt_ms", "in_flight_packets", "lost_packets"]
TOTALS = ["sent_packets", "lost_packets", "loss_probability", "window_packets", "rtt_ms"]


def read(file: str | os.PathLike[str], packet_bytes: int | None = None) -> dict[str, pd.DataFrame]:
    """The tables `paths` and `path_samples` of a sender's qlog file, with columns of a `Result`.

    Reads JSON, JSON text sequences and JSON lines of all drafts, of any implementation; each trace
    of the file is a flow of one user. A row of `path_samples` is an event that updates window, RTT
    or packets in flight; its RTT is the smoothed one, or the latest on a path that logs no other.
    The RTT of `paths` is the mean of the latest ones, or of the smoothed where these are not
    logged. Windows are in packets of `packet_bytes`, by default the largest packet that the file
    logs, or else 1500 bytes.

    Raises `ScenarioError` for a file that is no such qlog, with the record's number.
    """
    traces = [_recorded(trace) for trace in opened(Path(file))]
    largest = max((trace.largest for trace in traces), default=0)
    size = packet_bytes or largest or DEFAULT_BYTES
    paths = [
        {"flow": trace.name, "user": 0, "path": number, **path.totals(size)}
        for trace in traces
        for number, path in sorted(trace.paths.items())
    ]
    samples = [
        {
            "time_s": time_s,
            "flow": trace.name,
            "user": 0,
            "path": path,
            **sample.sizes(size, smoothed=bool(trace.paths[path].smoothed_ms)),
        }
        for trace in traces
        for time_s, path, sample in trace.samples
    ]
    place = ["flow", "user", "path"]
    return {
        "paths": pd.DataFrame(paths, columns=[*place, *TOTALS]),
        "path_samples": pd.DataFrame(samples, columns=["time_s", *place, *SAMPLES]),
    }


@dataclass
class _Sample:
    """Metrics of a path at one moment; NaN where the file does not say."""

    window_bytes: float = np.nan
    smoothed_ms: float = np.nan
    latest_ms: float = np.nan
    in_flight_bytes: float = np.nan
    in_flight_packets: float = np.nan
    lost: int = 0

    def sizes(self, packet_bytes: int, smoothed: bool) -> dict[str, float]:
        """The columns of a table, with the smoothed or the latest RTT."""
        rtt_ms = self.smoothed_ms if smoothed else self.latest_ms
        in_flight = self.in_flight_packets
        if np.isnan(in_flight):
            in_flight = self.in_flight_bytes / packet_bytes
        values = [self.window_bytes / packet_bytes, rtt_ms, in_flight, self.lost]
        return dict(zip(SAMPLES, values, strict=True))


@dataclass
class _PathState:
    """State of a path so far."""

    now: _Sample = field(default_factory=_Sample)
    sent: int = 0
    lost: int = 0
    windows: list[float] = field(default_factory=list)
    smoothed_ms: list[float] = field(default_factory=list)
    latest_ms: list[float] = field(default_factory=list)

    def update(self, metrics: Mapping[str, Any]) -> _Sample | None:
        """Apply an event, which has only the metrics that changed; None if none is of a sample."""
        if all(metrics.get(key) is None for key in SAMPLED):
            return None
        now = self.now
        window = now.window_bytes
        for key in WINDOWS:
            window = _number(metrics, key, window)
        for key, series in (("smoothed_rtt", self.smoothed_ms), ("latest_rtt", self.latest_ms)):
            if metrics.get(key) is not None:
                series.append(float(metrics[key]))
        sample = _Sample(
            window,
            _number(metrics, "smoothed_rtt", now.smoothed_ms),
            _number(metrics, "latest_rtt", now.latest_ms),
            _number(metrics, "bytes_in_flight", now.in_flight_bytes),
            _number(metrics, "packets_in_flight", now.in_flight_packets),
            now.lost,
        )
        self.windows.append(window)
        self.now = replace(sample, lost=0)
        return sample

    def totals(self, packet_bytes: int) -> dict[str, float]:
        """The columns of a table."""
        probability = self.lost / self.sent if self.sent else np.nan
        window = _mean(self.windows) / packet_bytes
        rtt_ms = _mean(self.latest_ms or self.smoothed_ms)
        values = [self.sent, self.lost, probability, window, rtt_ms]
        return dict(zip(TOTALS, values, strict=True))


@dataclass
class _Recorded:
    """Contents of a trace."""

    name: str
    paths: dict[int, _PathState] = field(default_factory=dict)
    samples: list[tuple[float, int, _Sample]] = field(default_factory=list)
    largest: int = 0


def _recorded(trace: Trace) -> _Recorded:
    found = _Recorded(trace.name)
    for event in trace.events:
        with of_event(event.place):
            _take(found, event)
    return found


def _take(found: _Recorded, event: Event) -> None:
    if event.name not in (METRICS, "packet_sent", "packet_lost"):
        return
    number = int(event.path or 0)
    path = found.paths.setdefault(number, _PathState())
    if event.name == METRICS:
        if sample := path.update(event.data):
            found.samples.append((event.time_ms / 1e3, number, sample))
    elif event.name == "packet_sent":
        path.sent += 1
        found.largest = max(found.largest, size_of(event.data))
    else:
        count = lost_packets(event.data)
        path.lost += count
        path.now.lost += count


def _number(metrics: Mapping[str, Any], key: str, default: float) -> float:
    value = metrics.get(key)
    return default if value is None else float(value)


def _mean(values: list[float]) -> float:
    known = [value for value in values if not np.isnan(value)]
    return sum(known) / len(known) if known else np.nan
