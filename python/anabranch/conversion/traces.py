"""Traces of links: CSV with named columns, mahimahi's format, and files of public data sets.

A trace of a link (docs/reference/traces.md) has the column `time_s` and some of `rate_mbps`,
`delay_ms` and `loss`. Every reader here gives one, with the columns that its format has;
`LinkTrace.missing` are the others. No data set is part of this package.
"""

import csv
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from io import StringIO

from anabranch.scenario import ScenarioError, expected_one_of

# The columns of a CSV trace by their names, in the units that the names say.


UNITS = {
    "time_s": ("time", {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6}),
    "rate_mbps": (
        "rate|throughput|bandwidth|goodput|",
        {"mbps": 1.0, "kbps": 1e-3, "bps": 1e-6, "gbps": 1e3, "mbit/s": 1.0, "kbit/s": 1e-3}
        | {"bit/s": 1e-6, "gbit/s": 1e3},
    ),
    "delay_ms": ("delay|latency", {"ms": 1.0, "s": 1e3, "us": 1e-3}),
    "loss": ("loss", {"": 1.0, "percent": 0.01, "%": 0.01}),
}
"""Per column of a trace, the words for it and the factors of its units."""

EXPECTED = "expected time_s and some of rate_mbps, delay_ms, loss"


def separator(header: str) -> str:
    """Separator of the columns of a header."""
    return next((each for each in ",;\t" if each in header), ",")


def columns(names: list[str]) -> list[tuple[str, float]]:
    """For each name the column of a trace and the factor to its unit. Raises `ScenarioError`."""
    found = [_column(name) for name in names]
    own = [column for column, _ in found]
    if "time_s" not in own or len(own) < 2:
        raise ScenarioError(f"line 1: {EXPECTED}, got {', '.join(names)}")
    for column in own:
        if own.count(column) > 1:
            both = [name for name, place in zip(names, own, strict=True) if place == column]
            raise ScenarioError(f"line 1: {' and '.join(both)} are both {column}: keep one")
    return found


def _column(name: str) -> tuple[str, float]:
    plain = re.sub(r"[_\s()\[\]]+", "_", name.strip().lower()).strip("_")
    for column, (words, units) in UNITS.items():
        for word in words.split("|"):
            for unit, factor in units.items():
                if plain == "_".join(part for part in (word, unit) if part):
                    return column, factor
            if word and plain == word:
                named = ", ".join(f"{word}_{unit}" for unit in units)
                raise ScenarioError(f"line 1: column {name!r}: in which unit? Call it {named}")
    raise ScenarioError(f"line 1: unknown column {name!r}: {EXPECTED}")


COLUMNS = ("rate_mbps", "delay_ms", "loss")
"""Columns that a trace may have beside the time."""

OPPORTUNITY_BITS = 12_000
"""Size of an opportunity of mahimahi: 1500 bytes."""

BIN_S = 0.1
"""About over what a rate is averaged where a format has packets or opportunities."""

REPEATED_S = 600.0
"""For how long a CSV, which does not repeat, has the periods of a trace that does."""

PRECISION = 5e-4
"""The share by which mean and period may differ: opportunities are whole, times in whole ms."""

LARGEST_MBPS = 1e5
"""A rate above it was given in another unit."""


@dataclass(frozen=True)
class LinkTrace:
    """Times, s, and the columns of a trace, of equal length. A value holds until the next time.

    >>> LinkTrace((0.0, 1.0), {"rate_mbps": (8.0, 4.0)}).missing
    ('delay_ms', 'loss')
    """

    time_s: tuple[float, ...]
    columns: dict[str, tuple[float, ...]]
    """The values by the name of their column, of `COLUMNS`."""
    period_s: float | None = None
    """After which it begins again; None where the last value holds for ever."""

    @property
    def missing(self) -> tuple[str, ...]:
        """The columns that it does not have."""
        return tuple(name for name in COLUMNS if name not in self.columns)

    @property
    def end_s(self) -> float:
        """The end of the period, or of the last value if it holds as long as the others."""
        if self.period_s is not None:
            return self.period_s
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
    times = tuple(time - begin for time in trace.time_s)
    return LinkTrace(times, trace.columns, trace.period_s)


