"""Outputs of ss as connections: real ones of iproute2 6.1 (Linux 6.18) and variants of them."""

from pathlib import Path

import pytest

from anabranch.readers import Recording, read, taken
from anabranch.scenario import ScenarioError
from diagnose.test_capture import Talk, steady, written

HEAD = "State Recv-Q Send-Q  Local Address:Port  Peer Address:PortProcess\n"
CONTROL = (
    "ESTAB 0 0 10.77.0.2:47374 10.99.0.1:5204",
    "cubic wscale:7,7 rto:224 rtt:20.365/5.75 mss:1448 cwnd:10 bytes_sent:185 bytes_acked:186 "
    "bytes_received:4 data_segs_out:3 data_segs_in:4 send 7394648bps lastsnd:{age} lastrcv:{age} "
    "lastack:{age} delivered:4 app_limited busy:40ms minrtt:20.298",
)
BULK = (
    "ESTAB 0 338536 10.77.0.2:{port} 10.99.0.1:5204",
    "cubic wscale:7,7 rto:240 rtt:{rtt}/0.25 mss:1448 cwnd:62 ssthresh:58 bytes_sent:9 "
    "bytes_retrans:11392 bytes_acked:{acked} segs_out:3 data_segs_out:{acked} send 19392683bps "
    "lastrcv:{age} pacing_rate 23270664bps delivered:3774 busy:{busy}ms unacked:61 minrtt:20.183",
)
SUBFLOW = " tcp-ulp-mptcp flags:Jjec token:fad513d(id:0)/{token}(id:1) seq:f116 sfseq:0 maplen:0"
TWO_LINES = "\n\t "


def bulk(
    port: int = 47378,
    acked: int = 10_000_000,
    busy: int = 4000,
    age: int = 4000,
    rtt: float = 40,
    token: str = "",
    between: str = TWO_LINES,
) -> str:
    text = between.join(BULK).format(port=port, acked=acked, busy=busy, age=age, rtt=rtt)
    return text + (SUBFLOW.format(token=token) if token else "") + "\n"


def control(age: int = 4000, between: str = TWO_LINES) -> str:
    return between.join(CONTROL).format(age=age) + "\n"


def recorded(tmp_path: Path, text: str) -> Recording:
    file = tmp_path / "me.txt"
    file.write_text(text)
    return read(file)


def test_the_control_connection_of_iperf3_is_left_out_and_named(tmp_path: Path) -> None:
    # 10 MB in 4 s are 20 Mbps. The control connection is app_limited: 186 bytes in an unknown time.
    took = taken(recorded(tmp_path, HEAD + control() + bulk()))
    (only,) = took.connections
    assert (only.goodput_mbps, only.rtt_ms, only.bytes) == (20, 40, 10_000_000)
    assert took.said == (
        f"{tmp_path}/me.txt: ss: 2 connections: unknown (186 B) and 20 Mbps; took #2 (1 with less "
        "than 1 % of its bytes left out, as control connections); "
        f"{tmp_path}/me.txt#1 takes the other"
    )


def test_two_connections_with_data_are_a_choice_or_two_users(tmp_path: Path) -> None:
    both = recorded(tmp_path, bulk(1) + bulk(2, acked=20_000_000) + control())
    with pytest.raises(ScenarioError, match=r"2 have data.*#1 .*:1 to .*20 Mbps\); #2 .*40 Mbps"):
        taken(both)
    assert [c.goodput_mbps for c in taken(both, users=2).connections] == [20, 40]
    assert "one for each user: their mean" in taken(both, users=2).said
    assert [c.goodput_mbps for c in taken(both, number=2).connections] == [40]
    with pytest.raises(ScenarioError, match="2 have data, and the flow has 3 users"):
        taken(both, users=3)


@pytest.mark.parametrize("between", [TWO_LINES, " "], ids=["two lines", "-O"])
@pytest.mark.parametrize("head", [HEAD, ""], ids=["header", "-H"])
def test_subflows_of_one_token_are_one_connection(tmp_path: Path, head: str, between: str) -> None:
    text = head + "".join(
        bulk(port, acked, rtt=rtt, token=token, between=between)
        for port, acked, rtt, token in (
            (1, 5_000_000, 20, "a1"),
            (2, 15_000_000, 60, "a1"),
            (3, 1_000, 20, "b2"),
        )
    )
    found = recorded(tmp_path, text)
    assert len(found.connections) == 2
    (only,) = taken(found).connections
    # 20 MB in 4 s; RTTs weigh 1 to 3: (20 + 3 60) / 4.
    assert (only.goodput_mbps, only.rtt_ms) == (40, 50)
    assert [path.bytes for path in only.paths] == [5_000_000, 15_000_000]


def test_a_subflow_that_is_seldom_busy_does_not_count_twice(tmp_path: Path) -> None:
    # 1 MB in 0.5 s of 4 s beside 10 MB in 4 s: 22 Mbps of the connection, not 16 + 20.
    text = bulk(1, 1_000_000, busy=500, token="a") + bulk(2, token="a")
    assert taken(recorded(tmp_path, text)).connections[0].goodput_mbps == 22


