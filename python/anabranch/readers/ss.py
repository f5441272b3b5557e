"""The output of `ss -tin`, with any of -e, -m, -M, -p, -H, -O: iproute2 4.2 and later.

Several outputs in one file are samples of the same connections: a line of `date +%s.%N` (or in ISO
8601) before each says when; without it the time between them is the growth of a `lastrcv` or
`lastsnd` whose end got or sent nothing in between. A connection of Multipath TCP is all subflows
with one local token. Kernel's documentation of the fields: include/uapi/linux/tcp.h.
"""

import pathlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise

from anabranch.readers.connection import Connection, MeasuredPath, Recording, Sample

SOCKET = re.compile(
    r"(?:(?P<kind>tcp|mptcp)\s+)?(?:(?P<state>[A-Z][A-Z0-9-]+)\s+)?\d+\s+(?P<queue>\d+)\s+"
    r"(?P<local>\S+:\S+)\s+(?P<remote>\S+:\S+)(?:\s+(?P<rest>.*))?"
)
FIELD = re.compile(r"(?<!\S)([a-z_]+):(\d+(?:\.\d+)?)")
GROUP = re.compile(r"\b((?:captured|logged) group:-?\d+)")
"""Connection of a socket that a capture or a log shows."""
TOKEN = re.compile(r"\btoken:[0-9a-f]+\(id:\d+\)/([0-9a-f]+)\(id:\d+\)")
HEADER = re.compile(r"(Netid\s+)?(State\s+)?Recv-Q\s+Send-Q")

BUSY_SHARE = 0.8
"""Below this share of a connection's time with data under way it had nothing to send at times."""

TWICE = (
    "take ss twice, some seconds apart, into one file: "
    "(date +%s.%N; ss -tin; sleep 10; date +%s.%N; ss -tin) > FILE"
)


@dataclass(frozen=True)
class Socket:
    """A socket in one output."""

    local: str
    remote: str
    text: str
    """All that ss says of it."""
    fields: dict[str, float] = field(default_factory=dict)
    state: str = ""
    """"" where ss does not print it, as with `state established`."""

    def count(self, name: str) -> int:
        """A counter; those that are 0 are not printed."""
        return int(self.fields.get(name, 0))


@dataclass
class Output:
    """One output of ss."""

    time_s: float | None
    """On the calendar, where the file says it."""
    sockets: dict[tuple[str, str], Socket] = field(default_factory=dict)
    """Sockets of TCP, by both addresses."""
    connections: dict[tuple[str, str], Socket] = field(default_factory=dict)
    """Sockets of Multipath TCP, which `-M` shows."""
    listening: set[tuple[str, str]] = field(default_factory=set)
    """Protocol, tcp or mptcp, and port."""


def read(text: str, file: pathlib.Path) -> Recording | None:
    """The connections of a text; None where there is no socket in it."""
    taken = [output for output in outputs(text) if output.sockets]
    return recording(taken, "ss", file) if taken else None


def group_of(key: tuple[str, str], socket: Socket) -> str:
    """Name of the connection of a socket."""
    if group := GROUP.search(socket.text):
        return group[1]
    token = TOKEN.search(socket.text)
    return f"token {token[1].lstrip('0')}" if token else " - ".join(key)


def recording(taken: Sequence[Output], form: str, file: pathlib.Path) -> Recording:
    """The connections of outputs, each of which has sockets."""
    times = times_of(taken)
    groups: dict[str, list[tuple[str, str]]] = {}
    for output in taken:
        for key, socket in output.sockets.items():
            if key not in (keys := groups.setdefault(group_of(key, socket), [])):
                keys.append(key)
    found = [_connection(name, keys, taken, times) for name, keys in groups.items()]
    both = {key for keys in groups.values() for key in keys}
    # On a host that is both ends, the sender's socket is the one that measures.
    here = [
        connection
        for connection, keys in zip(found, groups.values(), strict=True)
        if connection.sent or not all((remote, local) in both for local, remote in keys)
    ]
    span = ""
    if len(taken) > 1:
        span = f", {len(taken)} outputs"
        span += f" over {times[-1]:.3g} s" if times else " at unknown times"
    return Recording(file, f"{form}{span}", tuple(here))


def outputs(text: str) -> list[Output]:
    """The outputs, each begun by a header, a time, or a socket that was there before."""
    found = [Output(None)]
    last: list[str] | None = None
    texts: list[tuple[dict[tuple[str, str], Socket], Socket, list[str]]] = []
    for line in map(str.strip, text.splitlines()):
        time_s = _time(line)
        if time_s is not None or HEADER.match(line):
            if found[-1].sockets or found[-1].connections or time_s is not None:
                found.append(Output(time_s))
            last = None
        elif match := SOCKET.fullmatch(line):
            key, last = (match["local"], match["remote"]), None
            kind, state = match["kind"] or "tcp", match["state"] or ""
            if state == "LISTEN" or match["remote"][-1] == "*":
                found[-1].listening.add((kind, match["local"].rpartition(":")[2]))
                continue
            if key in (found[-1].connections if kind == "mptcp" else found[-1].sockets):
                found.append(Output(None))
            among = found[-1].connections if kind == "mptcp" else found[-1].sockets
            last = [match["rest"] or ""]
            among[key] = Socket(*key, "", {}, state)
            texts.append((among, among[key], last))
        elif last is not None and line:
            last.append(line)
    for among, socket, lines in texts:
        rest = " ".join(lines)
        fields = {name: float(value) for name, value in FIELD.findall(rest)}
        among[socket.local, socket.remote] = replace(socket, text=rest, fields=fields)
    return found


