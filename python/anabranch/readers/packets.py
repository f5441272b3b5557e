"""TCP segments of pcap and pcapng files, whose headers suffice.

Both byte orders and every resolution of time; Ethernet with VLAN tags, raw IP, BSD loopback and
Linux cooked captures 1 and 2; IPv4 and IPv6 with extension headers. Sources: the drafts
draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng, RFC 9293 (TCP).
"""

import ipaddress
import mmap
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import NamedTuple

from anabranch._core import ScenarioError

PCAPNG = b"\x0a\x0d\x0d\x0a"
PCAP = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
"""Byte order, and ns of a unit of the fraction, by the first bytes of a pcap file."""
LARGEST = 1 << 18
"""Bytes of a packet that a capture can hold; a larger length is wrong."""
SNAP_BYTES = 94
"""IPv4, TCP and the options of a SYN/ACK behind an Ethernet header."""
VLAN = (0x8100, 0x88A8, 0x9100)
IPV4, IPV6, TCP = 0x0800, 0x86DD, 6
EXTENSIONS = (0, 43, 60)
"""Hop-by-hop options, routing, destination options (RFC 8200)."""
FRAGMENT = 44
LINKS = {
    0: "loopback",
    1: "Ethernet",
    12: "raw IP",
    14: "raw IP",
    101: "raw IP",
    108: "loopback",
    113: "Linux cooked",
    228: "raw IP",
    229: "raw IP",
    276: "Linux cooked 2",
}
OUTGOING = 4
"""Packet type of a Linux cooked capture: sent by this host."""
SHORT, TCP_HEADER = Struct(">H"), Struct(">HHIIBBH")


class Segment(NamedTuple):
    """A TCP segment as a capture has it."""

    time_ns: int
    source: str
    """Address and port, as ss prints them."""
    target: str
    seq: int
    ack: int
    flags: int
    window: int
    """As in the header, not scaled."""
    length: int
    """Bytes of data, captured or not."""
    options: bytes
    device: str
    """Interface that the file names; "" where it names none."""
    sent_here: bool | None
    """Whether this host sent it; None where the file does not say."""
    ip_id: int
    """Identification of IPv4; 0 of IPv6."""


class Frame(NamedTuple):
    """A captured packet, and where its bytes are."""

    time_ns: int
    link: int
    device: str
    start: int
    end: int
    original: int


