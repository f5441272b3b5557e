"""Documents of iperf3 in every mode, by the keys that iperf_api.c of the version writes."""

import json
from pathlib import Path
from typing import Any

import pytest

from anabranch.readers import Recording, read, taken
from anabranch.scenario import ScenarioError


def stream(socket: int, sent: float, got: float, sender: bool | None, rtt: int = 0) -> Any:
    """A row of end.streams: Mbps over 10 s; 0 for what the end did not learn."""

    def half(mbps: float) -> dict[str, Any]:
        count = {"bytes": int(mbps * 1e6 * 10 / 8), "bits_per_second": mbps * 1e6}
        mode = {} if sender is None else {"sender": sender}
        return {
            "socket": socket,
            "start": 0,
            "end": 10,
            "seconds": 10 * bool(mbps),
            **count,
            **mode,
        }

    return {"sender": {**half(sent), "mean_rtt": rtt}, "receiver": half(got)}


def document(*streams: Any, version: str = "3.12", server: bool = False, **test: Any) -> Any:
    host = {"accepted_connection": {"host": "a"}} if server else {"connecting_to": {"host": "b"}}
    test = {"protocol": "TCP", "num_streams": len(streams), "reverse": 0, **test}
    start = {"version": f"iperf {version}", "test_start": test, **host}
    return {"start": start, "intervals": [], "end": {"streams": list(streams)}}


def recorded(tmp_path: Path, *documents: Any) -> Recording:
    file = tmp_path / "me.json"
    file.write_text("\n".join(map(json.dumps, documents)))
    return read(file)


def test_goodput_is_what_the_receiver_got(tmp_path: Path) -> None:
    (only,) = taken(recorded(tmp_path, document(stream(5, 48, 47.5, True, 41_200)))).connections
    assert (only.goodput_mbps, only.rtt_ms, only.seconds, only.sent) == (47.5, 41.2, 10, True)


def test_streams_of_parallel_are_connections_not_their_mean(tmp_path: Path) -> None:
    four = recorded(tmp_path, document(*(stream(5 + i, 11, 10 + i, True) for i in range(4))))
    with pytest.raises(ScenarioError, match=r"4 have data, and the flow has 1 user.*#4 client to"):
        taken(four)
    assert [c.goodput_mbps for c in taken(four, users=4).connections] == [10, 11, 12, 13]


@pytest.mark.parametrize("server", [False, True])
def test_of_both_directions_that_from_the_client_is_taken(tmp_path: Path, server: bool) -> None:
    up, down = stream(5, 48, 47.5, not server), stream(7, 46, 45, server)
    both = recorded(tmp_path, document(up, down, server=server, bidir=1))
    assert [c.goodput_mbps for c in taken(both).connections] == [47.5]
    assert "from the client to the server" in taken(both).said
    assert [c.goodput_mbps for c in taken(both, number=2).connections] == [45]


def test_an_end_that_did_not_measure_says_so_instead_of_0(tmp_path: Path) -> None:
    reverse = document(stream(5, 48, 0, True), server=True, reverse=1)
    with pytest.raises(ScenarioError, match="did not measure what arrived: use the client's"):
        taken(recorded(tmp_path, reverse))
    received = document(stream(5, 0, 47, False), server=True)
    assert taken(recorded(tmp_path, received)).connections[0].goodput_mbps == 47
    lost = document(stream(5, 48, 0, True))
    with pytest.raises(ScenarioError, match="did not learn what arrived: use the receiver's"):
        taken(recorded(tmp_path, lost))


@pytest.mark.parametrize(("reverse", "sent"), [(0, True), (1, False)])
def test_before_3_7_the_mode_says_who_sends(tmp_path: Path, reverse: int, sent: bool) -> None:
    old = document(stream(4, 48, 47, None), version="3.1.3", reverse=reverse)
    (only,) = taken(recorded(tmp_path, old)).connections
    assert (only.sent, only.reverse, only.goodput_mbps) == (sent, not sent, 47)


@pytest.mark.parametrize(
    "end",
    [
        {"sum": {"bits_per_second": 5e6, "lost_packets": 9}},
        {"sum": {}, "sum_sent": {"bits_per_second": 5e6}, "sum_received": {}},
    ],
    ids=["to 3.16", "since 3.17"],
)
def test_udp_is_refused_by_name(tmp_path: Path, end: Any) -> None:
    udp = {"socket": 5, "seconds": 10, "bytes": 6_250_000, "lost_packets": 29, "packets": 4080}
    found = document(protocol="UDP")
    found["end"] = {"streams": [{"udp": {**udp, "sender": True}}], **end}
    read = recorded(tmp_path, found)
    assert read.connections[0].lost_share == pytest.approx(0.0071, abs=1e-4)
    with pytest.raises(ScenarioError, match=r"UDP at a rate .* repeat the test without -u"):
        taken(read)


def test_json_stream_has_an_event_per_line(tmp_path: Path) -> None:
    found = document(stream(5, 48, 47.5, True), version="3.18")
    row = {"socket": 5, "end": 1.0, "bytes": 600, "rtt": 41_000, "omitted": False}
    events = [
        {"event": "start", "data": found["start"]},
        {"event": "interval", "data": {"streams": [{**row, "omitted": True}]}},
        {"event": "interval", "data": {"streams": [row]}},
        {"event": "interval", "data": {"streams": [{**row, "end": 2.0}]}},
        {"event": "end", "data": found["end"]},
    ]
    (only,) = taken(recorded(tmp_path, *events)).connections
    assert only.goodput_mbps == 47.5
    assert [(s.time_s, s.bytes, s.rtt_ms) for s in only.samples] == [(1, 600, 41), (2, 1200, 41)]
    with pytest.raises(ScenarioError, match="was interrupted: it has no `end`"):
        recorded(tmp_path, *events[:-1])


def test_the_log_of_a_server_has_several_tests_to_choose_from(tmp_path: Path) -> None:
    tests = [document(stream(5, 0, rate, False), server=True) for rate in (3, 5)]
    log = recorded(tmp_path, *tests)
    assert log.format == "iperf3 3.12, 2 tests"
    with pytest.raises(ScenarioError, match="2 have data"):
        taken(log)
    assert taken(log, number=2).connections[0].goodput_mbps == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"start": {}, "error": "unable to connect"}', "iperf3 failed: unable to connect"),
        ('{"error": "unable to connect"}', "iperf3 failed: unable to connect"),
        ('{"start": {}, "intervals": [{"sum": {"end": 3.0}, "streams": []}]}', "after 3 s"),
        ('{"start": {}, "end": {}}', "not a finished test of iperf3"),
        ('{"start": {"a": 1}, "end": {"streams": [{"sender": null}]}}', "not a finished test"),
        ('{"traces": []}', "not a finished test of iperf3"),
        ("{", "not JSON"),
        ("[]", "expected an object"),
    ],
)
def test_a_file_without_a_result_is_refused_in_one_line(
    text: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "me.json"
    file.write_text(text)
    with pytest.raises(ScenarioError) as error:
        read(file)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
