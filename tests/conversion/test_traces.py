"""Traces of links: every format, what it lacks, and faults by their line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.conversion.traces import LinkTrace, read, recognised, to_csv, to_mahimahi
from anabranch.scenario import ScenarioError

SATELLITE = """time,throughput,speed,latitude,longtitu,area_type
2023-04-04 10:07:09 CDT,185.0,28.1,1,2,suburban
2023-04-04 10:07:10 CDT,209.5,27.0,1,2,suburban
"""
PACKETS = """frame.time_epoch,ip.src,ip.dst,tcp.srcport,tcp.len
10.00,1.1.1.1,2.2.2.2,1,0
10.05,2.2.2.2,1.1.1.1,2,1250
10.06,1.1.1.1,2.2.2.2,1,0
10.25,2.2.2.2,1.1.1.1,2,2500
"""


def test_files_of_data_sets_are_rates() -> None:
    """1250 bytes in 0.1 s are 0.1 Mbps; a byte per second is 8e-6."""
    satellite = read(SATELLITE, "satellite-vs-cellular")
    assert satellite == LinkTrace((0.0, 1.0), {"rate_mbps": (185.0, 209.5)})
    wireless = read("1,362132\n2,250000\n", "multipath-wireless")
    assert wireless.time_s == (0.0, 1.0)
    assert wireless.columns["rate_mbps"] == pytest.approx((2.897056, 2.0))
    packets = read(PACKETS, "hsr-mptcp")
    assert packets.time_s == (0.0, 0.1, 0.2)
    assert packets.columns["rate_mbps"] == pytest.approx((0.1, 0.0, 0.2))
    assert packets.missing == ("delay_ms", "loss")


def test_a_csv_is_read_as_it_is_written() -> None:
    trace = LinkTrace((0.0, 1.5), {"rate_mbps": (8.0, 0.1), "loss": (0.0, 0.25)})
    assert read(to_csv(trace), "csv") == trace
    assert trace.missing == ("delay_ms",)


@pytest.mark.parametrize(
    ("text", "source", "fault"),
    [
        ("x\n", "pcap", "unknown format 'pcap'"),
        ("time,speed\n", "satellite-vs-cellular", "line 1: expected a column 'throughput'"),
        ("time,throughput\nnoon,1\n", "satellite-vs-cellular", "line 2: time: expected 2023"),
        ("1,5\n2\n", "multipath-wireless", "line 2: expected a second and bytes per second"),
        ("time_s,x\n", "csv", "line 1: unknown column 'x': expected time_s and some of rate_mbps"),
        ("time_s,rate\n", "csv", "line 1: column 'rate': in which unit"),
        ("time,rate_mbps\n", "csv", "line 1: column 'time': in which unit"),
        ("time_s,mbps,kbps\n", "csv", "line 1: mbps and kbps are both rate_mbps: keep one"),
        ("0 1\n1 9e6\n", "time-mbps", "line 2: 9e\\+06 Mbps. If it is another unit"),
        ("0 1\n1\n", "time-mbps", "line 2: expected a time in s and a rate in Mbps"),
        ("0\n", "mahimahi", "the last time is the period"),
        ("5\n4\n", "mahimahi", "line 2: 4 ms is before 5 ms"),
        ("time_s,loss\n0,a\n", "csv", "line 2: loss: expected a number, found 'a'"),
        ("time_s,loss\n0,0\n0,0\n", "csv", "value 2: time 0 s is not after 0 s"),
        ("time_s,loss\n", "csv", "expected at least one line with values"),
        ("5\nx\n", "mahimahi", "line 2: expected a time in ms, found 'x'"),
    ],
)
def test_a_fault_is_named_with_its_line(text: str, source: str, fault: str) -> None:
    with pytest.raises(ScenarioError, match=fault):
        read(text, source)


def test_a_trace_without_a_rate_is_no_opportunity() -> None:
    with pytest.raises(ScenarioError, match="expected a trace with rate_mbps"):
        to_mahimahi(LinkTrace((0.0,), {"loss": (0.1,)}))
    with pytest.raises(ScenarioError, match="at least 1500 bytes"):
        to_mahimahi(LinkTrace((0.0,), {"rate_mbps": (0.001,)}))


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("rate_kbps;time_ms\n8000;0\n100;1500\n", "csv"),
        ("time (s)\tThroughput (bit/s)\n0\t8e6\n1.5\t1e5\n", "csv"),
        ("0.0\t8\n1.5\t0.1\n", "time-mbps"),
    ],
)
def test_units_are_those_of_the_header_and_formats_those_of_the_first_line(
    text: str, source: str
) -> None:
    assert recognised(text) == source
    trace = read(text, source)
    assert trace.time_s == (0.0, 1.5)
    assert trace.columns["rate_mbps"] == pytest.approx((8, 0.1))


def test_columns_without_names_that_could_be_several_things_are_refused() -> None:
    with pytest.raises(ScenarioError, match="line 1: '1,362132': which columns are these"):
        recognised("1,362132\n2,250000\n")
    assert recognised("5\n7\n") == "mahimahi"
    assert recognised(SATELLITE) == "satellite-vs-cellular"
    assert recognised(PACKETS) == "hsr-mptcp"


def mean_mbps(text: str) -> float:
    """The mean of a trace of mahimahi's, whose period is its last line, ms."""
    lines = [int(line) for line in text.split()]
    return len(lines) * 12 / lines[-1]


