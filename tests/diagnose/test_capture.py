"""`anabranch diagnose` on captures: two of Linux 6.18, and those that a test writes by byte."""

import hashlib
import ipaddress
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch import ScenarioError
from anabranch.diagnose import Diagnosis, diagnose, gather

ARCHIVE = Path(__file__).with_name("captures.tar.xz")
LIMITS = "add_addr_accepted 0 subflows 2\n"
KEY, OTHER_KEY = b"ourskey1", b"theirkey"
TOKEN = hashlib.sha256(OTHER_KEY).digest()[:4]
SYN, ACK, RST = 2, 16, 4
FULL = 1400
RTT = 0.02

Packet = tuple[float, str, bytes]
"""Time, device, and the IP packet."""


def option(kind: int, body: bytes) -> bytes:
    return bytes([kind, 2 + len(body)]) + body


def packet(ends: tuple[str, str, int, int], seq: int, ack: int, flags: int, data: int,
           options: bytes = b"", window: int = 60000) -> bytes:  # fmt: skip
    source, target, one, two = ends
    options += b"\1" * (-len(options) % 4)
    tcp = struct.pack(">HHIIBBHHH", one, two, seq % 2**32, ack % 2**32,
                      (5 + len(options) // 4) << 4, flags, window, 0, 0) + options  # fmt: skip
    addresses = ipaddress.ip_address(source).packed + ipaddress.ip_address(target).packed
    size = len(tcp) + data
    if ":" in source:
        return struct.pack(">IHBB", 6 << 28, size, 6, 64) + addresses + tcp + bytes(data)
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + size, 0, 0, 64, 6, 0)
    return head + addresses + tcp + bytes(data)


class Talk:
    """Packets of a connection of two subflows, as the client's host captures them."""

    def __init__(self, *, six: bool = False, device: str = "wan") -> None:
        self.packets: list[Packet] = []
        self.device = device
        self.hosts = ["2001:db8::1", "2001:db8::2", "2001:db8::9"] if six else [
            "10.0.0.1", "10.0.1.1", "10.9.0.9"]  # fmt: skip
        self.sent = [0, 0]
        self.data = 5000

    def put(self, at: float, path: int, out: bool, seq: int, ack: int, flags: int,
            data: int = 0, options: bytes = b"", window: int = 60000) -> None:  # fmt: skip
        ends = (self.hosts[path], self.hosts[2], 4000 + path, 5201)
        ends = ends if out else (ends[1], ends[0], ends[3], ends[2])
        one = packet(ends, seq, ack, flags, data, options, window)
        self.packets.append((at, f"{self.device}{path}", one))

    def open(self, path: int = 0, at: float = 0.0, *, ours: bytes = b"", theirs: bytes | None = b"",
             version: int = 1) -> None:  # fmt: skip
        common = option(2, struct.pack(">H", 1460)) + option(3, b"\7")
        self.put(at, path, True, 999, 0, SYN, 0, common + ours)
        if theirs is None:
            return
        self.put(at + RTT, path, False, 1999, 1000, SYN | ACK, 0, common + theirs)
        third = b""
        if path == 0 and theirs:
            third = option(30, bytes([version, 1]) + KEY + OTHER_KEY)
        self.put(at + RTT + 1e-5, path, True, 1000, 2000, ACK, 0, third)

    def open_first(self, *, answered: bool = True, version: int = 1) -> None:
        ours = option(30, bytes([version, 1]))
        self.open(0, 0.0, ours=ours, theirs=option(30, bytes([version, 1]) + OTHER_KEY)
                  if answered else b"", version=version)  # fmt: skip

    def join(self, *, backup: bool = False, answered: bool = True) -> None:
        ours = option(30, bytes([0x10 | backup, 1]) + TOKEN + b"nonc")
        theirs = option(30, bytes([0x10, 2]) + bytes(12)) if answered else None
        self.open(1, 0.03, ours=ours, theirs=theirs)

    def send(self, at: float, path: int, size: int = FULL, *, acked: bool = True,
             wide: bool = True, window: int = 60000, plain: bool = False) -> None:  # fmt: skip
        """A segment, and an RTT later its ACK."""
        seq = self.sent[path]
        body = struct.pack(">BB", 0x20, 0x0F if wide else 5)
        body += struct.pack(">QQ" if wide else ">II", 7, self.data % 2 ** (64 if wide else 32))
        body += struct.pack(">IH", seq + 1, size)
        mapped = b"" if plain else option(30, body)
        self.put(at, path, True, 1000 + seq, 2000, ACK, size, mapped)
        self.sent[path] += size
        self.data += size
        if acked:
            ack = option(30, b"\x20\x01" + struct.pack(">I", self.data % 2**32))
            self.put(at + RTT, path, False, 2000, 1000 + seq + size, ACK, 0,
                     b"" if plain else ack, window)  # fmt: skip

    def again(self, at: float, path: int, first: int, size: int = FULL) -> None:
        self.put(at, path, True, 1000 + first, 2000, ACK, size)


def pcap(packets: list[Packet], wrap: Callable[[bytes], bytes], link: int, order: str,
         nano: bool, snap: int) -> bytes:  # fmt: skip
    unit = 1e9 if nano else 1e6
    out = struct.pack(order + "IHHiIII", 0xA1B23C4D if nano else 0xA1B2C3D4, 2, 4, 0, 0, snap, link)
    for at, _, one in packets:
        framed = wrap(one)
        kept = framed[:snap]
        out += struct.pack(order + "IIII", 1000 + int(at), round(at % 1 * unit), len(kept),
                           len(framed)) + kept  # fmt: skip
    return out


def block(order: str, kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    return (
        struct.pack(order + "II", kind, len(body) + 12)
        + body
        + struct.pack(order + "I", len(body) + 12)
    )


def pcapng(packets: list[Packet], wrap: Callable[[bytes], bytes], link: int, order: str,
           nano: bool, snap: int) -> bytes:  # fmt: skip
    out = block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))
    devices = sorted({device for _, device, _ in packets})
    for device in devices:
        name = device.encode() + bytes(-len(device) % 4)
        body = struct.pack(order + "HHI", link, 0, snap)
        body += struct.pack(order + "HH", 2, len(device)) + name
        body += struct.pack(order + "HHB3x", 9, 1, 9) if nano else b""
        out += block(order, 1, body)
    for at, device, one in packets:
        framed = wrap(one)
        kept = framed[:snap]
        time = round((1000 + at) * (1e9 if nano else 1e6))
        body = struct.pack(order + "IIIII", devices.index(device), time >> 32, time % 2**32,
                           len(kept), len(framed))  # fmt: skip
        out += block(order, 6, body + kept)
    return out


