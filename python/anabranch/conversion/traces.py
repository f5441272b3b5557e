"""Traces of links: CSV with named columns, mahimahi's format, and files of public data sets.

A trace of a link (docs/reference/traces.md) has the column `time_s` and some of `rate_mbps`,
`delay_ms` and `loss`. Every reader here gives one, with the columns that its format has;
`LinkTrace.missing` are the others. No data set is part of this package.
"""

import csv
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from io import StringIO

from anabranch.scenario import ScenarioError, expected_one_of

COLUMNS = ("rate_mbps", "delay_ms", "loss")
"""What a trace may have beside the time."""

OPPORTUNITY_BITS = 12_000
"""What an opportunity of mahimahi carries: 1500 bytes."""

BIN_S = 0.1
"""Over what a rate is averaged where a format has packets or opportunities."""


@dataclass(frozen=True)
class LinkTrace:
    """Times, s, and the columns of a trace, of equal length. A value holds until the next time.

    >>> LinkTrace((0.0, 1.0), {"rate_mbps": (8.0, 4.0)}).missing
    ('delay_ms', 'loss')
    """

    time_s: tuple[float, ...]
    columns: dict[str, tuple[float, ...]]
    """The values by the name of their column, of `COLUMNS`."""

    @property
    def missing(self) -> tuple[str, ...]:
        """The columns that it does not have."""
        return tuple(name for name in COLUMNS if name not in self.columns)

    @property
    def end_s(self) -> float:
        """When the last value ends, if it holds as long as the others do in the mean."""
        steps = len(self.time_s) - 1
        return self.time_s[-1] + (self.time_s[-1] - self.time_s[0]) / steps if steps else 1.0


def read(text: str, source: str) -> LinkTrace:
    """The trace of a text in a format of `FORMATS`; times begin at 0.

    Raises `ScenarioError` for an unknown format, and with the line where the text is not of it.
    """
    if source not in FORMATS:
        raise ScenarioError(f"unknown format {source!r}: {expected_one_of(source, list(FORMATS))}")
    trace = FORMATS[source].reader(text)
    if not trace.time_s:
        raise ScenarioError("expected at least one line with values, got none")
    for number, (before, this) in enumerate(zip(trace.time_s, trace.time_s[1:], strict=False), 2):
        if this <= before:
            raise ScenarioError(f"value {number}: time {this:g} s is not after {before:g} s")
    begin = trace.time_s[0]
    return LinkTrace(tuple(time - begin for time in trace.time_s), trace.columns)


def to_csv(trace: LinkTrace) -> str:
    """The trace as a link's `trace_file`, with the columns that it has.

    >>> print(to_csv(LinkTrace((0.0,), {"rate_mbps": (8.0,)})), end="")
    time_s,rate_mbps
    0.0,8.0
    """
    names = [name for name in COLUMNS if name in trace.columns]
    rows = zip(trace.time_s, *(trace.columns[name] for name in names), strict=True)
    lines = [",".join(["time_s", *names]), *(",".join(map(repr, row)) for row in rows)]
    return "\n".join(lines) + "\n"


def to_mahimahi(trace: LinkTrace) -> str:
    """The rate of a trace as mahimahi's opportunities, which have no delay and no loss.

    Raises `ScenarioError` for a trace without a rate, or with less than one opportunity.

    >>> to_mahimahi(LinkTrace((0.0, 0.002), {"rate_mbps": (12.0, 24.0)})).split()
    ['1', '2', '3', '3', '4', '4']
    """
    if "rate_mbps" not in trace.columns:
        raise ScenarioError("expected a trace with rate_mbps: mahimahi's format has the rate alone")
    ends = (*trace.time_s[1:], trace.end_s)
    lines, sent, bits = list[int](), 0, 0.0
    for begin, end, mbps in zip(trace.time_s, ends, trace.columns["rate_mbps"], strict=True):
        total = bits + mbps * 1e6 * (end - begin)
        while (sent + 1) * OPPORTUNITY_BITS <= total + 1e-6:
            sent += 1
            time_s = begin + (sent * OPPORTUNITY_BITS - bits) / (mbps * 1e6)
            lines.append(max(1, math.ceil(time_s * 1e3 - 1e-6)))
        bits = total
    if not lines:
        raise ScenarioError("expected at least 1500 bytes in the whole trace, got less")
    return "".join(f"{line}\n" for line in lines)


def _csv(text: str) -> LinkTrace:
    rows, names = _rows(text, "time_s")
    known = [name for name in names if name in COLUMNS]
    if not known or len(known) + 1 != len(names):
        raise ScenarioError(f"line 1: expected time_s and some of {', '.join(COLUMNS)}")
    values = [
        (line, [_number(row, name, line) for name in ("time_s", *known)]) for line, row in rows
    ]
    times = tuple(row[0] for _, row in values)
    return LinkTrace(
        times, {name: tuple(row[k + 1] for _, row in values) for k, name in enumerate(known)}
    )