@dataclass
class Capture:
    """A capture file, and a count of what it holds."""

    file: pathlib.Path
    format: str = ""
    packets: int = 0
    segments: int = 0
    wrong: int = 0
    """Packets with a wrong length, or cut before the end of the TCP header."""
    cut_options: int = 0
    """Segments whose options are cut."""
    unknown_links: set[int] = field(default_factory=set)
    devices: dict[str, None] = field(default_factory=dict)
    snap_bytes: int | None = None
    """Least snap length."""
    fraction: float = 0.0
    """Share of the file that is read."""
    ends_early: bool = False
    """Whether the file ends within a packet, or its structure is broken there."""

    def segments_of(self, every: int = 1) -> Iterator[Segment]:
        """Segments of TCP in the order of the file, of one of `every` packets.

        Raises `ScenarioError` for files of another format.
        """
        self.packets = self.segments = self.wrong = self.cut_options = 0
        with self.file.open("rb") as opened:
            if self.file.stat().st_size < len(PCAPNG) + 20:
                raise ScenarioError(
                    f"{self.file}: a capture that is cut in its first header: take it again with "
                    "`tcpdump -s 120 -w FILE`, or take `ss -tinmM` twice"
                )
            with mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
                frames = self._pcapng(data) if data[:4] == PCAPNG else self._pcap(data)
                addresses: dict[bytes, str] = {}
                for frame in frames:
                    self.packets += 1
                    if self.packets % every:
                        continue
                    self.fraction = frame.end / len(data)
                    if frame.link not in LINKS:
                        self.unknown_links.add(frame.link)
                        continue
                    packet = data[frame.start : min(frame.end, frame.start + 256)]
                    try:
                        found = self._segment(packet, frame, addresses)
                    except (IndexError, ValueError, OverflowError):
                        self.wrong += 1
                        continue
                    if found is not None:
                        self.segments += 1
                        yield found

    def _pcap(self, data: mmap.mmap) -> Iterator[Frame]:
        order, unit = PCAP[data[:4]]
        self.format = "pcap"
        header, record = Struct(order + "IHHiIII"), Struct(order + "IIII")
        _, _, _, _, _, snap, link = header.unpack_from(data)
        self._snap(snap)
        at, size = header.size, len(data)
        while at + record.size <= size:
            seconds, fraction, captured, original = record.unpack_from(data, at)
            at += record.size
            if captured > LARGEST or at + captured > size:
                self.ends_early = True
                return
            time_ns = seconds * 1_000_000_000 + fraction * unit
            yield Frame(time_ns, link & 0xFFFF, "", at, at + captured, original)
            at += captured
        self.ends_early = at != size

    def _pcapng(self, data: mmap.mmap) -> Iterator[Frame]:
        self.format = "pcapng"
        order, at, size = "<", 0, len(data)
        interfaces: list[tuple[int, str, int, int]] = []
        block = Struct(order + "II")
        packet = Struct(order + "IIIII")
        while at + 12 <= size:
            if data[at : at + 4] == PCAPNG:
                order = "<" if data[at + 8 : at + 12] == b"\x4d\x3c\x2b\x1a" else ">"
                block, packet, interfaces = Struct(order + "II"), Struct(order + "IIIII"), []
            kind, length = block.unpack_from(data, at)
            if length < 12 or length % 4 or at + length > size:
                self.ends_early = True
                return
            start, end = at + 8, at + length - 4
            at += length
            if kind == 1 and end - start >= 8:
                interfaces.append(self._interface(data[start:end], order))
            elif kind in (2, 3, 6):
                # A simple packet block (3) has no time.
                if kind == 3 or end - start < packet.size:
                    self.packets += 1
                    self.wrong += 1
                    continue
                number, high, low, captured, original = packet.unpack_from(data, start)
                if kind == 2:
                    number = Struct(order + "H").unpack_from(data, start)[0]
                start += packet.size
                if number >= len(interfaces) or captured > end - start:
                    self.packets += 1
                    self.wrong += 1
                    continue
                link, name, per_s, offset = interfaces[number]
                time_ns = (high << 32 | low) * 1_000_000_000 // per_s + offset * 1_000_000_000
                yield Frame(time_ns, link, name, start, start + captured, original)
        self.ends_early = at != size

    def _interface(self, body: bytes, order: str) -> tuple[int, str, int, int]:
        """Link type, name, units of time per second, and offset, s."""
        link, _, snap = Struct(order + "HHI").unpack_from(body)
        self._snap(snap)
        name, per_s, offset, at = "", 1_000_000, 0, 8
        short = Struct(order + "HH")
        while at + 4 <= len(body):
            code, length = short.unpack_from(body, at)
            value = body[at + 4 : at + 4 + length]
            at += 4 + (length + 3) // 4 * 4
            if code == 0:
                break
            if code == 2:
                name = value.split(b"\0")[0].decode("utf-8", errors="replace")
            elif code == 9 and value:
                exponent = value[0] & 0x7F
                base, most = (2, 63) if value[0] & 0x80 else (10, 18)
                if exponent > most:
                    raise ScenarioError(f"{self.file}: an interface with a resolution of time of "
                                        f"{base}^-{exponent} s")  # fmt: skip
                per_s = base**exponent
            elif code == 14 and len(value) == 8:
                offset = Struct(order + "q").unpack(value)[0]
        if name == "any":
            name = ""
        if name:
            self.devices[name] = None
        return link, name, per_s, offset

    def _snap(self, snap: int) -> None:
        if snap:
            self.snap_bytes = min(snap, self.snap_bytes or snap)

    def _segment(self, packet: bytes, frame: Frame, addresses: dict[bytes, str]) -> Segment | None:
        kind, at, sent_here = _network(packet, frame.link)
        if kind == 0:
            kind = IPV4 if packet[at] >> 4 == 4 else IPV6 if packet[at] >> 4 == 6 else 0
        ip_id = 0
        if kind == IPV4:
            if packet[at] >> 4 != 4 or packet[at] & 15 < 5:
                raise ValueError
            if packet[at + 9] != TCP or SHORT.unpack(packet[at + 6 : at + 8])[0] & 0x1FFF:
                return None
            ip_id = SHORT.unpack(packet[at + 4 : at + 6])[0]
            # Segmentation offload leaves the length 0 above 64 kB.
            total = SHORT.unpack(packet[at + 2 : at + 4])[0] or frame.original - at
            source, target = packet[at + 12 : at + 16], packet[at + 16 : at + 20]
            tcp, end = at + 4 * (packet[at] & 15), at + total
        elif kind == IPV6:
            total = SHORT.unpack(packet[at + 4 : at + 6])[0]
            end = at + 40 + total if total else frame.original
            source, target = packet[at + 8 : at + 24], packet[at + 24 : at + 40]
            header, tcp = packet[at + 6], at + 40
            while header in EXTENSIONS:
                header, tcp = packet[tcp], tcp + 8 * (packet[tcp + 1] + 1)
            if header == FRAGMENT:
                if SHORT.unpack(packet[tcp + 2 : tcp + 4])[0] & 0xFFF8:
                    return None
                header, tcp = packet[tcp], tcp + 8
            if header != TCP:
                return None
        else:
            return None
        if len(packet) < tcp + 20:
            raise ValueError
        one, two, seq, ack, offset, flags, window = TCP_HEADER.unpack_from(packet, tcp)
        data = tcp + 4 * (offset >> 4)
        if offset >> 4 < 5 or end < data or end - at > LARGEST:
            raise ValueError
        if len(packet) < data:
            self.cut_options += 1
        return Segment(
            frame.time_ns, f"{_text(source, addresses)}:{one}", f"{_text(target, addresses)}:{two}",
            seq, ack, flags, window, end - data, packet[tcp + 20 : data], frame.device, sent_here,
            ip_id,
        )  # fmt: skip


def _network(packet: bytes, link: int) -> tuple[int, int, bool | None]:
    """Protocol (0: by its version), where it begins, and whether this host sent the packet."""
    if link == 1:
        at = 12
        kind = SHORT.unpack(packet[at : at + 2])[0] if len(packet) > 14 else 0xFFFF
        while kind in VLAN and at < 24:
            at += 4
            kind = packet[at] << 8 | packet[at + 1]
        return kind, at + 2, None
    if link == 113:
        return packet[14] << 8 | packet[15], 16, packet[1] == OUTGOING
    if link == 276:
        return packet[0] << 8 | packet[1], 20, packet[10] == OUTGOING
    return 0, 4 if link in (0, 108) else 0, None


def _text(address: bytes, known: dict[bytes, str]) -> str:
    text = known.get(address)
    if text is None:
        found = ipaddress.ip_address(address)
        text = known[address] = f"[{found}]" if found.version == 6 else str(found)
    return text