def kind(one: bytes) -> bytes:
    return b"\x08\x00" if one[0] >> 4 == 4 else b"\x86\xdd"


LINKS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "ethernet": (1, lambda one: bytes(12) + kind(one) + one),
    "vlan": (1, lambda one: bytes(12) + b"\x81\x00\x00\x05" + kind(one) + one),
    "raw": (101, lambda one: one),
    # The first octets of a cooked header say the direction; 4 is outgoing (here: by port 5201).
    "cooked": (113, lambda one: b"\0" + outgoing(one) + bytes(12) + kind(one) + one),
    "cooked 2": (276, lambda one: kind(one) + bytes(8) + outgoing(one) + bytes(9) + one),
    "loopback": (0, lambda one: b"\x02\0\0\0" + one),
}


def outgoing(one: bytes) -> bytes:
    at = 20 if one[0] >> 4 == 4 else 40
    return b"\0" if one[at : at + 2] == struct.pack(">H", 5201) else b"\4"


def written(folder: Path, talk: Talk, *, link: str = "raw", order: str = "<", nano: bool = True,
            ng: bool = True, snap: int = 120, name: str = "trace",
            by_device: bool = False) -> Path:  # fmt: skip
    number, wrap = LINKS[link]
    packets = sorted(talk.packets, key=lambda one: one[:2] if not by_device else one[1::-1])
    file = folder / name
    file.write_bytes((pcapng if ng else pcap)(packets, wrap, number, order, nano, snap))
    return file


def asked(folder: Path, talk: Talk, **how: object) -> Diagnosis:
    return diagnose(gather([written(folder, talk, **how)]))  # type: ignore[arg-type]


def steady(talk: Talk, *, both: bool = True, wide: bool = True) -> Talk:
    """500 segments, 1 ms apart, on each path."""
    for i in range(500):
        talk.send(0.1 + i * 1e-3, 0, wide=wide)
        if both:
            talk.send(0.1004 + i * 1e-3, 1, wide=wide)
    return talk


