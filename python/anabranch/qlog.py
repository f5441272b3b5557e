"""Qlog files: what a run samples of each path as events, and events of any sender as tables."""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from anabranch.result import Result
from anabranch.scenario import ScenarioError

# The events of a qlog file, whatever its draft and form.
#
# JSON, JSON text sequences and JSON lines of draft-ietf-quic-qlog-main-schema and of its
# predecessor draft-marx-qlog-main-schema-00 to -02: events as objects, or as rows of
# `event_fields`; times and RTTs in the unit of `configuration.time_units`. Older names
# (`recovery:metrics_updated`) are read, too.


SEPARATOR = "\x1e"
"""The begin of a record of a JSON text sequence (RFC 7464)."""

METRICS = "metrics_updated"
"""The event with window and RTT, without its category."""

CALENDAR_MS = 1e11
"""Times from 1973 on are on the calendar: then the first event of a trace is at 0."""

RELATIVE = ("delta", "relative_to_previous_event", "delta_time")
"""Formats in which a time is that since the event before."""

TIMES = ("relative_time", "delta_time", "time")
"""Fields of a row or an event with its time."""

UNITS_MS = {"ms": 1.0, "us": 1e-3, "s": 1e3}
"""Values of `configuration.time_units`, in ms."""

NAMES = {"packets_lost": "packet_lost", "metric_update": METRICS}
"""Names in old files, and those of today."""

WINDOWS = ("current_cwnd", "cwnd", "congestion_window")
"""Names of the window: of mvfst, of draft-00, aioquic and picoquic, and of the drafts since."""

RTTS = ("smoothed_rtt", "latest_rtt", "min_rtt", "rtt_variance")
"""Metrics in the unit of time."""


@dataclass(frozen=True)
class Event:
    """An event; its name has no category."""

    time_ms: float
    name: str
    path: str | None
    """Name of the path in the file; None where it has none."""
    data: Mapping[str, Any]
    place: str
    """The file and the number of the record, for errors."""


@dataclass(frozen=True)
class _Form:
    """How a trace writes its events."""

    fields: tuple[str, ...] = ()
    """The names of a row's fields; none where events are objects."""
    delta: bool = False
    unit_ms: float = 1.0
    reference_ms: float = 0.0
    """The time that counts as 0, where times are absolute; 0: that of the first event."""


@dataclass(frozen=True)
class Trace:
    """The events of one connection at one of its ends."""

    name: str
    events: Iterable[Event]


Record = tuple[str, Any]
"""A place and what is written there."""


def opened(file: Path, skip: Callable[[str], bool] | None = None) -> Iterator[Trace]:
    """The traces of a file, whose events are read while they are asked for.

    `skip`: for which records of a sequence nothing is read. A loss without a path is that of the
    path whose metrics follow: so the QUIC library of the backend `quic` writes it. Raises
    `ScenarioError` for a file that is no such qlog, with the record's number.
    """
    for number, (header, form, records) in enumerate(_traces(file, skip or (lambda _: False))):
        name = _name(header, file)
        yield Trace(
            name if number == 0 else f"{name} ({number})", _with_paths(_events(form, records))
        )


