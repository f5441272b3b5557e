"""A capture as outputs of ss: what samples of its connections would have shown.

Options of Multipath TCP, version 1: RFC 8684. A capture shows neither congestion windows nor send
buffers nor what waits in them; these fields are missing from its sockets.
"""

import hashlib
import heapq
import pathlib
import statistics
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from anabranch._core import ScenarioError
from anabranch.readers.packets import LINKS, PCAP, PCAPNG, SNAP_BYTES, Capture, Segment
from anabranch.readers.ss import Output, Socket

MAGIC = (PCAPNG, *PCAP)
"""First bytes of captures."""
SAMPLES = 20
LARGE_BYTES = 10_000_000
SPARSELY = 16
"""Packets of a large file of which one is read first, to know when data is sent."""
TIMEOUT_NS = 200_000_000
"""Least retransmission timeout of Linux."""
SILENT_ACKS = 4
"""ACKs of data without an option: the peer does not use Multipath TCP."""
NEAR = 1 << 26
"""Subflows of a connection have data sequence numbers as near to one another."""
REORDERED = 20_000
"""Segments by which a file may be out of order."""
RECENT_LOSSES = 1000
FIN, SYN, RST, ACK = 1, 2, 4, 16
CAPABLE, JOIN, DSS, ADD_ADDR, REMOVE_ADDR, PRIO, FAIL, FASTCLOSE, RESET = range(9)
NAMES = {ADD_ADDR: "ADD_ADDR", REMOVE_ADDR: "REMOVE_ADDR", PRIO: "MP_PRIO", FAIL: "MP_FAIL",
         FASTCLOSE: "MP_FASTCLOSE", RESET: "MP_TCPRST"}  # fmt: skip


@dataclass
class Half:
    """One direction of a subflow: the data that one end sends."""

    base: int | None = None
    """Sequence number of the first byte."""
    syn: bool = False
    next: int = 0
    """End of what was sent, from `base`."""
    una: int = 0
    """End of what the other end acknowledged."""
    flight: deque[tuple[int, int, int]] = field(default_factory=deque)
    """Start, end and time of segments under way."""
    again: tuple[int, int] | None = None
    """Range that was sent again and is under way."""
    sent: int = 0
    resent: int = 0
    resent_segments: int = 0
    segments: int = 0
    largest: int = 0
    largest_acked: int = 0
    mss: int | None = None
    """Option of its SYN: what this end can receive."""
    scale: int | None = None
    window: int | None = None
    """Receive window of this end now."""
    srtt_ns: float | None = None
    minrtt_ns: int | None = None
    backoff: int = 0
    una_sent_ns: int = 0
    heard_ns: int | None = None
    """Last segment from the other end."""
    busy_ns: int = 0
    busy_since: int | None = None
    loss_rtts: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT_LOSSES))
    capable: bool = False
    key: bytes = b""
    listed: bool = False
    """Whether the token of its key is known."""
    backup: bool = False
    options: int = 0
    """Segments with options of Multipath TCP."""
    plain_acks: int = 0
    """ACKs of data without one, in a row."""
    announced: int = 0
    data_next: int | None = None
    """End of the connection's data that was mapped; 64 bits, or 32 if only those are known."""
    data_una: int | None = None
    """Data that this end acknowledged to the other."""
    outstanding: int = 0
    """Most data of the subflow's connection unacknowledged since the last sample."""
    last: tuple[int, int, int, int] = (0, 0, 0, -1)


@dataclass
class Flow:
    """A subflow."""

    ends: tuple[str, str]
    """The one that opened it first, or that was seen first."""
    halves: tuple[Half, Half] = field(default_factory=lambda: (Half(), Half()))
    started: bool = False
    """Whether its SYN is in the capture."""
    answered: bool = False
    refused: bool = False
    join: str | None = None
    """Token of the MP_JOIN."""
    fell_back: bool = False
    old: bool = False
    times: list[int] = field(default_factory=list)
    """Times of SYN, SYN/ACK and the ACK of it."""
    sent_here: tuple[str, bool] | None = None
    device: str = ""
    seen: dict[str, int] = field(default_factory=dict)
    group: int = -1


@dataclass
class Ends:
    """Ends of a connection's data, by the end that sends it; None until they are seen."""

    sent: list[int | None] = field(default_factory=lambda: [None, None])
    acked: list[int | None] = field(default_factory=lambda: [None, None])