def numbers(found: Diagnosis) -> list[tuple[object, ...]]:
    return [
        (p.flags, round(p.rate_mbps or 0, 3), round(p.last.rtt_ms or 0, 3), p.last.retransmitted,
         p.last.number("largest_acked"), found.connection.window_bytes,
         found.connection.outstanding_bytes)
        for p in found.connection.paths
    ]  # fmt: skip


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nano", [True, False])
@pytest.mark.parametrize("ng", [True, False])
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("six", [True, False])
def test_every_form_of_a_capture_has_the_same_answer(
    tmp_path: Path, order: str, nano: bool, ng: bool, link: str, six: bool
) -> None:
    talk = Talk(six=six)
    talk.open_first()
    talk.join()
    found = asked(tmp_path, steady(talk), order=order, nano=nano, ng=ng, link=link, snap=160)
    # 1400 bytes each ms are 11.2 Mbps; 20 ms of 2 paths are 40 or 41 segments; 60000 << 7.
    for flags, rate, rtt, again, largest, window, _ in numbers(found):
        assert flags in ("Mmec", "Jjec")
        assert rate == pytest.approx(11.2, rel=0.01)
        assert rtt == pytest.approx(20.0, rel=0.01)
        assert (again, largest, window) == (0, 1400, 7_680_000)
    assert max(found.connection.outstanding_bytes) in range(39 * 1400, 43 * 1400)
    assert [path.flags for path in found.connection.paths] == ["Mmec", "Jjec"]
    if ng:
        assert [path.name for path in found.connection.paths] == ["wan0", "wan1"]
    assert found.cause.id == "not-enough"
    assert "congestion windows" in found.missing[-1].why or found.missing


def test_short_and_long_numbers_of_data_are_the_same(tmp_path: Path) -> None:
    answers = []
    for wide in (True, False):
        talk = Talk()
        talk.data = 2**32 - 200_000  # wraps
        talk.open_first()
        talk.join()
        answers.append(numbers(asked(tmp_path, steady(talk, wide=wide))))
    assert answers[0] == answers[1]


def test_interfaces_one_after_the_other_have_the_same_answer(tmp_path: Path) -> None:
    talk = Talk()
    talk.open_first()
    talk.join()
    steady(talk)
    one, other = (numbers(asked(tmp_path, talk, by_device=later)) for later in (False, True))
    assert one == other


def test_a_peer_that_answers_without_the_option_is_a_fallback(tmp_path: Path) -> None:
    talk = Talk()
    talk.open_first(answered=False)
    for i in range(500):
        talk.send(0.1 + i * 1e-3, 0, plain=True)
    file = written(tmp_path, talk)
    found = diagnose(gather([file]))
    assert found.connection.fell_back
    assert "ss -ltnM, at the peer" in [one.command for one in found.missing]
    # The same packets at the peer: its own SYN/ACK lacks the option.
    assert diagnose(gather([file], [file])).cause.id == "peer-without-mptcp"
    stripped = Talk()
    stripped.open(theirs=b"")
    for i in range(500):
        stripped.send(0.1 + i * 1e-3, 0, plain=True)
    peer = written(tmp_path, stripped, name="peer")
    assert diagnose(gather([file], [peer])).cause.id == "options-stripped"


def test_a_backup_and_a_join_without_an_answer_are_named(tmp_path: Path) -> None:
    talk = Talk()
    talk.open_first()
    talk.join(backup=True)
    found = asked(tmp_path, steady(talk, both=False))
    assert (found.cause.id, found.cause.path and found.cause.path.name) == ("backup-flag", "wan1")
    talk = Talk()
    talk.open_first()
    talk.join(answered=False)
    found = asked(tmp_path, steady(talk, both=False))
    assert (found.cause.id, found.cause.path and found.cause.path.name) == ("path-dead", "wan1")


def test_full_segments_that_are_never_acknowledged_are_a_black_hole(tmp_path: Path) -> None:
    talk = Talk()
    talk.open_first()
    talk.join()
    # 30 small segments, more than a full one together, arrive; full ones do not.
    for i in range(30):
        talk.send(0.1 + i * 1e-3, 1, 100)
    first = talk.sent[1]
    talk.send(0.15, 1, acked=False)
    for i in range(3000):
        talk.send(0.1 + i * 1e-3, 0)
    for at in (0.4, 0.9, 1.9):
        talk.again(at, 1, first)
    found = asked(tmp_path, talk)
    assert found.cause.id == "mtu-black-hole"
    assert any("100" in fact.value for fact in found.cause.facts if "largest" in fact.field)