def test_an_application_that_pauses_needs_two_outputs(tmp_path: Path) -> None:
    one = recorded(tmp_path, bulk(acked=30_000_000, busy=20_000, age=60_000))
    assert one.connections[0].goodput_mbps is None
    with pytest.raises(ScenarioError, match=r"for 20 of 60 s only.*take ss twice"):
        taken(one)
    # 7.5 MB more in 15 s: 4 Mbps.
    text = bulk(acked=30_000_000, busy=20_000, age=60_000, rtt=30) + "\n"
    text += bulk(acked=37_500_000, busy=25_000, age=75_000, rtt=50)
    two = recorded(tmp_path, text)
    (only,) = taken(two).connections
    assert (only.seconds, only.goodput_mbps, only.rtt_ms) == (15, 4, 40)
    assert [(s.time_s, s.bytes) for s in only.samples] == [(0, 30_000_000), (15, 37_500_000)]
    assert two.format == "ss, 2 outputs over 15 s"


def test_a_date_before_each_output_is_the_time(tmp_path: Path) -> None:
    text = f"1795751206.25\n{HEAD}{bulk()}1795751216.75\n{HEAD}{bulk(acked=23_125_000)}"
    (only,) = taken(recorded(tmp_path, text)).connections
    assert (only.seconds, only.goodput_mbps) == (10.5, 10)


def test_a_receiver_needs_two_outputs_with_times(tmp_path: Path) -> None:
    line = (
        "ESTAB 0 0 10.0.0.2:5201 10.0.0.1:40000\n\t cubic rtt:20/1 bytes_received:{} rcv_space:1\n"
    )
    with pytest.raises(ScenarioError, match="this end received"):
        taken(recorded(tmp_path, line.format(5_000_000)))
    text = f"1795751200\n{line.format(5_000_000)}1795751204\n{line.format(10_000_000)}"
    (only,) = taken(recorded(tmp_path, text)).connections
    assert (only.sent, only.goodput_mbps) == (False, 10)


def test_sockets_of_extended_outputs_are_read(tmp_path: Path) -> None:
    """-e, -m, -p, a device, the column Netid, the lines of mptcp, a listener; no state."""
    fields = "cubic rtt:40/1 bytes_acked:10000000 busy:4000ms"
    text = f"""Netid State Recv-Q Send-Q Local Address:Port Peer Address:Port Process
tcp   LISTEN 0 128 0.0.0.0:22 0.0.0.0:*
\t cubic cwnd:10
tcp   ESTAB 0 9 10.0.0.1%wan1:47378 [::ffff:10.99.0.1]:5204 users:(("nc",pid=7,fd=5)) ino:5
\t skmem:(r0,rb131072,t0,tb410112,f2424,w358024,o0,bl0,d0) {fields}
mptcp ESTAB 0 9 10.0.0.1:47378 10.99.0.1:5204
\t subflows:1 token:b3d9cd07 write_seq:1 snd_una:1 bytes_acked:77
"""
    (only,) = recorded(tmp_path, text).connections
    assert (only.goodput_mbps, only.paths[0].local) == (20, "10.0.0.1%wan1:47378")
    (only,) = recorded(tmp_path, f"0 9 10.0.0.1:47378 10.99.0.1:5204\n\t {fields}\n").connections
    assert only.goodput_mbps == 20


def test_the_receiving_end_on_the_same_host_is_no_connection_of_its_own(tmp_path: Path) -> None:
    text = bulk() + "ESTAB 0 0 10.99.0.1:5204 10.77.0.2:47378\n\t cubic bytes_received:10000000\n"
    assert len(recorded(tmp_path, text).connections) == 1


def test_a_file_without_a_socket_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"me\.txt: no TCP connection in it: expected"):
        recorded(tmp_path, HEAD)


def test_a_socket_with_many_lines_and_many_outputs_are_read_whole(tmp_path: Path) -> None:
    """Sizes at which work that grows with their square took minutes.

    20 000 outputs of 1 s and 1 MB each: 8 Mbps.
    """
    lines = ["ESTAB 0 0 10.0.0.1:1 10.0.0.2:2", *["\t cubic rto:204"] * 20_000]
    outputs = [
        f"State Recv-Q\nESTAB 0 0 10.0.0.3:1 10.0.0.4:2\n\t cubic data_segs_out:{i} "
        f"lastrcv:{1000 * i} bytes_acked:{1_000_000 * i}"
        for i in range(1, 20_001)
    ]
    file = tmp_path / "long.txt"
    file.write_text("\n".join([*lines, *outputs]))
    found = {connection.label: connection for connection in read(file).connections}
    assert found["10.0.0.3:1 to 10.0.0.4:2"].goodput_mbps == pytest.approx(8)


def test_a_capture_is_measured_as_its_outputs_would_be(tmp_path: Path) -> None:
    talk = Talk()
    talk.open_first()
    talk.join()
    recording = read(written(tmp_path, steady(talk), snap=160))
    (connection,) = recording.connections
    # 1400 bytes each ms on each of two paths; an RTT of 20 ms.
    assert connection.goodput_mbps == pytest.approx(22.4, rel=0.02)
    assert connection.rtt_ms == pytest.approx(20, rel=0.01)
    assert len(connection.paths) == 2
    assert "capture of" in recording.format