@contextmanager
def of_event(place: str) -> Iterator[None]:
    """Turns the error of what reads an event into one that names its place."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ScenarioError(
            f"{place}: not an event of qlog: {error!r}; expected time, name and data"
        ) from None


def size_of(data: Mapping[str, Any]) -> int:
    """The size of a packet, wherever its draft has it; 0 where it does not say."""
    header, raw = data.get("header") or {}, data.get("raw") or {}
    places = (raw.get("length"), header.get("packet_size"), data.get("packet_size"))
    found = (*places, header.get("length"), 0)
    return int(next(size for size in found if size is not None))


def lost_packets(data: Mapping[str, Any]) -> int:
    """The packets of an event of loss: mvfst counts those of one event."""
    count = data.get("lost_packets", 1)
    return int(count) if isinstance(count, int | float | str) else 1


def _events(form: _Form, records: Iterable[Record]) -> Iterator[Event]:
    first_ms, now_ms = None, 0.0
    for place, record in records:
        with of_event(place):
            event = _object(record, form.fields)
            time_ms = form.unit_ms * float(event[next((k for k in TIMES if k in event), "time")])
            name, data = _event_name(event), dict(event["data"])
            now_ms = now_ms + time_ms if form.delta else time_ms
            if first_ms is None:
                first_ms = form.reference_ms if now_ms >= form.reference_ms else 0.0
                if now_ms - first_ms > CALENDAR_MS:
                    first_ms = now_ms
            if name == METRICS:
                scaled = [key for key in RTTS if data.get(key) is not None]
                data |= {key: form.unit_ms * float(data[key]) for key in scaled}
            found = Event(now_ms - first_ms, name, _path(event, data), data, place)
        yield found


def _object(record: Any, fields: tuple[str, ...]) -> Mapping[str, Any]:
    """An event, or a row whose fields are named by the trace, as an object."""
    if isinstance(record, list) and fields:
        return dict(zip(fields, record, strict=False))
    if not isinstance(record, dict):
        raise TypeError(f"expected an object, got {str(record)[:40]}")
    return record


def _event_name(event: Mapping[str, Any]) -> str:
    """The name without its category and protocol, as the newest draft writes it."""
    for key in ("name", "event", "event_type", "type"):
        if key in event:
            name = str(event[key]).lower().rpartition(":")[2].removeprefix("recovery_")
            return NAMES.get(name, name)
    raise KeyError("name")


def _with_paths(events: Iterable[Event]) -> Iterator[Event]:
    """The same, with losses without a path behind the metrics that say which it is."""
    waiting: list[Event] = []
    for event in events:
        if event.name == "packet_lost" and event.path is None:
            waiting.append(event)
            continue
        if event.name == METRICS:
            yield from (replace(lost, path=event.path) for lost in waiting)
            waiting.clear()
        yield event
    yield from waiting


def _path(event: Mapping[str, Any], data: Mapping[str, Any]) -> str | None:
    """The path that an event names, however its draft does it."""
    for place in (data, data.get("header") or {}, event):
        if "path_id" in place:
            return str(place["path_id"])
    named = data.get("tuple_id", event.get("tuple", event.get("path")))
    return str(named).removeprefix("p") if named not in (None, "") else None


def _traces(
    file: Path, skip: Callable[[str], bool]
) -> Iterator[tuple[Mapping[str, Any], _Form, Iterable[Record]]]:
    """Headers, how events are written, and records."""
    text = file.read_text(encoding="utf-8", errors="replace")
    if text.startswith(SEPARATOR):
        yield _sequence(file, text.split(SEPARATOR)[1:], skip)
        return
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        lines = text.splitlines(keepends=True)
        if len(lines) < 2:
            raise ScenarioError(f"{file}: not JSON: {error}") from None
        yield _sequence(file, lines, skip)
        return
    traces = None
    if isinstance(document, dict):
        traces = document.get("traces", [document["trace"]] if "trace" in document else None)
    if not isinstance(traces, list):
        raise ScenarioError(f"{file}: not qlog: expected an object with traces, or a JSON sequence")
    for number, trace in enumerate(traces):
        events = trace.get("events") if isinstance(trace, dict) else None
        form = _form(trace, f"{file}: trace {number}")
        kinds = (dict, list) if form.fields else dict
        if not isinstance(events, list) or any(not isinstance(event, kinds) for event in events):
            raise ScenarioError(
                f"{file}: trace {number}: expected a list of events that are objects, or rows of "
                "event_fields"
            )
        records = ((f"{file}: trace {number}, event {i}", event) for i, event in enumerate(events))
        yield {"title": document.get("title"), **trace}, form, records


def _sequence(
    file: Path, parts: list[str], skip: Callable[[str], bool]
) -> tuple[Mapping[str, Any], _Form, Iterable[Record]]:
    """A header, and then an event per record. The last may be cut off."""
    records = [part for part in parts if part.strip()]
    if not records:
        raise ScenarioError(f"{file}: not qlog: the sequence is empty")
    header = _json(f"{file}: record 0", records[0])
    trace = header.get("trace", {}) if isinstance(header, dict) else None
    if not isinstance(trace, dict) or not ("trace" in header or "file_schema" in header):
        raise ScenarioError(f"{file}: record 0: not qlog: expected an object with a trace")

    def events() -> Iterator[Record]:
        for i, record in enumerate(records[1:], 1):
            place = f"{file}: record {i}"
            if i == len(records) - 1 and not record.endswith("\n"):
                return
            if not skip(record):
                yield place, _json(place, record)

    return {"title": header.get("title"), **trace}, _form(trace, f"{file}: record 0"), events()


def _form(trace: Any, place: str) -> _Form:
    if not isinstance(trace, dict):
        return _Form()
    common, configuration = (
        part if isinstance(part, dict) else {}
        for part in (trace.get("common_fields"), trace.get("configuration"))
    )
    fields = trace.get("event_fields") or ()
    names = tuple(str(name).lower() for name in fields) if isinstance(fields, list) else ()
    unit = str(configuration.get("time_units", common.get("time_units", "ms")))
    if unit not in UNITS_MS:
        raise ScenarioError(f"{place}: time_units {unit!r}: expected {', '.join(UNITS_MS)}")
    form = str(common.get("time_format", ""))
    absolute = form == "absolute" or (bool(names) and "time" in names)
    reference = common.get("reference_time")
    try:
        known = UNITS_MS[unit] * float(reference) if absolute and reference is not None else 0.0
    except (TypeError, ValueError):
        known = 0.0
    delta = form in RELATIVE or "delta_time" in names
    return _Form(names, delta, UNITS_MS[unit], known)


def _name(header: Mapping[str, Any], file: Path) -> str:
    point = header.get("vantage_point")
    named = point.get("name") if isinstance(point, dict) else None
    return str(header.get("title") or named or file.stem)


def _json(place: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ScenarioError(f"{place}: not JSON: {error}") from None


# The events of a sender as tables.


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


# Samples of each path of a run, as qlog files.


EVENTS = "urn:ietf:params:qlog:events:quic-12"


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
        event = {"time": row.time_s * 1e3, "name": f"quic:recovery_{METRICS}", "data": data}
        _write_record(file, event)


def _write_record(file: IO[str], record: Mapping[str, Any]) -> None:
    file.write(f"{SEPARATOR}{json.dumps(record)}\n")


def _file_name(text: str) -> str:
    return re.sub(r"[^\w.=-]", "_", text)


__all__ = ["read", "write"]