def test_losses_without_a_queue_are_a_loss(tmp_path: Path) -> None:
    talk = Talk()
    talk.open_first()
    talk.join()
    steady(talk)
    for i in range(20):
        # Sent again an RTT after a hole, which its ACK fills.
        first = talk.sent[1]
        talk.send(0.7 + i * 0.1, 1, acked=False)
        talk.again(0.7 + i * 0.1 + RTT, 1, first)
        talk.put(0.7 + i * 0.1 + 2 * RTT, 1, False, 2000, 1000 + talk.sent[1], ACK, 0)
    found = asked(tmp_path, talk)
    assert "loss" in [found.cause.id, *(one.id for one in found.also)]


def test_a_window_that_is_full_is_found(tmp_path: Path) -> None:
    talk = Talk()
    talk.open_first()
    talk.join()
    # 20 ms of 2 paths are 56 kB; 440 << 7 = 56320.
    for i in range(500):
        talk.send(0.1 + i * 1e-3, 0, window=440)
        talk.send(0.1004 + i * 1e-3, 1, window=440)
    assert asked(tmp_path, talk).cause.id == "receive-buffer"


def test_a_capture_that_starts_late_joins_subflows_by_their_data(tmp_path: Path) -> None:
    talk = Talk()
    talk.open_first()
    talk.join()
    steady(talk)
    talk.packets = [one for one in talk.packets if one[0] > 0.3]
    found = asked(tmp_path, talk)
    assert len(found.connection.paths) == 2
    assert found.connection.window_bytes is None
    assert "no keys" in found.evidence.read[0].format


def test_version_0_is_refused_by_name(tmp_path: Path) -> None:
    talk = Talk()
    talk.open_first(version=0)
    with pytest.raises(ScenarioError, match="version 0"):
        asked(tmp_path, steady(talk, both=False))


def test_a_short_snap_length_is_said(tmp_path: Path) -> None:
    talk = Talk()
    talk.open_first()
    talk.join()
    found = asked(tmp_path, steady(talk), snap=60)
    assert "a SYN/ACK needs 94" in found.evidence.read[0].format


def test_wrong_packets_are_skipped_and_counted(tmp_path: Path) -> None:
    talk = Talk()
    talk.open_first()
    talk.join()
    steady(talk)
    right = numbers(asked(tmp_path, talk))
    talk.packets += [(0.2, "wan0", b"\x45"), (0.3, "wan0", b"\x41" + bytes(60)), (0.3, "wan1", b"")]
    found = asked(tmp_path, talk)
    assert numbers(found) == right
    assert "skipped" in found.evidence.read[0].format


@pytest.mark.parametrize("ng", [True, False])
def test_a_file_that_is_cut_at_any_byte_is_read_or_refused(tmp_path: Path, ng: bool) -> None:
    talk = Talk()
    talk.open_first()
    talk.join()
    for i in range(5):
        talk.send(0.1 + i * 1e-3, 0)
    data = written(tmp_path, talk, ng=ng).read_bytes()
    for end in range(4, len(data), 7):
        file = tmp_path / "cut"
        file.write_bytes(data[:end])
        try:
            diagnose(gather([file]))
        except ScenarioError as error:
            assert "cut" in str(error)  # noqa: PT017


def test_real_captures_have_the_cause(tmp_path: Path) -> None:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    found = diagnose(gather([tmp_path / "14-mtu.pcapng"]))
    assert (found.cause.id, found.cause.path and found.cause.path.name) == (
        "mtu-black-hole",
        "wan1",
    )
    limits = tmp_path / "ip.txt"
    limits.write_text(LIMITS)
    found = diagnose(gather([tmp_path / "18-add-addr.pcapng", limits]))
    assert found.cause.id == "add-addr-not-accepted"
    assert "ADD_ADDR" in found.evidence.read[-1].format


def test_a_large_capture_has_the_answer_of_a_small_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When data is sent is found from few of its packets; what is read is reported."""
    talk = Talk()
    talk.open_first()
    talk.join()
    file = written(tmp_path, steady(talk), snap=160)
    right = numbers(diagnose(gather([file])))
    monkeypatch.setattr("anabranch.readers.capture.LARGE_BYTES", 1000)
    done: list[float] = []
    found = numbers(diagnose(gather([file], done=done.append)))
    for one, other in zip(found, right, strict=True):
        assert one[1] == pytest.approx(other[1], rel=0.03)
        assert (one[0], *one[2:6]) == (other[0], *other[2:6])
    assert done == sorted(done)
    assert 0 <= done[-1] <= 1
