"""QLOG files as graphs: per path, whatever the draft; those that the backend quic writes."""

import json
from pathlib import Path

import pytest

import anabranch
from anabranch.extras.ui.opened import open_path
from anabranch.extras.ui.qlog import read, view
from anabranch.scenario import ScenarioError
from extras.ui.conftest import client_of

ROOT = Path(__file__).parents[3]


def metrics(time: float, path: int, **data: float) -> dict:
    return {
        "time": time,
        "name": "quic:recovery_metrics_updated",
        "data": {"path_id": path, **data},
    }


def lost(time: float, **data: object) -> dict:
    return {"time": time, "name": "quic:packet_lost", "data": data}


EVENTS = [
    metrics(0, 0, congestion_window=14_000, smoothed_rtt=40.0, bytes_in_flight=1200),
    {"time": 1, "name": "quic:tuple_assigned", "data": {"tuple_id": "p1"}},
    {
        "time": 2,
        "name": "quic:packet_sent",
        "data": {
            "header": {"path_id": 1, "length": 1250},
            "frames": [{"frame_type": "path_challenge"}],
        },
    },
    metrics(4, 1, congestion_window=28_000, pacing_rate=8_000_000),
    lost(10, trigger="time_threshold", header={"packet_number": 7}),
    metrics(10, 1, congestion_window=14_000),
    lost(12, trigger="reordering_threshold", header={"path_id": 0}),
    {"time": 12, "name": "quic:timer_updated", "data": {"timer_type": "pto", "event_type": "set"}},
    {"time": 20, "name": "quic:connection_closed", "data": {"trigger": "error"}},
]


def sequence(file: Path, events: list[dict] = EVENTS) -> Path:
    records = [{"file_schema": "urn:ietf:params:qlog:file:sequential", "title": "A file"}, *events]
    file.write_text("".join(f"\x1e{json.dumps(record)}\n" for record in records))
    return file


def test_each_path_has_its_own_lines(tmp_path: Path):
    found = view(read(sequence(tmp_path / "a.sqlog")))
    first, second = found["paths"]
    time = found["time_ms"]
    assert (found["title"], found["end_ms"]) == ("A file", 20)
    assert (first["path"], second["path"]) == ("0", "1")
    assert set(first["lines"]["window_kb"]) == {14.0}
    assert set(first["lines"]["rtt_ms"]) == {40.0}
    # 28 kB from 4 to 10 ms, then 14; nothing before.
    window = second["lines"]["window_kb"]
    for at, value in zip(time, window, strict=True):
        assert value == (None if at < 4 else 28.0 if at < 10 else 14.0)
    assert second["lines"]["pacing_mbps"][-1] == 8.0
    # 1250 bytes within 5 ms are 2 Mbps.
    assert max(value for value in second["lines"]["sent_mbps"]) == pytest.approx(2.0)


def test_a_loss_without_a_path_is_that_of_the_metrics_that_follow(tmp_path: Path):
    first, second = view(read(sequence(tmp_path / "a.sqlog")))["paths"]
    kinds = [
        [(mark["time_ms"], mark["kind"]) for mark in path["events"]] for path in (first, second)
    ]
    assert (12, "lost") in kinds[0]
    assert (10, "lost") not in kinds[0]
    assert (10, "lost") in kinds[1]
    assert (12, "lost") not in kinds[1]
    assert (2, "path challenge sent") in kinds[1]
    assert (1, "tuple assigned") in kinds[1]
    assert (20, "connection closed") not in kinds[0] + kinds[1]
    assert all(kind != "timeout" for _, kind in kinds[0])


def test_a_span_has_only_what_is_in_it(tmp_path: Path):
    found = view(read(sequence(tmp_path / "a.sqlog")), 9, 11)
    assert (found["time_ms"][0], found["time_ms"][-1]) == (9, 11)
    assert [mark["kind"] for mark in found["paths"][0]["events"]] == []
    assert [mark["kind"] for mark in found["paths"][1]["events"]] == ["lost"]


@pytest.mark.parametrize("name", ["recovery:metrics_updated", "quic:recovery_metrics_updated"])
def test_older_drafts_are_read(tmp_path: Path, name: str):
    events = [
        {**event, "name": event["name"].replace("quic:recovery_metrics_updated", name)}
        for event in EVENTS
    ]
    file = tmp_path / "a.qlog"
    file.write_text(json.dumps({"title": "A file", "traces": [{"events": events}]}, indent=1))
    assert view(read(file)) == view(read(sequence(tmp_path / "a.sqlog")))


@pytest.mark.parametrize(
    "text", ["", "{", "no json\n", '{"title": "x"}\n', '{"time": 1}\n', "[1]\n"]
)
def test_what_is_no_qlog_is_refused(tmp_path: Path, text: str):
    file = tmp_path / "a.qlog"
    file.write_text(text)
    with pytest.raises(ScenarioError, match=r"a\.qlog"):
        read(file)


def test_a_run_over_quic_has_a_graph_for_each_of_its_paths(tmp_path: Path):
    values = {"measure.duration_s": 0.4, "links.lte.queue": {"drop_tail": {"packets": 5}}}
    values |= {"measure.warmup_s": 0}
    scenario = ROOT / "examples" / "gateway_links.toml"
    result = anabranch.run(scenario, "olia", 1, set=values, on="quic", qlog=tmp_path / "logs")
    names = open_path(tmp_path / "logs").as_dict()["logs"]
    assert names == [f"olia-seed-1/connection-0-{end}.sqlog" for end in ("receiver", "sender")]
    with client_of(tmp_path / "logs") as client:
        found = client.get("/api/qlog", params={"file": names[1]}).json()
        other = client.get("/api/qlog", params={"file": "../../etc/passwd"})
    assert other.status_code == 422
    assert [path["path"] for path in found["paths"]] == ["0", "1"]
    lost = result.paths["lost_overflow"].tolist()
    for path, count in zip(found["paths"], lost, strict=True):
        marked = sum(mark["count"] for mark in path["events"] if mark["kind"] == "lost")
        # Drops in the last round trip are not known yet.
        assert (marked > 0) == (count > 0)
        assert marked <= count
        assert max(value or 0 for value in path["lines"]["window_kb"]) > 14
