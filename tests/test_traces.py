"""Traces of links: every format, what it lacks, and faults by their line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.conversion.traces import LinkTrace, read, to_csv, to_mahimahi
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
        ("time_s,mbps\n", "csv", "line 1: expected time_s and some of rate_mbps"),
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


@given(st.lists(st.floats(0.0, 50.0), min_size=1, max_size=30))
def test_opportunities_carry_what_the_rate_does(rates: list[float]) -> None:
    """Every bit but the last incomplete opportunity, and none earlier than the rate allows."""
    trace = LinkTrace(tuple(float(k) for k in range(len(rates))), {"rate_mbps": tuple(rates)})
    total = sum(rates) * 1e6
    if total < 12_000:
        return
    times = [int(line) for line in to_mahimahi(trace).split()]
    assert times == sorted(times)
    assert total - 12_001 < len(times) * 12_000 < total + 1
    for number, time_ms in enumerate(times, 1):
        second, rest = divmod(time_ms / 1e3, 1.0)
        until = sum(rates[: int(second)]) + (rest * rates[int(second)] if rest else 0.0)
        assert until * 1e6 >= number * 12_000 - 1e-3