def _mahimahi(text: str) -> LinkTrace:
    times = list[int]()
    for line, content in enumerate(text.splitlines(), 1):
        if not content.strip().isdigit():
            raise ScenarioError(f"line {line}: expected a time in ms, found {content!r}")
        times.append(int(content))
    # An opportunity at the end of a bin belongs to it, as in the simulator.
    return _binned((max(time - 1, 0) / 1e3, float(OPPORTUNITY_BITS)) for time in times)


def _satellite_vs_cellular(text: str) -> LinkTrace:
    rows, _ = _rows(text, "time", "throughput")
    times, rates = list[float](), list[float]()
    for line, row in rows:
        try:
            # The zone is an abbreviation, such as CDT, and the same in a file.
            stamp = datetime.strptime(row["time"].rsplit(" ", 1)[0], "%Y-%m-%d %H:%M:%S")
        except ValueError:
            raise ScenarioError(
                f"line {line}: time: expected 2023-04-04 10:07:09 CDT or the like, "
                f"found {row['time']!r}"
            ) from None
        times.append((stamp - datetime(2000, 1, 1)).total_seconds())
        rates.append(_number(row, "throughput", line))
    return LinkTrace(tuple(times), {"rate_mbps": tuple(rates)})


def _multipath_wireless(text: str) -> LinkTrace:
    times, rates = list[float](), list[float]()
    for line, fields in enumerate(csv.reader(StringIO(text)), 1):
        try:
            second, rate = fields
            times.append(float(second))
            rates.append(float(rate) * 8e-6)
        except ValueError:
            raise ScenarioError(
                f"line {line}: expected a second and bytes per second, such as 1,362132, "
                f"found {','.join(fields)!r}"
            ) from None
    return LinkTrace(tuple(times), {"rate_mbps": tuple(rates)})


def _hsr_mptcp(text: str) -> LinkTrace:
    rows, _ = _rows(text, "frame.time_epoch", "ip.src", "tcp.len")
    packets, carried = list[tuple[float, str, float]](), dict[str, float]()
    for line, row in rows:
        bits = 8 * _number(row, "tcp.len", line)
        packets.append((_number(row, "frame.time_epoch", line), row["ip.src"], bits))
        carried[row["ip.src"]] = carried.get(row["ip.src"], 0.0) + bits
    if not packets:
        return LinkTrace((), {})
    sender, begin = max(carried, key=lambda host: carried[host]), packets[0][0]
    return _binned((time - begin, bits) for time, host, bits in packets if host == sender)


def _binned(events: Iterator[tuple[float, float]]) -> LinkTrace:
    """Times, s, and bits, as rates over bins."""
    sums = dict[int, float]()
    for time_s, bits in events:
        place = int(time_s / BIN_S + 1e-9)
        sums[place] = sums.get(place, 0.0) + bits
    places = range(max(sums, default=-1) + 1)
    return LinkTrace(
        tuple(round(place * BIN_S, 9) for place in places),
        {"rate_mbps": tuple(sums.get(place, 0.0) / BIN_S / 1e6 for place in places)},
    )


def _rows(text: str, *needed: str) -> tuple[list[tuple[int, dict[str, str]]], Sequence[str]]:
    """The rows of a CSV text with a header, by the numbers of their lines, and the columns."""
    reader = csv.DictReader(StringIO(text))
    names = [name.strip() for name in reader.fieldnames or []]
    if absent := [name for name in needed if name not in names]:
        raise ScenarioError(f"line 1: expected a column {absent[0]!r}, got {', '.join(names)}")
    reader.fieldnames = names
    return [(reader.line_num, {k: v or "" for k, v in row.items()}) for row in reader], names


def _number(row: dict[str, str], name: str, line: int) -> float:
    try:
        value = float(row[name])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ScenarioError(f"line {line}: {name}: expected a number, found {row[name]!r}")
    return value


@dataclass(frozen=True)
class Format:
    """A format that can be read."""

    reader: Callable[[str], LinkTrace]
    meaning: str


FORMATS = {
    "csv": Format(_csv, "time_s and some of rate_mbps, delay_ms, loss"),
    "mahimahi": Format(_mahimahi, "opportunities for 1500 bytes, ms; the rate, over 0.1 s each"),
    "satellite-vs-cellular": Format(
        _satellite_vs_cellular, "Starlink-Project/Satellite-vs-Cellular: time, throughput in Mbps"
    ),
    "multipath-wireless": Format(
        _multipath_wireless, "yguruprasad/Multipath-Wireless-Link-Traces: second, bytes per second"
    ),
    "hsr-mptcp": Format(
        _hsr_mptcp,
        "superlitong/hsr-mptcp: packets of a connection; what its sender's carry, over 0.1 s each",
    ),
}
"""The formats that can be read, by name."""
