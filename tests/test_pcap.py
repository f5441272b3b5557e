"""Captures of the simulator, as tshark reads them, against the tables of the same run."""

import os
import shutil
import subprocess
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import anabranch
from conftest import Anabranch

REQUIRED = "ANABRANCH_REQUIRE_PEERS" in os.environ
WHOLE = {"measure.duration_s": 3, "measure.warmup_s": 0, "seeds": [1]}
INTEGERS = [
    "frame.interface_id",
    "frame.len",
    "frame.cap_len",
    "tcp.stream",
    "mptcp.stream",
    "tcp.seq",
    "tcp.len",
    "tcp.hdr_len",
    "mptcp.dss.dsn",
    "mptcp.rawdsn64",
    "mptcp.ack",
    "tcp.options.mptcp.datalvllen",
    "tcp.options.mptcp.subflowseqno",
    "mptcp.expected_token",
    "tcp.options.mptcp.recvtok",
]
FLAGS = [
    "_ws.malformed",
    "_ws.expert.severity",
    "_ws.expert.message",
    "ip.checksum.status",
    "tcp.checksum.status",
    "tcp.analysis.retransmission",
    "tcp.analysis.out_of_order",
    "tcp.analysis.ack_lost_segment",
    "tcp.analysis.ack_rtt",
    "tcp.options.sack_le",
]
BAD = "0"
"""The status of a checksum that is wrong."""


def packets(file: Path) -> pd.DataFrame:
    """A row per packet; of data, the columns `data` and `end` are its numbers in the connection."""
    if not shutil.which("tshark"):
        if REQUIRED:
            pytest.fail("tshark is not installed, and ANABRANCH_REQUIRE_PEERS is set")
        pytest.skip("tshark is not installed (Debian: apt-get install tshark)")
    checks = ["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]
    fields = [word for name in [*INTEGERS, *FLAGS, "frame.time_epoch"] for word in ("-e", name)]
    form = ["-T", "fields", "-E", "header=y", "-E", "separator=/t"]
    call = ["tshark", "-r", str(file), *checks, *form, *fields]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    table = pd.read_csv(StringIO(done.stdout), sep="\t", dtype=str, keep_default_na=False)
    for name in INTEGERS:
        table[name] = table[name].map(lambda text: int(text) if text else None).astype("UInt64")
    table["time_s"] = table["frame.time_epoch"].astype(float)
    return table


def check(file: Path, paths: pd.DataFrame, *, retransmitted: bool = True) -> pd.DataFrame:
    """Check the file of a user by its rows of the table `paths`; gives its data packets."""
    table = packets(file)
    assert not table["_ws.malformed"].any()
    for layer in ("ip", "tcp"):
        assert not (table[f"{layer}.checksum.status"] == BAD).any()
    assert table.time_s.is_monotonic_increasing
    assert not table["tcp.analysis.ack_lost_segment"].any()
    # Headers are all that is stored: Ethernet's 14 bytes, IPv4's 20, and TCP's.
    assert (table["frame.cap_len"] == 34 + table["tcp.hdr_len"]).all()
    assert (table["frame.len"] == table["frame.cap_len"] + table["tcp.len"]).all()
    data = table[table["tcp.len"] > 0].copy()
    sent = data.groupby("frame.interface_id").size()
    assert list(sent) == list(paths.sent_packets)
    again = data.duplicated(["tcp.stream", "tcp.seq"])
    if retransmitted:
        marks = ["tcp.analysis.retransmission", "tcp.analysis.out_of_order"]
        assert ((data[marks] != "").any(axis=1) == again).all()
    if len(paths) == 1:
        assert again.sum() == paths.retransmitted_packets.sum()
        return data
    # The first data is in MP_CAPABLE, all other in a data sequence signal.
    data["data"] = data["mptcp.dss.dsn"].fillna(1)
    data["end"] = data.data + data["tcp.len"]
    assert (data["tcp.options.mptcp.datalvllen"] == data["tcp.len"]).all()
    assert (data["tcp.options.mptcp.subflowseqno"].fillna(1) == data["tcp.seq"]).all()
    assert data.duplicated(["data"]).sum() == paths.retransmitted_packets.sum()
    once = data.drop_duplicates("data").sort_values("data")
    assert (once.data.iloc[1:].to_numpy() == once.end.iloc[:-1].to_numpy()).all()
    assert once.data.iloc[0] == 1
    # Acknowledged data was received in order.
    received = table["mptcp.ack"].dropna().max() - 1
    assert 0 <= paths.delivered_bytes.sum() - received < 2e6
    return data


def test_tshark_counts_what_the_tables_count(small: Path, tmp_path: Path) -> None:
    result = anabranch.run(small, set=WHOLE, pcap=tmp_path / "pcap")
    folder = tmp_path / "pcap" / "lia-seed-1"
    assert sorted(file.name for file in folder.iterdir()) == [
        "one.pcapng",
        "two-0.pcapng",
        "two-1.pcapng",
    ]
    paths = result.paths
    data = check(folder / "two-0.pcapng", paths[(paths.flow == "two") & (paths.user == 0)])
    assert data["_ws.expert.message"].str.contains("retransmission").sum() > 50
    check(folder / "one.pcapng", paths[paths.flow == "one"])


def test_a_path_joins_by_the_token_of_the_connections_key(small: Path, tmp_path: Path) -> None:
    anabranch.run(small, set=WHOLE | {"measure.duration_s": 1}, pcap=tmp_path / "pcap")
    table = packets(tmp_path / "pcap" / "lia-seed-1" / "two-0.pcapng")
    tokens = table["mptcp.expected_token"].dropna().unique(), table["tcp.options.mptcp.recvtok"]
    # tshark computes them from the keys of MP_CAPABLE: of the receiver and of the sender.
    (joined,) = tokens[1].dropna().unique()
    assert joined in tokens[0]
    joins = table[table["tcp.stream"] == 1]
    # 20 ms of propagation there and back: two round trips, then data.
    assert list(joins.time_s.head(4) - joins.time_s.iloc[0]) == pytest.approx([0, 0.02, 0.02, 0.04])
    assert joins["tcp.len"].iloc[4] == 1448


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"tcp.recovery": "newreno"}, id="newreno", marks=pytest.mark.slow),
        pytest.param({"tcp.ecn": True}, id="ecn"),
        pytest.param({"tcp.delayed_acks": True, "tcp.recovery": "rack"}, id="rack"),
        pytest.param({"tcp.header_bytes": 72}, id="header_bytes", marks=pytest.mark.slow),
        pytest.param({"tcp.scheduler": "redundant"}, id="redundant", marks=pytest.mark.slow),
    ],
)
def test_other_endpoints_are_captured_too(
    changes: dict[str, Any], small: Path, tmp_path: Path
) -> None:
    result = anabranch.run(small, set=WHOLE | changes, pcap=tmp_path / "pcap")
    paths = result.paths
    file = tmp_path / "pcap" / "lia-seed-1" / "two-0.pcapng"
    data = check(file, paths[(paths.flow == "two") & (paths.user == 0)])
    if "tcp.header_bytes" in changes:
        # 1500 bytes of IPv4, of which 72 are headers, behind 14 of Ethernet.
        assert set(data["frame.len"].iloc[1:]) == {1514}


