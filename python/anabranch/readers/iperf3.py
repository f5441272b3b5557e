"""The JSON of iperf3 3.1 to 3.21: `-J`, `--json-stream`, all modes, of client or server.

By iperf_api.c, `iperf_print_results`: `end.streams` has per stream what its sender and its receiver
counted. `sender` there (3.7 and later) says whether the end that wrote the file sent. An end that
did not get the other's count writes 0. The sums are not used: with `--bidir` 3.7 to 3.10 write two
with equal keys.
"""

import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from anabranch._core import ScenarioError
from anabranch.readers.connection import Connection, MeasuredPath, Recording, Sample

Document = Mapping[str, Any]


def read(text: str, file: pathlib.Path) -> Recording:
    """The streams of each test of a file as connections. Raises `ScenarioError`."""
    found: list[Connection] = []
    formats: list[str] = []
    documents = list(_documents(text, file))
    for document in documents:
        try:
            version = str(document["start"].get("version", "iperf3"))
            streams = list(_streams(document))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ScenarioError(_fault(document, error, file)) from None
        if failed := document.get("error"):
            raise ScenarioError(f"{file}: iperf3 failed: {failed}: repeat the test")
        if not streams:
            raise ScenarioError(_fault(document, KeyError("end.streams"), file))
        found += streams
        formats.append(version.replace("iperf ", "iperf3 "))
    if not found:
        raise ScenarioError(f"{file}: no test of iperf3 in it: expected the JSON of `iperf3 -J`")
    tests = f", {len(documents)} tests" if len(documents) > 1 else ""
    return Recording(file, formats[0] + tests, tuple(found))


def _fault(document: Document, error: Exception, file: pathlib.Path) -> str:
    if isinstance(document, Mapping) and document.get("error"):
        return f"{file}: iperf3 failed: {document['error']}: repeat the test"
    if isinstance(document, Mapping) and document.get("intervals"):
        last = document["intervals"][-1]
        end = last.get("sum", {}).get("end") if isinstance(last, Mapping) else None
        after = f" after {end:.3g} s" if isinstance(end, int | float) else ""
        return (
            f"{file}: the test was interrupted{after}: it has no `end` with what arrived; repeat it"
        )
    return (
        f"{file}: not a finished test of iperf3 ({error!r}): expected the JSON of `iperf3 -J`, or "
        "the output of `ss -tin` on the sender"
    )


def _documents(text: str, file: pathlib.Path) -> Iterator[Document]:
    """The documents, one behind the other, as a server's log has them; a stream is one, too."""
    decoder, place = json.JSONDecoder(), 0
    streamed: dict[str, Any] = {}
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        try:
            document, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            if streamed:  # the last line is cut off
                break
            message = f"not JSON: {error}: expected the JSON of `iperf3 -J`, or the output of"
            raise ScenarioError(f"{file}: {message} `ss -tin` on the sender") from None
        if not isinstance(document, dict):
            raise ScenarioError(f"{file}: expected an object, as `iperf3 -J` writes it")
        if "event" not in document:
            yield document
            continue
        event, data = document["event"], document.get("data")
        if event == "start" and streamed:
            yield streamed
            streamed = {}
        if event == "interval":
            streamed.setdefault("intervals", []).append(data)
        else:
            streamed[event] = data
    if streamed:
        yield streamed


def _streams(document: Document) -> Iterator[Connection]:
    start, end = document["start"], document.get("end") or {}
    test = start.get("test_start") or {}
    server = "accepted_connection" in start
    reverse = bool(test.get("reverse"))
    sockets = {each.get("socket"): each for each in start.get("connected") or ()}
    samples = _samples(document)
    for stream in end.get("streams", ()):
        udp = stream.get("udp")
        sender, receiver = (udp, udp) if udp else (stream.get("sender"), stream.get("receiver"))
        either = sender or receiver
        # Before 3.7 the mode says it: the client sends, or the server with -R.
        sent = bool(either.get("sender", reverse == server))
        place = sockets.get(either.get("socket"), {})
        local = _address(place, "local")
        remote = _address(place, "remote")
        number = either.get("socket")
        mode = "server to client" if sent == server else "client to server"
        label = f"{mode}, socket {number}" + (f", {local} to {remote}" if local else "")
        logged = samples.get(number, ())
        if udp:
            yield _datagrams(udp, label, sent, sent == server, local, remote)
            continue
        own, other = (sender, receiver) if sent else (receiver, sender)
        count = int((receiver or {}).get("bytes", 0))
        seconds = float((receiver or {}).get("seconds", 0)) or None
        goodput, unknown = None, ""
        if count and seconds:
            goodput = float(receiver["bits_per_second"]) / 1e6
        elif server and sent:
            unknown = "this end did not measure what arrived: use the client's document"
        elif (other and (other or {}).get("bytes")) or (own or {}).get("bytes"):
            unknown = "this end did not learn what arrived: use the receiver's document"
        else:
            unknown = "no data was moved"
        rtt = (sender or {}).get("mean_rtt") if sent else None
        rtt_ms = rtt / 1e3 if rtt else None
        path = MeasuredPath(local, remote, count, rtt_ms, logged)
        yield Connection(
            label, sent, count, seconds, goodput, unknown, rtt_ms, (path,), logged, sent == server
        )


def _datagrams(
    udp: Document, label: str, sent: bool, reverse: bool, local: str, remote: str
) -> Connection:
    """A stream of UDP; `bytes` there are those sent, `lost_packets` what did not arrive."""
    packets, seconds = udp.get("packets", 0), float(udp.get("seconds", 0)) or None
    lost = udp.get("lost_packets", 0) / packets if packets else None
    return Connection(
        label,
        sent,
        int(udp.get("bytes", 0)),
        seconds,
        None,
        "UDP at a rate that was given has no congestion control to compare: repeat the test "
        "without -u",
        None,
        (MeasuredPath(local, remote, int(udp.get("bytes", 0))),),
        (),
        reverse,
        "UDP",
        lost,
    )


def _address(place: Document, end: str) -> str:
    host, port = place.get(f"{end}_host"), place.get(f"{end}_port")
    return f"{host}:{port}" if host else ""


def _samples(document: Document) -> dict[Any, tuple[Sample, ...]]:
    """Per socket, what its intervals add up to."""
    found: dict[Any, list[Sample]] = {}
    for interval in document.get("intervals") or ():
        for stream in interval.get("streams", ()):
            if stream.get("omitted"):
                continue
            so_far = found.setdefault(stream["socket"], [])
            count = (so_far[-1].bytes if so_far else 0) + int(stream["bytes"])
            rtt = stream.get("rtt")
            so_far.append(Sample(float(stream["end"]), count, rtt / 1e3 if rtt else None))
    return {number: tuple(samples) for number, samples in found.items()}