def recognised(text: str) -> str:
    """The format of `FORMATS` that a text has. Raises `ScenarioError` where that is ambiguous."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = lines[0] if lines else ""
    if first.isdigit():
        return "mahimahi"
    if re.match(r"[a-z]", first, re.IGNORECASE):
        names = {name.strip() for name in first.split(",")}
        if {"frame.time_epoch", "tcp.len"} <= names:
            return "hsr-mptcp"
        return "satellite-vs-cellular" if {"time", "throughput"} <= names else "csv"
    if len(first.split()) == 2 and "," not in first:
        return "time-mbps"
    raise ScenarioError(
        f"line 1: {first[:60]!r}: which columns are these, in which units? Expected a header such "
        "as time_s,rate_mbps, two columns of s and Mbps with blanks between, a time in ms per line "
        f"(mahimahi), or --from with one of {', '.join(FORMATS)}"
    )


def to_csv(trace: LinkTrace, repeated_s: float = REPEATED_S) -> str:
    """The trace as a link's `trace_file`, with the columns that it has.

    A trace that repeats is written for whole periods of at least `repeated_s`, and then with its
    mean, which holds for ever.

    >>> print(to_csv(LinkTrace((0.0,), {"rate_mbps": (8.0,)})), end="")
    time_s,rate_mbps
    0.0,8.0
    """
    trace = _repeated(trace, repeated_s)
    names = [name for name in COLUMNS if name in trace.columns]
    rows = zip(trace.time_s, *(trace.columns[name] for name in names), strict=True)
    lines = [",".join(["time_s", *names]), *(",".join(map(repr, row)) for row in rows)]
    return "\n".join(lines) + "\n"


def to_mahimahi(trace: LinkTrace) -> str:
    """The rate of a trace as mahimahi's opportunities, which have no delay and no loss.

    The last line is the period, in ms. Several periods are written where one has no whole number of
    opportunities or ms, so that mean and period are right within 0.05 %; one, where the trace is a
    CSV of `to_csv` with several.

    Raises `ScenarioError` for a trace without a rate, or with less than one opportunity.

    >>> to_mahimahi(LinkTrace((0.0, 0.002), {"rate_mbps": (12.0, 24.0)})).split()
    ['1', '2', '3', '3', '4', '4']
    """
    if "rate_mbps" not in trace.columns:
        raise ScenarioError("expected a trace with rate_mbps: mahimahi's format has the rate alone")
    trace = _one_period(trace)
    ends = (*trace.time_s[1:], trace.end_s)
    pieces = list(zip(trace.time_s, ends, trace.columns["rate_mbps"], strict=True))
    total = sum(mbps * 1e6 * (end - begin) for begin, end, mbps in pieces)
    if total + 1e-3 < OPPORTUNITY_BITS:
        raise ScenarioError("expected at least 1500 bytes in the whole trace, got less")
    periods = _periods(total, trace.end_s)
    lines, sent, bits = list[int](), 0, 0.0
    for number in range(periods):
        for start, stop, mbps in pieces:
            begin = number * trace.end_s + start
            upto = bits + mbps * 1e6 * (stop - start)
            while (sent + 1) * OPPORTUNITY_BITS <= upto * (1 + 1e-13) + 1e-4:
                sent += 1
                time_s = begin + (sent * OPPORTUNITY_BITS - bits) / (mbps * 1e6)
                lines.append(max(1, math.ceil(time_s * 1e3 - 1e-9)))
            bits = upto
    # The format has no period of its own but its last time.
    last = max(1, round(periods * trace.end_s * 1e3))
    lines = [min(line, last) for line in lines[:-1]] + [last]
    return "".join(f"{line}\n" for line in lines)


def _periods(bits: float, period_s: float) -> int:
    """The least number of periods with nearly whole numbers of opportunities and ms."""
    for count in range(1, 1 + math.ceil(max(OPPORTUNITY_BITS / bits, 1e-3 / period_s) / PRECISION)):
        opportunities, ms = count * bits / OPPORTUNITY_BITS, count * period_s * 1e3
        lost = opportunities - math.floor(opportunities + 1e-6)
        if lost <= PRECISION * opportunities and abs(ms - round(ms)) <= PRECISION * ms:
            return count
    return count


def _repeated(trace: LinkTrace, repeated_s: float) -> LinkTrace:
    """A trace that does not repeat, from one that does."""
    if trace.period_s is None or len(trace.time_s) == 1:
        return LinkTrace(trace.time_s, trace.columns)
    count = max(2, math.ceil(repeated_s / trace.period_s - 1e-9))
    times = [i * trace.period_s + time for i in range(count) for time in trace.time_s]
    return LinkTrace(
        (*times, count * trace.period_s),
        {name: (*(values * count), _mean(trace, name)) for name, values in trace.columns.items()},
    )


def _mean(trace: LinkTrace, name: str) -> float:
    """The mean of a column over the period."""
    ends = (*trace.time_s[1:], trace.end_s)
    pieces = zip(trace.time_s, ends, trace.columns[name], strict=True)
    return sum(value * (end - begin) for begin, end, value in pieces) / trace.end_s


def _one_period(trace: LinkTrace) -> LinkTrace:
    """The period of a trace that `_repeated` has written; any other trace as it is."""
    rows = len(trace.time_s) - 1
    for length in (n for n in range(2, rows // 2 + 1) if rows % n == 0):
        period_s = trace.time_s[length]
        columns = {name: values[:length] for name, values in trace.columns.items()}
        one = LinkTrace(trace.time_s[:length], columns, period_s)
        again = _repeated(one, (rows // length) * period_s)
        if all(map(math.isclose, again.time_s, trace.time_s)) and again.columns == trace.columns:
            return one
    return trace


def _csv(text: str) -> LinkTrace:
    between = separator(text.split("\n", 1)[0])
    rows, names = _rows(text, between)
    found = columns(list(names))
    values: dict[str, list[float]] = {column: [] for column, _ in found}
    for line, row in rows:
        for name, (column, factor) in zip(names, found, strict=True):
            values[column].append(_number(row, name, line) * factor)
    times = tuple(values.pop("time_s"))
    return LinkTrace(times, {name: tuple(column) for name, column in values.items()})


def _time_mbps(text: str) -> LinkTrace:
    times, rates = list[float](), list[float]()
    for line, content in enumerate(text.splitlines(), 1):
        try:
            time_s, mbps = map(float, content.split())
        except ValueError:
            raise ScenarioError(
                f"line {line}: expected a time in s and a rate in Mbps, found {content[:60]!r}"
            ) from None
        if not 0 <= mbps <= LARGEST_MBPS:
            raise ScenarioError(
                f"line {line}: {mbps:g} Mbps? If it is another unit, write a header, such as "
                "time_s,rate_bps, and commas"
            )
        times.append(time_s)
        rates.append(mbps)
    return LinkTrace(tuple(times), {"rate_mbps": tuple(rates)})


def _mahimahi(text: str) -> LinkTrace:
    """Rates over equal bins of about `BIN_S`, a whole number of them in a period."""
    times = list[int]()
    for line, content in enumerate(text.splitlines(), 1):
        if not content.strip().isdigit():
            raise ScenarioError(f"line {line}: expected a time in ms, found {content!r}")
        times.append(int(content))
        if len(times) > 1 and times[-1] < times[-2]:
            raise ScenarioError(f"line {line}: {times[-1]} ms is before {times[-2]} ms")
    if not times or not times[-1]:
        raise ScenarioError("the last time is the period of the trace and must be above 0 ms")
    period_s = times[-1] / 1e3
    bins = max(1, round(period_s / BIN_S))
    bits = [0] * bins
    for time in times:
        # An opportunity at the end of a bin belongs to it, as in the simulator.
        bits[max(time * bins - 1, 0) // times[-1]] += OPPORTUNITY_BITS
    rates = tuple(each * bins / period_s / 1e6 for each in bits)
    starts = tuple(i * times[-1] / bins / 1e3 for i in range(bins))
    if len(set(rates)) == 1:
        return LinkTrace((0.0,), {"rate_mbps": rates[:1]}, period_s)
    return LinkTrace(starts, {"rate_mbps": rates}, period_s)


def _satellite_vs_cellular(text: str) -> LinkTrace:
    rows, _ = _rows(text, ",", "time", "throughput")
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
    rows, _ = _rows(text, ",", "frame.time_epoch", "ip.src", "tcp.len")
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


def _rows(
    text: str, between: str, *needed: str
) -> tuple[list[tuple[int, dict[str, str]]], Sequence[str]]:
    """The rows of a CSV text with a header, by the numbers of their lines, and the columns."""
    reader = csv.DictReader(StringIO(text), delimiter=between)
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
    "csv": Format(
        _csv,
        "a header with time_s and some of rate_mbps, delay_ms, loss, or in other units",
    ),
    "mahimahi": Format(_mahimahi, "opportunities for 1500 bytes, ms; the rate, over 0.1 s each"),
    "time-mbps": Format(
        _time_mbps, "two columns without a header, s and Mbps, as Pensieve's cooked traces"
    ),
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