def test_one_line_is_a_constant_rate() -> None:
    """1500 bytes each ms are 12 Mbps, however long the line is taken to hold."""
    assert to_csv(read("1\n", "mahimahi")) == "time_s,rate_mbps\n0.0,12.0\n"


def test_the_example_keeps_its_mean_and_its_period() -> None:
    lte = Path("examples/lte.trace").read_text()
    text = to_csv(read(lte, "mahimahi"))
    rows = [tuple(map(float, row.split(","))) for row in text.splitlines()[1:]]
    # 300 periods of 20 bins of 0.1 s, then the mean for ever: 12 Mbps.
    assert len(rows) == 6001
    assert rows[-1] == pytest.approx((600, 12))
    again = to_mahimahi(read(text, "csv"))
    assert mean_mbps(again) == 12
    assert again.split()[-1] == lte.split()[-1] == "2000"


@given(st.lists(st.integers(0, 400), min_size=1, max_size=60).map(sorted))
def test_mahimahi_and_back_keeps_mean_and_period(times: list[int]) -> None:
    times[-1] = max(times[-1], 1)
    text = "".join(f"{time}\n" for time in times)
    trace = read(text, "mahimahi")
    again = to_mahimahi(read(to_csv(trace, repeated_s=2), "csv"))
    assert mean_mbps(again) == pytest.approx(mean_mbps(text), rel=1e-3)
    if len(trace.time_s) > 1:  # a constant rate has any period
        assert int(again.split()[-1]) == times[-1]


@given(st.lists(st.floats(0.0, 50.0), min_size=1, max_size=30))
def test_opportunities_carry_what_the_rate_does(rates: list[float]) -> None:
    """In the mean over whole periods, and none but the last earlier than the rate allows."""
    trace = LinkTrace(tuple(float(k) for k in range(len(rates))), {"rate_mbps": tuple(rates)})
    total = sum(rates) * 1e6
    if total < 12_000:
        return
    times = [int(line) for line in to_mahimahi(trace).split()]
    assert times == sorted(times)
    assert times[-1] % (len(rates) * 1000) == 0
    periods = times[-1] // (len(rates) * 1000)
    assert total * periods * (1 - 1e-3) < len(times) * 12_000 < total * periods + 1
    for number, time_ms in enumerate(times, 1):
        second, rest = divmod(time_ms / 1e3, 1.0)
        whole, place = divmod(int(second), len(rates))
        until = sum(rates[:place]) + (rest * rates[place] if rest else 0.0)
        assert whole * total + until * 1e6 >= number * 12_000 - 1e-3