def one_flow(**flow: Any) -> dict[str, Any]:
    """The scenario with this flow alone."""
    return WHOLE | {"flows": [{"name": "one", "paths": [["R1"], ["R2"]], **flow}]}


def test_the_rtt_of_acknowledgements_is_that_of_the_table(small: Path, tmp_path: Path) -> None:
    # Without slow start nothing is lost in 3 s, and each packet has an acknowledgement of its own.
    changes = one_flow(paths=[["R1"]]) | {"tcp.initial_ssthresh_packets": 20}
    result = anabranch.run(small, "reno", set=changes, pcap=tmp_path / "pcap")
    table = packets(tmp_path / "pcap" / "reno-seed-1" / "one.pcapng").iloc[3:]
    rtt_ms = pd.to_numeric(table["tcp.analysis.ack_rtt"]).dropna() * 1e3
    assert len(rtt_ms) > 2000
    # The last acknowledgements of the run are under way when the table counts them.
    assert rtt_ms.mean() == pytest.approx(result.paths.rtt_ms.mean(), rel=1e-4)


def test_acknowledgements_that_are_lost_on_their_way_back_are_not_captured(
    small: Path, tmp_path: Path
) -> None:
    changes = one_flow(paths=[{"links": ["R1"], "back": ["R2"]}])
    lossy = changes | {"links.R2.loss": {"bernoulli": {"probability": 0.2}}}
    result = anabranch.run(small, "reno", set=lossy, pcap=tmp_path / "pcap")
    file = tmp_path / "pcap" / "reno-seed-1" / "one.pcapng"
    data = check(file, result.paths)
    (back,) = result.links[result.links.link == "R2"].itertuples()
    table = packets(file).iloc[3:]
    arrived = back.arrived_packets - back.dropped_random
    under_way = arrived - (table["tcp.len"] == 0).sum()
    # R2 carries 10 Mbps for 10 ms: up to 250 ACKs of 52 bytes, of which data sends some 20.
    assert 0 <= under_way < 40
    assert (table["tcp.options.sack_le"] != "").sum() > 10
    assert len(data) > 1000


# A connection per file; and one for all files, whose last packets are short.
@pytest.mark.parametrize("kind", ["poisson", "gateway"])
def test_short_packets_have_the_length_of_what_is_left(
    kind: str, small: Path, tmp_path: Path
) -> None:
    files = {"rate_per_s": 10, "size": {"exponential": {"mean_bytes": 20_000}}}
    workload = {kind: files | ({"clients": 2} if kind == "gateway" else {})}
    # The files of the first 2 s have arrived after 3 s.
    changes = one_flow(workload=workload, stop_s=2)
    result = anabranch.run(small, set=changes, pcap=tmp_path / "pcap")
    table = packets(tmp_path / "pcap" / "lia-seed-1" / "one.pcapng")
    data = table[table["tcp.len"] > 0]
    assert len(data) == result.paths.sent_packets.sum()
    assert data["tcp.len"].nunique() > 20
    received = table.groupby("mptcp.stream")["mptcp.ack"].max() - 1
    files_done = result.transfers.bytes
    assert len(files_done) > 20
    if kind == "gateway":
        assert received.max() == files_done.sum()
    else:
        # Each file is as long as the last data acknowledgement of its connection says.
        assert set(files_done) == set(received.dropna())


def test_a_capture_changes_no_table(small: Path, tmp_path: Path) -> None:
    linux = WHOLE | {"tcp.profile": "linux"}
    without = anabranch.run(small, set=linux).tables()
    captured = anabranch.run(small, set=linux, pcap=tmp_path / "pcap").tables()
    assert all(table.equals(captured[name]) for name, table in without.items())


def test_only_the_simulator_is_captured(small: Path, tmp_path: Path, anabranch: Anabranch) -> None:
    done = anabranch("run", small, "--on", "fluid", "--pcap", tmp_path / "pcap")
    assert done.returncode == 2
    assert "pcap: fluid has no simulated packets of TCP; run it with --on sim" in done.stderr
    assert not (tmp_path / "pcap").exists()
