"""Qlog files: what a run samples of each path as events, and events of any sender as tables."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from anabranch.result import Result
from anabranch.scenario import ScenarioError

SEPARATOR = "\x1e"
"""The begin of a record of a JSON text sequence (RFC 7464)."""

EVENTS = "urn:ietf:params:qlog:events:quic-12"
DEFAULT_BYTES = 1500

METRICS = ("recovery_metrics_updated", "metrics_updated")
"""Names of events without their category, in the drafts since 2020."""

SAMPLES = ["window_packets", "rtt_ms", "in_flight_packets", "lost_packets"]
TOTALS = ["sent_packets", "lost_packets", "loss_probability", "window_packets", "rtt_ms"]


def write(result: Result, directory: str | os.PathLike[str]) -> None:
    """Write the samples of each user's paths to a file in a folder per run.

    The files are JSON text sequences by draft-ietf-quic-qlog-main-schema-13 with one kind of event,
    `quic:recovery_metrics_updated` (draft-ietf-quic-qlog-quic-events-12) with the path's number as
    `path_id`. A path has none before its first RTT.
    """
    packet_bytes = result.scenario.network()["packet_bytes"]
    runs = result.path_samples.groupby(list(result.keys), sort=False)
    for keys, samples in runs:
        folder = Path(directory, "-seed-".join(_file_name(str(key)) for key in keys[-2:]))
        folder.mkdir(parents=True)
        for (flow, user), rows in samples.groupby(["flow", "user"], sort=False):
            name = f"{_file_name(flow)}-{user}.sqlog"
            with (folder / name).open("w", encoding="utf-8") as file:
                _write_user(file, f"{flow}, user {user}", rows, packet_bytes)


def _write_user(file: IO[str], title: str, rows: pd.DataFrame, packet_bytes: int) -> None:
    header = {
        "file_schema": "urn:ietf:params:qlog:file:sequential",
        "serialization_format": "application/qlog+json-seq",
        "title": title,
        "trace": {
            "vantage_point": {"type": "client", "name": title},
            "event_schemas": [EVENTS],
            "common_fields": {
                "time_format": "relative_to_epoch",
                "reference_time": {"clock_type": "monotonic", "epoch": "unknown"},
            },
        },
    }
    _write_record(file, header)
    measured = rows[np.isfinite(rows.rtt_ms) & np.isfinite(rows.window_packets)]
    for row in measured.itertuples():
        data = {
            "smoothed_rtt": row.rtt_ms,
            "congestion_window": round(row.window_packets * packet_bytes),
            "bytes_in_flight": row.in_flight_packets * packet_bytes,
            "packets_in_flight": row.in_flight_packets,
            "path_id": row.path,
        }
        event = {"time": row.time_s * 1e3, "name": f"quic:{METRICS[0]}", "data": data}
        _write_record(file, event)


def _write_record(file: IO[str], record: Mapping[str, Any]) -> None:
    file.write(f"{SEPARATOR}{json.dumps(record)}\n")


def _file_name(text: str) -> str:
    return re.sub(r"[^\w.=-]", "_", text)


# ------------------------------------------------------------------ reading


def read(file: str | os.PathLike[str], packet_bytes: int | None = None) -> dict[str, pd.DataFrame]:
    """The tables `paths` and `path_samples` of a sender's qlog file, with columns of a `Result`.

    Reads JSON and JSON text sequences of the drafts since qlog 0.2, of any implementation; each
    trace of the file is a flow of one user. A path is what an event's `path_id` says. A row of
    `path_samples` is an event that updates metrics. Windows are in packets of `packet_bytes`, by
    default the largest packet that the file logs, or else 1500 bytes.

    Raises `ScenarioError` for a file that is no such qlog, with the record's number.
    """
    traces = [_read_trace(trace) for trace in _traces(Path(file))]
    largest = max((trace.largest for trace in traces), default=0)
    size = packet_bytes or largest or DEFAULT_BYTES
    paths = [
        {"flow": trace.name, "user": 0, "path": number, **path.totals(size)}
        for trace in traces
        for number, path in sorted(trace.paths.items())
    ]
    samples = [
        {"time_s": time_s, "flow": trace.name, "user": 0, "path": path, **sample.sizes(size)}
        for trace in traces
        for time_s, path, sample in trace.samples
    ]
    place = ["flow", "user", "path"]
    return {
        "paths": pd.DataFrame(paths, columns=[*place, *TOTALS]),
        "path_samples": pd.DataFrame(samples, columns=["time_s", *place, *SAMPLES]),
    }


@dataclass(frozen=True)
class _Trace:
    """The header of a trace and its events, each with its place for errors."""

    name: str
    time_format: str
    events: Iterable[tuple[str, Mapping[str, Any]]]


@dataclass
class _Sample:
    """Metrics of a path at one moment; NaN where the file does not say."""

    window_bytes: float = np.nan
    rtt_ms: float = np.nan
    in_flight_bytes: float = np.nan
    in_flight_packets: float = np.nan
    lost: int = 0

    def sizes(self, packet_bytes: int) -> dict[str, float]:
        """The columns of a table."""
        in_flight = self.in_flight_packets
        if np.isnan(in_flight):
            in_flight = self.in_flight_bytes / packet_bytes
        values = [self.window_bytes / packet_bytes, self.rtt_ms, in_flight, self.lost]
        return dict(zip(SAMPLES, values, strict=True))


@dataclass
class _Path:
    """What is known of a path so far."""

    now: _Sample = field(default_factory=_Sample)
    sent: int = 0
    lost: int = 0
    windows: list[float] = field(default_factory=list)
    rtts_ms: list[float] = field(default_factory=list)

    def update(self, metrics: Mapping[str, Any]) -> _Sample:
        """Apply an event, which has only the metrics that changed."""
        now = self.now
        # aioquic calls it so.
        window = _number(metrics, "cwnd", now.window_bytes)
        window = _number(metrics, "congestion_window", window)
        latest_ms = _number(metrics, "latest_rtt", np.nan)
        sample = _Sample(
            window,
            _number(metrics, "smoothed_rtt", now.rtt_ms),
            _number(metrics, "bytes_in_flight", now.in_flight_bytes),
            _number(metrics, "packets_in_flight", now.in_flight_packets),
            now.lost,
        )
        self.windows.append(window)
        self.rtts_ms.append(sample.rtt_ms if np.isnan(latest_ms) else latest_ms)
        self.now = _Sample(window, sample.rtt_ms, sample.in_flight_bytes, sample.in_flight_packets)
        return sample

    def totals(self, packet_bytes: int) -> dict[str, float]:
        """The columns of a table."""
        probability = self.lost / self.sent if self.sent else np.nan
        window = _mean(self.windows) / packet_bytes
        values = [self.sent, self.lost, probability, window, _mean(self.rtts_ms)]
        return dict(zip(TOTALS, values, strict=True))


@dataclass
class _Recorded:
    """What a trace says."""

    name: str
    paths: dict[int, _Path] = field(default_factory=dict)
    samples: list[tuple[float, int, _Sample]] = field(default_factory=list)
    largest: int = 0


def _read_trace(trace: _Trace) -> _Recorded:
    found = _Recorded(trace.name)
    first_ms, now_ms = None, 0.0
    for place, event in trace.events:
        try:
            time_ms, name, data = float(event["time"]), str(event["name"]), dict(event["data"])
            now_ms = now_ms + time_ms if trace.time_format in RELATIVE else time_ms
            if first_ms is None:
                first_ms = now_ms if now_ms > CALENDAR_MS else 0.0
            _read_event(found, (now_ms - first_ms) / 1e3, name.split(":")[-1], data)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ScenarioError(
                f"{place}: not an event of qlog: {error!r}; expected time, name and data"
            ) from None
    return found


CALENDAR_MS = 1e11
"""Times from 1973 on are on the calendar: then the first event of a trace is at 0."""

RELATIVE = ("delta", "relative_to_previous_event")
"""Formats in which a time is that since the event before."""


def _read_event(found: _Recorded, time_s: float, name: str, data: Mapping[str, Any]) -> None:
    header = data.get("header") or {}
    number = int(data.get("path_id", header.get("path_id", 0)))
    if name in METRICS:
        path = found.paths.setdefault(number, _Path())
        found.samples.append((time_s, number, path.update(data)))
    elif name == "packet_sent":
        found.paths.setdefault(number, _Path()).sent += 1
        found.largest = max(found.largest, int((data.get("raw") or {}).get("length", 0)))
    elif name == "packet_lost":
        path = found.paths.setdefault(number, _Path())
        path.lost += 1
        path.now.lost += 1


def _number(metrics: Mapping[str, Any], key: str, default: float) -> float:
    value = metrics.get(key)
    return default if value is None else float(value)


def _mean(values: list[float]) -> float:
    known = [value for value in values if not np.isnan(value)]
    return sum(known) / len(known) if known else np.nan


def _traces(file: Path) -> Iterator[_Trace]:
    text = file.read_text(encoding="utf-8", errors="replace")
    if text.startswith(SEPARATOR):
        yield _sequence(file, text)
        return
    document = _json(f"{file}", text)
    traces = document.get("traces") if isinstance(document, dict) else None
    if not isinstance(traces, list):
        raise ScenarioError(f"{file}: not qlog: expected an object with traces, or a JSON sequence")
    for number, trace in enumerate(traces):
        events = trace.get("events") if isinstance(trace, dict) else None
        if not isinstance(events, list) or any(not isinstance(event, dict) for event in events):
            raise ScenarioError(
                f"{file}: trace {number}: expected a list of events that are objects, as since "
                "qlog 0.2; convert it, for instance with qvis"
            )
        places = ((f"{file}: trace {number}, event {i}", event) for i, event in enumerate(events))
        yield _header(file, trace, number, places)


def _sequence(file: Path, text: str) -> _Trace:
    """A JSON text sequence: a header, and then an event per record. The last may be cut off."""
    records = [record for record in text.split(SEPARATOR)[1:] if record.strip()]
    if not records:
        raise ScenarioError(f"{file}: not qlog: the sequence is empty")
    header = _json(f"{file}: record 0", records[0])
    trace = header.get("trace") if isinstance(header, dict) else None
    if not isinstance(trace, dict):
        raise ScenarioError(f"{file}: record 0: not qlog: expected an object with a trace")

    def events() -> Iterator[tuple[str, Mapping[str, Any]]]:
        for i, record in enumerate(records[1:], 1):
            place = f"{file}: record {i}"
            if i == len(records) - 1 and not record.endswith("\n"):
                return
            yield place, _json(place, record)

    return _header(file, trace, 0, events())


def _header(
    file: Path,
    trace: Mapping[str, Any],
    number: int,
    events: Iterable[tuple[str, Mapping[str, Any]]],
) -> _Trace:
    common = trace.get("common_fields")
    form = common.get("time_format", "") if isinstance(common, dict) else ""
    point = trace.get("vantage_point")
    named = point.get("name") if isinstance(point, dict) else None
    name = str(trace.get("title") or named or file.stem)
    return _Trace(name if number == 0 else f"{name} ({number})", str(form), events)


def _json(place: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ScenarioError(f"{place}: not JSON: {error}") from None
