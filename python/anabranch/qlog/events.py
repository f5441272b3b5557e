"""The events of a qlog file, whatever its draft and form.

JSON, JSON text sequences and JSON lines of draft-ietf-quic-qlog-main-schema since qlog 0.2, with
the events of draft-ietf-quic-qlog-quic-events; older names (`recovery:metrics_updated`) are read,
too.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from anabranch.scenario import ScenarioError

SEPARATOR = "\x1e"
"""The begin of a record of a JSON text sequence (RFC 7464)."""

METRICS = "metrics_updated"
"""The event with window and RTT, without its category."""

CALENDAR_MS = 1e11
"""Times from 1973 on are on the calendar: then the first event of a trace is at 0."""

RELATIVE = ("delta", "relative_to_previous_event")
"""Formats in which a time is that since the event before."""


@dataclass(frozen=True)
class Event:
    """An event; its name has no category."""

    time_ms: float
    name: str
    path: str | None
    """What the file calls the path; None where it does not say."""
    data: Mapping[str, Any]
    place: str
    """The file and the number of the record, for errors."""


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


def _events(form: str, records: Iterable[Record]) -> Iterator[Event]:
    first_ms, now_ms = None, 0.0
    for place, event in records:
        with of_event(place):
            time_ms, name, data = float(event["time"]), str(event["name"]), dict(event["data"])
            now_ms = now_ms + time_ms if form in RELATIVE else time_ms
            if first_ms is None:
                first_ms = now_ms if now_ms > CALENDAR_MS else 0.0
            name = name.rpartition(":")[2].removeprefix("recovery_")
            found = Event(now_ms - first_ms, name, _path(event, data), data, place)
        yield found


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
) -> Iterator[tuple[Mapping[str, Any], str, Iterable[Record]]]:
    """Headers, formats of times, and records."""
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
        if not isinstance(events, list) or any(not isinstance(event, dict) for event in events):
            raise ScenarioError(
                f"{file}: trace {number}: expected a list of events that are objects, as since "
                "qlog 0.2; convert it, for instance with qvis"
            )
        records = ((f"{file}: trace {number}, event {i}", event) for i, event in enumerate(events))
        yield {"title": document.get("title"), **trace}, _form(trace), records


def _sequence(
    file: Path, parts: list[str], skip: Callable[[str], bool]
) -> tuple[Mapping[str, Any], str, Iterable[Record]]:
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

    return {"title": header.get("title"), **trace}, _form(trace), events()


def _form(trace: Mapping[str, Any]) -> str:
    common = trace.get("common_fields")
    return str(common.get("time_format", "")) if isinstance(common, dict) else ""


def _name(header: Mapping[str, Any], file: Path) -> str:
    point = header.get("vantage_point")
    named = point.get("name") if isinstance(point, dict) else None
    return str(header.get("title") or named or file.stem)


def _json(place: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ScenarioError(f"{place}: not JSON: {error}") from None
