"""Files of measurements as evidence: each is recognised by its content."""

import pathlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from anabranch._core import ScenarioError
from anabranch.diagnose import host as hosts
from anabranch.diagnose import quic
from anabranch.diagnose.host import Host
from anabranch.readers import capture, iperf3, ss
from anabranch.readers.connection import Recording
from anabranch.readers.ss import Output
from anabranch.scenario import expected_one_of

SERIES = 6
"""A file with as many outputs of ss is a series beside the samples of other files."""

IPERF3 = re.compile(r'"(intervals|event)"\s*:')

SAME_TIME_S = 0.2
"""Outputs of several forms, such as `ss -tin` and `ss -tinM`, are taken at one time."""

REFUSED = {
    b"\x1f\x8b": "a compressed file: unpack it",
    b"PK\x03\x04": "a compressed file: unpack it",
}
"""First bytes of files that are not read, and are left out of a folder."""

EXPECTED = (
    "expected the output of ss, nstat, ip, sysctl or tc, a capture, a qlog, or the JSON of "
    "`iperf3 -J`; "
    "take `ss -tinmM` twice, some seconds apart, at the sender"
)


@dataclass(frozen=True)
class Read:
    """A file, and what was found in it."""

    file: str
    format: str
    of_peer: bool


@dataclass
class Evidence:
    """All that the files say."""

    here: Host = field(default_factory=Host)
    peer: Host = field(default_factory=Host)
    samples: list[Output] = field(default_factory=list)
    """Outputs of ss in their order: those with `-M` where there are any."""
    series: list[Output] = field(default_factory=list)
    """Outputs of files with many, where other files have the samples."""
    left_by: dict[tuple[str, str], str] = field(default_factory=dict)
    """Device on which a capture has a subflow, by both addresses with ports."""
    alone_mbps: dict[str, float] = field(default_factory=dict)
    """Goodput of each path alone, by device."""
    links_mbps: dict[str, float] = field(default_factory=dict)
    """Rates of the contract, by device."""
    goodput_mbps: float | None = None
    """Goodput by iperf3."""
    captures: list[pathlib.Path] = field(default_factory=list)
    logs: list[pathlib.Path] = field(default_factory=list)
    """Qlog files of this end."""
    peer_captures: list[pathlib.Path] = field(default_factory=list)
    read: list[Read] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """Files of a folder that are not read, with the reason."""


def gather(
    files: Iterable[pathlib.Path],
    peers: Iterable[pathlib.Path] = (),
    alone: Mapping[str, pathlib.Path] | None = None,
    links_mbps: Mapping[str, float] | None = None,
    done: Callable[[float], None] = lambda _: None,
) -> Evidence:
    """Read files and folders. In a folder `peer-*` is of the other end, `alone-DEVICE.json` a path.

    `done` gets the fraction of captures that is read. Raises `ScenarioError` for a file that was
    named and has an unknown format, and OSError.
    """
    found = Evidence(links_mbps=dict(links_mbps or {}))
    outputs: list[tuple[pathlib.Path, list[Output]]] = []
    for file in files:
        if file.is_dir():
            for inside in sorted(file.iterdir()):
                _read_of_folder(inside, found, outputs)
        else:
            _read_file(file, found, found.here, outputs, named=True)
    for file in peers:
        inner = sorted(file.iterdir()) if file.is_dir() else [file]
        for one in inner:
            _read_file(one, found, found.peer, outputs, named=not file.is_dir())
    for device, file in (alone or {}).items():
        _read_alone(device, file, found, named=True)
    found.samples, found.series = _chosen(outputs)
    _read_captures(found, done)
    if found.logs and found.samples:
        found.skipped += [f"{file.name} (qlog, beside other samples)" for file in found.logs]
    elif found.logs:
        found.samples, said = quic.read(found.logs)
        found.read.append(Read(", ".join(map(str, found.logs)), said, False))
    return found


def check_devices(found: Evidence, devices: Iterable[str], paths: Iterable[str | None]) -> None:
    """Raise `ScenarioError` for a device that neither a path nor an address of this host has."""
    known = {*(found.here.addresses or {}).values(), *filter(None, paths)}
    for device in devices:
        if known and device not in known:
            raise ScenarioError(f"device {device!r}: {expected_one_of(device, sorted(known))}")


def _read_captures(found: Evidence, done: Callable[[float], None]) -> None:
    """Captures of one host are read together; samples of ss come first."""
    for host, files in ((found.here, found.captures), (found.peer, found.peer_captures)):
        if not files:
            continue
        of_peer = host is found.peer
        try:
            said = capture.read(files, done)
        except ScenarioError as error:
            if not found.samples or of_peer:
                raise
            found.skipped.append(str(error))
            continue
        names = ", ".join(str(file) for file in files)
        found.read.append(Read(names, f"capture of {said.description}", of_peer))
        host.opened = said.opened
        if not of_peer:
            host.counters = said.counters if host.counters is None else host.counters
            found.left_by = said.left_by
            found.samples = found.samples or said.outputs