@dataclass
class Captured:
    """Connections that captures have."""

    outputs: list[Output]
    description: str
    counters: dict[str, int] | None
    """As nstat's, of connections whose beginning was seen; None where none was."""
    left_by: dict[tuple[str, str], str]
    """Interface of each subflow, by both addresses and ports."""
    opened: dict[str, tuple[bool, bool]]
    """Whether SYN and SYN/ACK had MP_CAPABLE, by the port of the listener."""


def read(files: Sequence[pathlib.Path], done: Callable[[float], None] = lambda _: None) -> Captured:
    """Captures of one host, taken at the same time; `done` gets the fraction that is read.

    Raises `ScenarioError` and OSError.
    """
    captures = [Capture(file) for file in files]
    spans: dict[tuple[str, str], list[int]] = {}
    every = SPARSELY if sum(file.stat().st_size for file in files) > LARGE_BYTES else 1
    for one in (segment for file in captures for segment in file.segments_of(every)):
        if one.length:
            span = spans.setdefault((one.source, one.target), [0, one.time_ns, 0])
            span[0] += one.length
            span[1:] = min(span[1], one.time_ns), max(span[2], one.time_ns)
    unknown = sorted({link for one in captures for link in one.unknown_links})
    if unknown and not spans:
        raise ScenarioError(
            f"{files[0]}: link type {', '.join(map(str, unknown))}; expected "
            f"{', '.join(f'{name} ({number})' for number, name in LINKS.items())}"
        )
    if not spans:
        raise ScenarioError(f"{files[0]}: no data of TCP in this capture: {_counted(captures)}")
    _, first, last = max(spans.values())
    ends = [first + (last - first) * (i + 1) // SAMPLES for i in range(SAMPLES)]
    found = _Reading()
    outputs: list[Output] = []
    for number, one in enumerate(_merged(captures)):
        if number % 4096 == 0:
            done(sum(file.fraction for file in captures) / len(captures))
        while len(outputs) < SAMPLES and one.time_ns > ends[len(outputs)]:
            outputs.append(found.output(ends[len(outputs)]))
        found.add(one)
    if len(outputs) < SAMPLES:
        outputs.append(found.output(last))
    biggest = max(found.flows.values(), key=lambda flow: sum(h.sent for h in flow.halves))
    if biggest.old:
        raise ScenarioError(f"{files[0]}: Multipath TCP of version 0, which is not read (RFC 6824);"
                            " Linux 5.6 and later use version 1")  # fmt: skip
    if last == first:
        outputs = outputs[-1:]
    # The connection's subflows are known at the end only; joins may come late.
    return Captured(
        outputs,
        f"{_counted(captures)}{found.said()}",
        found.counters(),
        {k: flow.device for flow in found.flows.values() if flow.device
         for k in (flow.ends, flow.ends[::-1])},
        found.opened,
    )  # fmt: skip


def _merged(captures: Sequence[Capture]) -> Iterator[Segment]:
    """Segments by time: a file has those of each interface in order, but not of all together."""
    waiting: list[tuple[int, int, Segment]] = []
    every = heapq.merge(*(one.segments_of() for one in captures), key=lambda one: one.time_ns)
    for number, one in enumerate(every):
        entry = (one.time_ns, number, one)
        if len(waiting) < REORDERED:
            heapq.heappush(waiting, entry)
        else:
            yield heapq.heappushpop(waiting, entry)[2]
    while waiting:
        yield heapq.heappop(waiting)[2]


def _counted(captures: Sequence[Capture]) -> str:
    devices = list(dict.fromkeys(d for one in captures for d in one.devices))
    text = f"{sum(one.segments for one in captures)} TCP segments"
    text += f" of {', '.join(devices)}" if devices else ""
    if wrong := sum(one.wrong for one in captures):
        text += f"; {wrong} packets with a wrong length or without a whole header skipped"
    if links := sorted({link for one in captures for link in one.unknown_links}):
        text += f"; packets of link type {', '.join(map(str, links))} skipped"
    if any(one.ends_early for one in captures):
        text += "; the file is cut or broken before its end"
    snap = min((one.snap_bytes for one in captures if one.snap_bytes), default=SNAP_BYTES)
    cut = sum(one.cut_options for one in captures)
    if snap < SNAP_BYTES or cut:
        text += f"; options are cut in {cut} segments: capture with -s 120 (a SYN/ACK needs 94)"
    return text


def _wrapped(value: int, near: int, bits: int = 32) -> int:
    """The number nearest to another that is equal to a value in its last bits."""
    half = 1 << bits - 1
    return near + (value - near + half) % (1 << bits) - half


def _later(value: int | None, than: int | None) -> int | None:
    """The later of two numbers of data, either of which may not be known."""
    if value is None or than is None:
        return value if than is None else than
    return max(than, _wrapped(value, than))


def _token(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()[:8]


class _Reading:
    """Subflows so far."""

    def __init__(self) -> None:
        self.flows: dict[tuple[str, str], Flow] = {}
        self.opened: dict[str, tuple[bool, bool]] = {}
        self._groups = count()
        self._tokens: dict[str, int] = {}
        self._data: dict[int, list[list[Half]]] = {}
        self._ends: dict[int, Ends] = {}
        self.duplicates = 0

    def add(self, one: Segment) -> None:
        """Takes a segment of TCP."""
        ends = (one.source, one.target)
        flow = self.flows.get(ends) or self.flows.get(ends[::-1])
        opens = one.flags & (SYN | ACK) == SYN
        if flow is None or (opens and ends == flow.ends and flow.answered and one.seq != (
                (flow.halves[0].base or 1) - 1)):  # fmt: skip
            flow = Flow(ends if not one.flags & SYN or opens else ends[::-1])
            self.flows.pop(ends[::-1], None)
            self.flows[flow.ends] = flow
        side = 0 if ends == flow.ends else 1
        me, other = flow.halves[side], flow.halves[1 - side]
        if one.sent_here is not None:
            flow.sent_here = (one.source, one.sent_here)
        flow.device = flow.device or one.device
        if one.ip_id and me.last == (one.ip_id, one.seq, one.ack, one.length):
            self.duplicates += 1
            return
        me.last = (one.ip_id, one.seq, one.ack, one.length)
        kinds = self._options(flow, side, one)
        if one.flags & SYN:
            me.base, me.syn = (one.seq + 1) & 0xFFFFFFFF, True
            self._syn(flow, side, one, kinds)
        elif me.base is None:
            me.base = one.seq
        if one.flags & ACK and not one.flags & SYN:
            if flow.started and len(flow.times) == 2 and side == 0:
                flow.times.append(one.time_ns)
                _rtt(other, one.time_ns - flow.times[1])
            scale = me.scale if me.syn and other.syn else None
            if scale is not None:
                me.window = one.window << (scale if other.scale is not None else 0)
            self._ack(other, me, one, kinds)
        if one.flags & RST and flow.started and not flow.answered:
            flow.refused = True
        if one.length and not one.flags & SYN:
            self._data_sent(flow, me, one)
        self._follow(flow, side)

    def _syn(self, flow: Flow, side: int, one: Segment, kinds: set[int]) -> None:
        me = flow.halves[side]
        me.capable = me.capable or CAPABLE in kinds
        if one.flags & ACK:
            flow.answered = True
            if len(flow.times) == 1:
                flow.times.append(one.time_ns)
                _rtt(flow.halves[0], one.time_ns - flow.times[0])
            self.opened[flow.ends[1].rpartition(":")[2]] = (flow.halves[0].capable, me.capable)
        else:
            flow.started = True
            flow.times = [one.time_ns]

    def _ack(self, sender: Half, me: Half, one: Segment, kinds: set[int]) -> None:
        """An ACK of what the other end sends."""
        sender.heard_ns = one.time_ns
        if sender.base is None:
            sender.base = one.ack
        ack = _wrapped(one.ack - sender.base, sender.una)
        if ack <= sender.una or ack > sender.next + 1:
            return
        if sender.next:
            me.plain_acks = 0 if kinds else me.plain_acks + 1
        popped = None
        while sender.flight and sender.flight[0][1] <= ack:
            popped = sender.flight.popleft()
            length = popped[1] - popped[0]
            sender.largest_acked = max(sender.largest_acked, min(length, me.mss or length))
        if sender.flight and sender.flight[0][0] < ack:
            start, end, when = sender.flight[0]
            sender.largest_acked = max(sender.largest_acked, min(ack - start, me.mss or ack))
            sender.flight[0] = (ack, end, when)
        if popped is not None and not sender.again:
            _rtt(sender, one.time_ns - popped[2])
        if sender.again and ack >= sender.again[1]:
            sender.again = None
        sender.una, sender.backoff, sender.una_sent_ns = ack, 0, one.time_ns
        if sender.una >= sender.next and sender.busy_since is not None:
            sender.busy_ns += one.time_ns - sender.busy_since
            sender.busy_since = None

    def _data_sent(self, flow: Flow, me: Half, one: Segment) -> None:
        assert me.base is not None
        start = _wrapped(one.seq - me.base, me.next)
        end = start + one.length
        if one.length == 1 and end == me.next and me.una == me.next:
            return  # a keep-alive
        limit = flow.halves[1 - flow.halves.index(me)].mss or one.length
        pieces = -(-one.length // limit)
        me.sent += one.length
        me.segments += pieces
        me.largest = max(me.largest, min(one.length, limit))
        if start < me.next:
            repeated = min(end, me.next) - start
            me.resent += repeated
            me.resent_segments += -(-repeated // limit)
            if me.again is None or start >= me.again[1]:
                if me.srtt_ns is not None:
                    me.loss_rtts.append(me.srtt_ns)
                me.again = (start, end) if me.again is None else (me.again[0], end)
            if start <= me.una and one.time_ns - me.una_sent_ns >= TIMEOUT_NS:
                me.backoff += 1
            if start <= me.una:
                me.una_sent_ns = one.time_ns
        if end > me.next:
            if me.busy_since is None:
                me.busy_since = me.una_sent_ns = one.time_ns
            me.flight.append((max(start, me.next), end, one.time_ns))
            me.next = end

    def _options(self, flow: Flow, side: int, one: Segment) -> set[int]:
        """Subtypes of Multipath TCP, whose contents are noted. Cut and wrong options end it."""
        found: set[int] = set()
        options, at, size = one.options, 0, len(one.options)
        me = flow.halves[side]
        while at < size and options[at]:
            if options[at] == 1:
                at += 1
                continue
            if at + 2 > size or options[at + 1] < 2 or at + options[at + 1] > size:
                break
            kind, body = options[at], options[at + 2 : at + options[at + 1]]
            at += options[at + 1]
            if kind == 30 and body:
                found.add(body[0] >> 4)
                self._multipath(flow, side, one, body)
            elif kind == 2 and one.flags & SYN and len(body) == 2:
                me.mss = body[0] << 8 | body[1]
            elif kind == 3 and one.flags & SYN and len(body) == 1:
                me.scale = min(body[0], 14)
        if one.flags & SYN and me.scale is None:
            me.scale = 0 if one.options else None
        me.options += bool(found)
        return found

    def _multipath(self, flow: Flow, side: int, one: Segment, body: bytes) -> None:
        me, other = flow.halves[side], flow.halves[1 - side]
        kind = body[0] >> 4
        if kind in NAMES and not (kind == ADD_ADDR and body[0] & 1):
            name = NAMES[kind]
            if kind == RESET and len(body) > 1:
                name += f" with reason {body[1]}"
            flow.seen[name] = flow.seen.get(name, 0) + 1
            me.announced += kind == ADD_ADDR
        if kind == CAPABLE:
            flow.old = flow.old or body[0] & 15 == 0
            for half, key in ((me, body[2:10]), (other, body[10:18])):
                if len(key) == 8:
                    half.key = key
        elif kind == JOIN and one.flags & SYN:
            me.backup = bool(body[0] & 1)
            if not one.flags & ACK and len(body) >= 6:
                flow.join = body[2:6].hex()
        elif kind == PRIO:
            me.backup = bool(body[0] & 1)
        elif kind == FAIL:
            flow.fell_back = flow.join is None
        elif kind == DSS and len(body) > 1:
            _dss(me, one, body)

    def _follow(self, flow: Flow, side: int) -> None:
        """Puts the subflow to its connection, and counts the data that is unacknowledged."""
        me = flow.halves[side]
        if flow.group < 0:
            flow.group = self._group(flow)
            if flow.group < 0:
                return
            self._ends.setdefault(flow.group, Ends())
            halves = self._data.setdefault(flow.group, [[], []])
            halves[0].append(flow.halves[0])
            halves[1].append(flow.halves[1])
        for half in flow.halves:
            if half.key and not half.listed:
                half.listed = True
                self._tokens[_token(half.key)] = flow.group
        ends = self._ends[flow.group]
        ends.sent[side] = _later(me.data_next, ends.sent[side])
        ends.acked[1 - side] = _later(me.data_una, ends.acked[1 - side])
        for half, sent, acked in zip(flow.halves, ends.sent, ends.acked, strict=True):
            if sent is not None and acked is not None:
                half.outstanding = max(half.outstanding, sent - _wrapped(acked, sent))

    def _group(self, flow: Flow) -> int:
        if flow.started and flow.join is None:
            return next(self._groups)
        if flow.join is not None and flow.join in self._tokens:
            return self._tokens[flow.join]
        for half, i in ((flow.halves[0], 0), (flow.halves[1], 1)):
            for number, groups in self._data.items():
                for other in groups[i]:
                    if half.data_next is not None and other.data_next is not None:
                        near = _wrapped(half.data_next, other.data_next) - other.data_next
                        if abs(near) < NEAR:
                            return number
        known = any(half.data_next is not None for half in flow.halves)
        if flow.join is not None and not known and any(h.options > 3 for h in flow.halves):
            return next(self._groups)
        return next(self._groups) if flow.join is None and (known or _plain(flow)) else -1

    def output(self, now_ns: int) -> Output:
        """Output that ss would have printed at a time."""
        found = Output(now_ns / 1e9)
        groups: dict[int, list[Flow]] = {}
        for flow in self.flows.values():
            if flow.refused or not (flow.started or any(h.sent for h in flow.halves)):
                continue
            group = flow.group if flow.group >= 0 else self._tokens.get(flow.join or "", -1)
            groups.setdefault(group, []).append(flow)
        for number, flows in groups.items():
            here = _here(flows)
            for flow, side in zip(flows, here, strict=True):
                me, other = flow.halves[side], flow.halves[1 - side]
                local, remote = flow.ends[side], flow.ends[1 - side]
                state = "ESTAB" if flow.answered or not flow.started else "SYN-SENT"
                fields = _fields(me, other, now_ns)
                text = _said(flow, me, other, number)
                text += " ".join(f"{name}:{value:g}" for name, value in fields.items())
                found.sockets[local, remote] = Socket(local, remote, text, fields, state)
                if flow.join is None and me.data_next is not None and not _fallen(flow):
                    most = max(f.halves[s].outstanding for f, s in zip(flows, here, strict=True))
                    end = f"write_seq:{most + (1 << 62):020d} snd_una:{1 << 62:020d}"
                    found.connections[local, remote] = Socket(local, remote, end)
            for flow in flows:
                for half in flow.halves:
                    half.outstanding = 0
        return found

    def counters(self) -> dict[str, int] | None:
        """Counters as nstat has them, of the connections that began in the capture."""
        flows = [flow for flow in self.flows.values() if flow.started]
        if not flows:
            return None
        joins = [flow for flow in flows if flow.join is not None and not flow.refused]
        return {
            "MPJoinSynTx": len(joins),
            "MPJoinSynAckRx": sum(flow.answered for flow in joins),
            "AddAddr": sum(flow.halves[1].announced for flow in self.flows.values()),
        }

    def said(self) -> str:
        """Remarks for the line of what was read."""
        flows = self.flows.values()
        counts: dict[str, int] = {}
        for flow in flows:
            for name, number in flow.seen.items():
                counts[name] = counts.get(name, 0) + number
        text = "".join(f"; {number} {name}" for name, number in counts.items())
        for flow in flows:
            if flow.refused and flow.join:
                text += f"; the join to {flow.ends[1]} was refused"
        if self.duplicates:
            text += f"; {self.duplicates} packets captured twice"
        if any(
            not flow.started and sum(h.sent for h in flow.halves) > NEAR >> 10 for flow in flows
        ):
            text += (
                "; it began after a handshake: no keys, subflows together by the numbers of their "
                "data, windows without their scale left out"
            )
        return text


def _dss(me: Half, one: Segment, body: bytes) -> None:
    """Data ACK and mapping (RFC 8684, section 3.3)."""
    flags, at = body[1], 2
    if flags & 1:
        size = 8 if flags & 2 else 4
        if at + size > len(body):
            return
        value = int.from_bytes(body[at : at + size], "big")
        known = me.data_una
        if known is None:
            me.data_una = value & 0xFFFFFFFF
        else:
            me.data_una = max(known, _wrapped(value, known))
        at += size
    if flags & 4:
        size = 8 if flags & 8 else 4
        if at + size + 6 > len(body):
            return
        value = int.from_bytes(body[at : at + size], "big") & 0xFFFFFFFF
        relative = int.from_bytes(body[at + size : at + size + 4], "big")
        length = int.from_bytes(body[at + size + 4 : at + size + 6], "big")
        if not length:
            return
        if me.syn and me.base is not None:
            # A mapping of several segments is sent as far as this one ends.
            ends = (one.seq + one.length - me.base + 1 - relative) & 0xFFFFFFFF
            length = min(length, ends)
        end = value + length
        me.data_next = end if me.data_next is None else max(
            me.data_next, _wrapped(end, me.data_next)
        )  # fmt: skip


def _rtt(half: Half, sample_ns: int) -> None:
    """A sample of the RTT: least, and smoothed as in RFC 6298."""
    half.minrtt_ns = min(sample_ns, half.minrtt_ns or sample_ns)
    old = half.srtt_ns
    half.srtt_ns = float(sample_ns) if old is None else old + (sample_ns - old) / 8


def _plain(flow: Flow) -> bool:
    """Whether a subflow that began before the capture shows no Multipath TCP."""
    return not any(half.options for half in flow.halves)


def _fallen(flow: Flow) -> bool:
    one, two = flow.halves
    if flow.fell_back or (flow.answered and one.capable and not two.capable):
        return True
    return one.capable and max(one.plain_acks, two.plain_acks) >= SILENT_ACKS


def _here(flows: Sequence[Flow]) -> list[int]:
    """The end of each subflow at which the capture was taken; without a sign that which sends."""
    found: int | None = None
    for flow in flows:
        if flow.sent_here is not None:
            source, sent = flow.sent_here
            found = flow.ends.index(source) if sent else 1 - flow.ends.index(source)
        elif len(flow.times) == 3:
            syn, answer, ack = flow.times
            found = 0 if answer - syn >= ack - answer else 1
        if found is not None:
            break
    sides = []
    for flow in flows:
        if found is not None and (flow.started or flow.sent_here is not None):
            sides.append(found)
        else:
            sides.append(0 if flow.halves[0].sent >= flow.halves[1].sent else 1)
    return sides


def _fields(me: Half, other: Half, now_ns: int) -> dict[str, float]:
    busy = me.busy_ns + (now_ns - me.busy_since if me.busy_since is not None else 0)
    fields: dict[str, float] = {
        "mss": me.largest,
        "unacked": len(me.flight),
        "backoff": me.backoff,
        "bytes_sent": me.sent,
        "bytes_retrans": me.resent,
        "bytes_acked": me.una,
        "bytes_received": other.una,
        "data_segs_out": me.segments,
        "busy": busy / 1e6,
        "largest_acked": me.largest_acked,
    }
    if me.largest:
        fields["unacked"] = -(-max(0, me.next - me.una) // me.largest)
    if me.srtt_ns is not None and me.minrtt_ns is not None:
        fields |= {"rtt": me.srtt_ns / 1e6, "minrtt": me.minrtt_ns / 1e6}
    since = max(me.heard_ns or 0, 0)
    if since:
        fields["lastack"] = max(0, now_ns - since) / 1e6
    if other.window is not None:
        fields["snd_wnd"] = other.window
    if me.mss is not None:
        fields["pmtu"] = me.mss + 40
    if me.loss_rtts:
        fields["loss_rtt"] = statistics.median(me.loss_rtts) / 1e6
    return fields


def _said(flow: Flow, me: Half, other: Half, number: int) -> str:
    """Words of ss that the rows look for, and `captured`."""
    text = f"captured group:{number} retrans:0/{me.resent_segments} "
    if flow.device:
        text += f"on:{flow.device} "
    multipath = flow.join is not None or any(half.options for half in flow.halves)
    if not multipath and not flow.halves[0].capable:
        return text
    if _fallen(flow):
        flags = "mc"
    elif flow.join is not None:
        flags = "Jjec"
    else:
        flags = "Mmec"
    flags += "b" * me.backup + "B" * other.backup
    return text + f"tcp-ulp-mptcp flags:{flags} "
