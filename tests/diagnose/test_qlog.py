"""`anabranch diagnose` on qlog files: of the backend `quic`, and by hand as drafts have them."""

import json
from pathlib import Path
from typing import Any

import pytest

import anabranch
from anabranch import ScenarioError
from anabranch.diagnose import Diagnosis, diagnose, gather
from anabranch.diagnose.report import as_dict
from conftest import Anabranch

NETWORK = """
algorithm = "reno"
seeds = [1]
measure = { duration_s = 8, warmup_s = 1 }
[links.one]
rate_mbps = 8
delay_ms = 15
queue.drop_tail = { packets = 40 }
[links.two]
rate_mbps = 12
delay_ms = 30
queue.drop_tail = { packets = 120 }
[[flows]]
name = "user"
paths = [["one"], ["two"]]
"""
Record = dict[str, Any]


def test_a_file_of_the_quic_backend_has_rates_rtts_and_the_cause(tmp_path: Path) -> None:
    file = tmp_path / "network.toml"
    file.write_text(NETWORK)
    anabranch.run(file, on="quic", qlog=tmp_path / "clean")
    (folder,) = (tmp_path / "clean").iterdir()
    found = diagnose(gather([folder]))
    assert found.cause.id == "none"
    one, two = found.connection.paths
    # 15 and 30 ms there, 15 ms back: ACKs of both paths come over the faster one. Queues of up to
    # 40 packets at 8 Mbps are 60 ms.
    assert one.last.number("minrtt") == pytest.approx(30, abs=2)
    assert two.last.number("minrtt") == pytest.approx(45, abs=2)
    assert 30 <= (one.last.rtt_ms or 0) <= 95
    # Packets of 1472 bytes with 28 of headers, without what was lost in slow start.
    assert 6 < (one.rate_mbps or 0) < 8
    assert 8 < (two.rate_mbps or 0) < 12
    assert "of receivers left out" in found.evidence.read[0].format

    lossy = {"links.two.loss.bernoulli.probability": 0.02}
    anabranch.run(file, set=lossy, on="quic", qlog=tmp_path / "lossy")
    (sender,) = (tmp_path / "lossy").glob("*/*-sender.sqlog")
    found = diagnose(gather([sender]))
    # The second path: 1, or 2 where packets of its handshake were lost.
    first, second = found.connection.paths
    assert first.name == "path0"
    assert (found.cause.id, found.cause.path) == ("loss", second)
    assert "bbr" in found.remedy[0].command
    assert "sysctl" not in found.remedy[0].command
    assert as_dict(found)["paths"][1]["retransmitted"] == pytest.approx(0.02, abs=0.01)


def events(blocked: bool = False, backup: bool = False, idle: bool = False) -> list[Record]:
    """10 s of two paths, 1250 bytes each 10 ms on path 1 and each 1 ms on path 0."""
    found: list[Record] = [
        {"time": 0, "name": "quic:parameters_set",
         "data": {"initiator": "remote", "initial_max_data": 10_000_000 if blocked else 1 << 40}}
    ]  # fmt: skip
    offset = 0
    for ms in range(10_000):
        for path, every, rtt in ((0, 1, 20.0), (1, 10, 60.0)):
            if ms % every or (backup and path == 1):
                continue
            waits = (blocked or idle) and ms % 100 > 40
            frames: list[Record] = [
                {"frame_type": "stream", "stream_id": 0, "offset": offset, "length": 1250}
            ]
            if blocked and ms % 500 == 0:
                frames.append({"frame_type": "data_blocked", "limit": offset})
            offset += 0 if waits else 1250
            header = {"path_id": path, "packet_number": ms}
            if not waits or blocked:
                data = {"header": header, "raw": {"length": 1250}, "frames": frames}
                found.append({"time": ms, "name": "quic:packet_sent", "data": data})
            found.append({"time": ms, "name": "quic:packet_received",
                          "data": {"header": header, "raw": {"length": 40}}})  # fmt: skip
            window = 60_000 if blocked or idle else 25_000
            metrics = {"path_id": path, "congestion_window": window, "min_rtt": 20.0,
                       "bytes_in_flight": 0 if waits else 25_000, "smoothed_rtt": rtt}  # fmt: skip
            found.append({"time": ms, "name": "quic:recovery_metrics_updated", "data": metrics})
    if backup:
        frame = {"frame_type": "path_status_backup", "path_id": 1, "path_status_sequence_number": 1}
        data = {"header": {"path_id": 0}, "raw": {"length": 40}, "frames": [frame]}
        found.insert(1, {"time": 1, "name": "quic:packet_received", "data": data})
        ping = {"header": {"path_id": 1}, "raw": {"length": 1250}}
        found.insert(2, {"time": 1, "name": "quic:packet_sent", "data": ping})
    return found


def asked(folder: Path, records: list[Record]) -> Diagnosis:
    file = folder / "log"
    header = {"file_schema": "urn:ietf:params:qlog:file:sequential", "trace": {"title": "mine"}}
    file.write_text("".join(f"\x1e{json.dumps(one)}\n" for one in [header, *records]))
    return diagnose(gather([file]))


def test_flow_control_takes_the_place_of_the_receive_window(tmp_path: Path) -> None:
    found = asked(tmp_path, events(blocked=True))
    assert found.cause.id == "receive-buffer"
    assert found.remedy[0].host == "peer"
    assert "initial_max_data" in found.remedy[0].command
    # Idle without a frame that says so: the program.
    assert asked(tmp_path, events(idle=True)).cause.id == "application"


def test_a_path_whose_status_is_backup_is_named(tmp_path: Path) -> None:
    found = asked(tmp_path, events(backup=True))
    assert (found.cause.id, found.cause.path and found.cause.path.name) == ("backup-flag", "path1")
    assert "PATH_STATUS_AVAILABLE" in found.remedy[0].command


def test_the_rate_of_a_path_is_what_was_acknowledged(tmp_path: Path) -> None:
    found = asked(tmp_path, events())
    # 1250 bytes each ms are 10 Mbps, each 10 ms 1 Mbps.
    assert [p.rate_mbps for p in found.connection.paths] == pytest.approx([10, 1], rel=0.02)


def test_a_log_without_packets_is_refused(tmp_path: Path) -> None:
    without = [one for one in events() if "packet" not in one["name"]]
    with pytest.raises(ScenarioError, match="without packets"):
        asked(tmp_path, without)


def test_a_qlog_has_a_picture(anabranch: Anabranch, tmp_path: Path) -> None:
    asked(tmp_path, events())
    for name in ("a.svg", "a.png"):
        done = anabranch("diagnose", str(tmp_path / "log"), "--picture", str(tmp_path / name))
        assert done.returncode == 0, done.stderr
        assert (tmp_path / name).stat().st_size > 10_000
    again = anabranch("diagnose", str(tmp_path / "log"), "--picture", str(tmp_path / "a.svg"))
    assert again.returncode == 2
    assert "exists already" in again.stderr
    odd = anabranch("diagnose", str(tmp_path / "log"), "--picture", str(tmp_path / "a.bmp"))
    assert "expected a name that ends with svg, png, pdf" in odd.stderr