def _time(line: str) -> float | None:
    if re.fullmatch(r"\d{9,10}(\.\d+)?", line):
        return float(line)
    try:
        return datetime.fromisoformat(line).timestamp() if "T" in line or ":" in line else None
    except ValueError:
        return None


def times_of(taken: Sequence[Output]) -> list[float]:
    """When each output was taken, from 0; empty where that cannot be known."""
    times = [0.0]
    for before, after in pairwise(taken):
        elapsed = elapsed_s(before, after)
        if elapsed is None or elapsed <= 0:
            return [] if len(taken) > 1 else times
        times.append(times[-1] + elapsed)
    return times


def elapsed_s(before: Output, after: Output) -> float | None:
    """Time between two outputs, negative if the second was taken first; None if nothing says it."""
    if before.time_s is not None and after.time_s is not None:
        return after.time_s - before.time_s
    return max(_clocks(before, after), default=None, key=abs)


def _clocks(before: Output, after: Output) -> list[float]:
    """The growth, s, of each time since an event that did not happen in between."""
    grown = []
    for key in before.sockets.keys() & after.sockets.keys():
        old, new = before.sockets[key], after.sockets[key]
        for clock, counter in (("lastrcv", "data_segs_in"), ("lastsnd", "data_segs_out")):
            still = old.count(counter) == new.count(counter) and "data_segs_out" in new.fields
            if still and clock in old.fields and clock in new.fields:
                grown.append((new.fields[clock] - old.fields[clock]) / 1e3)
    return grown


def _connection(
    name: str, keys: list[tuple[str, str]], outputs: Sequence[Output], times: Sequence[float]
) -> Connection:
    seen = [[o.sockets.get(key) for o in outputs] for key in keys]
    last = [next(s for s in reversed(sockets) if s is not None) for sockets in seen]
    acked, received = (sum(s.count(n) for s in last) for n in ("bytes_acked", "bytes_received"))
    sent = acked >= received
    counter = "bytes_acked" if sent else "bytes_received"
    paths = tuple(_path(sockets, counter, times) for sockets in seen)
    samples = _together([path.samples for path in paths], len(outputs))
    if len(outputs) > 1:
        seconds, moved, unknown = _between(samples, times)
    else:
        seconds, unknown = _alone(last, sent)
        moved = sum(path.bytes for path in paths)
    weights = [(path.bytes, path.rtt_ms) for path in paths if path.rtt_ms is not None]
    total = sum(weight for weight, _ in weights)
    rtt_ms = sum(weight * rtt for weight, rtt in weights) / total if total else None
    label = f"{last[0].local} to {last[0].remote}"
    if len(paths) > 1:
        label += f" ({len(paths)} subflows)"
    goodput = moved * 8e-6 / seconds if seconds and not unknown else None
    return Connection(label, sent, moved, seconds, goodput, unknown, rtt_ms, paths, tuple(samples))


def _path(sockets: Sequence[Socket | None], counter: str, times: Sequence[float]) -> MeasuredPath:
    found = [(i, s) for i, s in enumerate(sockets) if s is not None]
    rtts = [s.fields.get("rtt") for _, s in found]
    known = [rtt for rtt in rtts if rtt is not None]
    samples = tuple(
        Sample(times[i], s.count(counter), rtt)
        for (i, s), rtt in zip(found, rtts, strict=True)
        if times
    )
    last = found[-1][1]
    mean = sum(known) / len(known) if known else None
    return MeasuredPath(last.local, last.remote, last.count(counter), mean, samples)


def _together(paths: Sequence[tuple[Sample, ...]], outputs: int) -> list[Sample]:
    """The bytes of all paths at each time; a path that has ended keeps its last number."""
    held = [0] * len(paths)
    found: dict[float, int] = {}
    every = [(s.time_s, i, s.bytes) for i, path in enumerate(paths) for s in path]
    for time_s, i, count in sorted(every):
        held[i] = max(held[i], count)
        found[time_s] = sum(held)
    return [Sample(time_s, count) for time_s, count in found.items()]


def _between(samples: Sequence[Sample], times: Sequence[float]) -> tuple[float | None, int, str]:
    """Seconds and bytes between the first and the last output with the connection."""
    if not times:
        return None, 0, f"the time between the outputs is not in the file: {TWICE}"
    seconds = samples[-1].time_s - samples[0].time_s
    if seconds <= 0:
        return None, samples[-1].bytes, f"it is in one of the outputs only: {TWICE}"
    return seconds, samples[-1].bytes - samples[0].bytes, ""


def _alone(sockets: Sequence[Socket], sent: bool) -> tuple[float | None, str]:
    """For how long a connection of one output had data under way, and why that is no answer.

    `busy` counts the time with data under way. A connection that received nothing counts `lastrcv`
    from its handshake, and then the time without data is known, too.
    """
    if not sent:
        return None, f"this end received, and ss does not say for how long: {TWICE}"
    busy = max(s.fields.get("busy", 0.0) for s in sockets)
    if not busy:
        return None, f"no time busy (before Linux 4.10, or nothing was sent): {TWICE}"
    ages = [s.fields["lastrcv"] for s in sockets if "lastrcv" in s.fields]
    quiet = not any(s.count("bytes_received") for s in sockets)
    if quiet and ages:
        active = max(ages) - min(s.fields.get("lastsnd", 0.0) for s in sockets)
        if busy < BUSY_SHARE * active:
            return None, (
                f"data was under way for {busy / 1e3:.3g} of {active / 1e3:.3g} s only, so that "
                f"bytes over busy is no goodput: {TWICE}"
            )
    elif all("app_limited" in s.text.split() for s in sockets):
        return None, (
            "app_limited: the program had nothing to send at times, so that bytes over busy is no "
            f"goodput: {TWICE}"
        )
    return busy / 1e3, ""