def _read_of_folder(
    file: pathlib.Path, found: Evidence, outputs: list[tuple[pathlib.Path, list[Output]]]
) -> None:
    if file.is_dir() or file.suffix == ".toml":
        return
    if match := re.fullmatch(r"alone-(.+)\.json", file.name):
        _read_alone(match[1], file, found, named=False)
    elif file.name.startswith("peer-"):
        _read_file(file, found, found.peer, outputs, named=False)
    else:
        _read_file(file, found, found.here, outputs, named=False)


def _iperf3(text: str, file: pathlib.Path, found: Evidence, *, named: bool) -> Recording | None:
    """The test in a file; None for one of a folder that did not end well, which is left out."""
    try:
        return iperf3.read(text, file)
    except ScenarioError as error:
        if named:
            raise
        found.skipped.append(f"{file.name} ({str(error).removeprefix(f'{file}: ')})")
        return None


def _read_alone(device: str, file: pathlib.Path, found: Evidence, *, named: bool) -> None:
    text = file.read_text(encoding="utf-8-sig", errors="replace")
    recording = _iperf3(text, file, found, named=named)
    if recording is None:
        return
    rates = [one.goodput_mbps for one in recording.connections if one.goodput_mbps is not None]
    if not rates:
        found.skipped.append(f"{file.name} ({recording.connections[0].unknown})")
        return
    found.alone_mbps[device] = sum(rates)
    found.read.append(Read(str(file), f"{recording.format}, {device} alone", False))


def _read_file(
    file: pathlib.Path,
    found: Evidence,
    host: Host,
    outputs: list[tuple[pathlib.Path, list[Output]]],
    *,
    named: bool,
) -> None:
    of_peer = host is found.peer
    with file.open("rb") as opened:
        if opened.read(4) in capture.MAGIC:
            (found.peer_captures if of_peer else found.captures).append(file)
            return
    data = file.read_bytes()
    for magic, words in REFUSED.items():
        if data.startswith(magic):
            if named:
                raise ScenarioError(f"{file}: {words}: {EXPECTED}")
            found.skipped.append(f"{file.name} ({words})")
            return
    if quic.is_qlog(data):
        if of_peer:
            found.skipped.append(f"{file.name} (a qlog of the other end)")
        else:
            found.logs.append(file)
        return
    text = data.decode("utf-8-sig", errors="replace")
    if text.lstrip().startswith("{") and IPERF3.search(text):
        recording = _iperf3(text, file, found, named=named)
        if recording is None:
            return
        sent = [one.goodput_mbps for one in recording.connections if one.sent]
        rates = [rate for rate in sent if rate is not None]
        if rates and not of_peer:
            found.goodput_mbps = sum(rates)
        found.read.append(Read(str(file), recording.format, of_peer))
        return
    formats = hosts.read(text, host)
    taken = ss.outputs(text)
    if listening := {port for output in taken for port in output.listening}:
        host.listening = (host.listening or set()) | listening
        formats.append("ss -l")
    taken = [output for output in taken if output.sockets or output.connections]
    if not taken and not formats and ss.HEADER.match(text.lstrip()):
        formats.append("ss without a socket")
    if taken:
        formats.insert(0, "ss -M" if any(output.connections for output in taken) else "ss")
        if not of_peer:
            outputs.append((file, taken))
    if not formats:
        if named:
            raise ScenarioError(f"{file}: not known: {EXPECTED}")
        found.skipped.append(f"{file.name} (not known)")
        return
    found.read.append(Read(str(file), ", ".join(formats), of_peer))


def _chosen(
    outputs: list[tuple[pathlib.Path, list[Output]]],
) -> tuple[list[Output], list[Output]]:
    """The samples, and a longer series beside them."""
    with_connections = [
        taken for _, taken in outputs if any(output.connections for output in taken)
    ]
    few = with_connections or [taken for _, taken in outputs if len(taken) < SERIES]
    many = [taken for _, taken in outputs if len(taken) >= SERIES]
    samples = [output for taken in few or many for output in taken]
    return _in_order(samples), [output for taken in many for output in taken] if few else []


def _length(output: Output) -> int:
    return sum(len(socket.text) for socket in output.sockets.values())


def _in_order(samples: list[Output]) -> list[Output]:
    """The samples by time, of several of one time that which says most."""
    if len(samples) < 2:
        return samples
    since = [(ss.elapsed_s(samples[0], output) or 0.0, i) for i, output in enumerate(samples)]
    if any(ss.elapsed_s(samples[0], output) is None for output in samples[1:]):
        return samples
    found: list[tuple[float, Output]] = []
    for time_s, i in sorted(since):
        if not found or time_s - found[-1][0] > SAME_TIME_S:
            found.append((time_s, samples[i]))
        elif _length(samples[i]) > _length(found[-1][1]):
            found[-1] = (found[-1][0], samples[i])
    return [output for _, output in found]
