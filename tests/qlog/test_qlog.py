"""Qlog of the simulator's samples by the schema, and files of three kinds of sender as tables."""

import contextlib
import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anabranch
from anabranch import ScenarioError, qlog
from quic.qlog_schema import EVENT, HEADER

AIOQUIC = Path(__file__).with_name("aioquic.qlog")
"""Log of the server of aioquic 1.7.2 while it sent 200 kB; without frames."""

SHORT = {"measure.duration_s": 3, "measure.warmup_s": 0}


def test_samples_of_the_simulator_are_read_as_they_were(small: Path, tmp_path: Path) -> None:
    result = anabranch.run(small, ["lia", "olia"], seeds=1, set=SHORT, qlog=tmp_path / "logs")
    names = sorted(str(file.relative_to(tmp_path)) for file in tmp_path.glob("logs/*/*"))
    users = ("one-0", "two-0", "two-1")
    runs = ("lia-seed-1", "olia-seed-1")
    assert names == [f"logs/{run}/{user}.sqlog" for run in runs for user in users]
    file = tmp_path / "logs" / "olia-seed-1" / "two-1.sqlog"
    header, *events = map(json.loads, file.read_text().split("\x1e")[1:])
    jsonschema.Draft202012Validator(HEADER).validate(header)
    for event in events:
        jsonschema.Draft202012Validator(EVENT).validate(event)
    expected = result.path_samples.query("algorithm == 'olia' and flow == 'two' and user == 1")
    expected = expected[np.isfinite(expected.rtt_ms)]
    read = qlog.read(file, packet_bytes=1500)["path_samples"]
    assert set(read.path) == {0, 1}
    for column in ("time_s", "path", "window_packets", "rtt_ms", "in_flight_packets"):
        # A window is a whole number of bytes.
        expect = pytest.approx(expected[column].to_numpy(), abs=0.5 / 1500)
        assert read[column].to_numpy() == expect, column


def test_a_file_of_the_quic_backend_has_the_counts_of_the_tables(
    small: Path, tmp_path: Path
) -> None:
    settings = SHORT | {"links.R2.loss.bernoulli.probability": 0.01}
    result = anabranch.run(small, seeds=1, set=settings, on="quic", qlog=tmp_path / "logs")
    (file,) = tmp_path.glob("logs/*/connection-0-sender.sqlog")
    paths = qlog.read(file)["paths"]
    # The user with one path begins first.
    (row,) = result.paths[result.paths.flow == "one"].itertuples()
    assert list(paths.path) == [0]
    # The table counts datagrams, and packets of the handshake share some.
    assert 0 <= paths.sent_packets[0] - row.sent_packets <= 3
    # Packets lost in the last round trip are not declared lost yet.
    lost = row.lost_overflow + row.lost_red + row.lost_random
    assert 0 <= lost - paths.lost_packets[0] <= 3
    assert lost > 3
    assert paths.rtt_ms[0] == pytest.approx(row.rtt_ms, rel=0.1)


def test_a_file_of_aioquic_is_read() -> None:
    tables = qlog.read(AIOQUIC)
    (events,) = (trace["events"] for trace in json.loads(AIOQUIC.read_text())["traces"])
    names = [event["name"] for event in events]
    (row,) = tables["paths"].itertuples()
    assert row.flow == "aioquic"
    assert row.sent_packets == names.count("transport:packet_sent") == 181
    assert row.lost_packets == names.count("recovery:packet_lost") == 6
    samples = tables["path_samples"]
    assert len(samples) == names.count("recovery:metrics_updated") == 213
    assert samples.lost_packets.sum() == 6
    # 12 000 bytes at first, in packets of at most 1230 bytes (aioquic logs them without padding).
    largest = max(event["data"].get("raw", {}).get("length", 0) for event in events)
    assert samples.window_packets[0] == 12_000 / largest
    # Times are on the calendar.
    assert 0 <= samples.time_s.iloc[0] < samples.time_s.iloc[-1] < 1


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "some.qlog"
    file.write_text(text)
    return file


def sequence(*records: Any) -> str:
    return "".join(f"\x1e{json.dumps(record)}\n" for record in records)


def metrics(time: float, **data: float) -> dict[str, Any]:
    return {"time": time, "name": "recovery:metrics_updated", "data": data}


def test_metrics_that_do_not_change_are_kept(tmp_path: Path) -> None:
    common = {"time_format": "delta"}
    text = sequence(
        {"qlog_version": "0.4", "trace": {"title": "t", "common_fields": common}},
        metrics(10, congestion_window=3000, smoothed_rtt=40, bytes_in_flight=1500),
        {"time": 5, "name": "recovery:packet_lost", "data": {"header": {"packet_number": 1}}},
        metrics(5, congestion_window=1500),
    )
    samples = qlog.read(write(tmp_path, text))["path_samples"]
    assert list(samples.time_s) == [0.01, 0.02]
    assert list(samples.window_packets) == [2, 1]
    assert list(samples.rtt_ms) == [40, 40]
    assert list(samples.in_flight_packets) == [1, 1]
    assert list(samples.lost_packets) == [0, 1]


def test_a_loss_without_a_path_is_that_of_the_metrics_that_follow(tmp_path: Path) -> None:
    """As noq writes it."""
    text = sequence(
        {"trace": {}},
        metrics(1, path_id=0, congestion_window=3000),
        {"time": 2, "name": "quic:packet_lost", "data": {}},
        metrics(2, path_id=1, congestion_window=1500),
        {"time": 3, "name": "quic:packet_lost", "data": {"header": {"path_id": 0}}},
    )
    paths = qlog.read(write(tmp_path, text))["paths"]
    assert list(paths.path) == [0, 1]
    assert list(paths.lost_packets) == [1, 1]


def test_losses_of_two_paths_over_quic_are_those_of_the_table(small: Path, tmp_path: Path) -> None:
    settings = SHORT | {"links.R2.loss.bernoulli.probability": 0.02}
    result = anabranch.run(small, seeds=1, set=settings, on="quic", qlog=tmp_path / "logs")
    (file,) = tmp_path.glob("logs/*/connection-1-sender.sqlog")
    logged = list(qlog.read(file)["paths"].lost_packets)
    rows = result.paths[result.paths.flow == "two"]
    counted = rows.lost_overflow + rows.lost_red + rows.lost_random
    users = [list(counted[rows.user == user]) for user in (0, 1)]
    # One of the two users; packets lost in the last round trip are not declared lost yet.
    assert any(
        all(0 <= lost - seen <= 3 for lost, seen in zip(user, logged, strict=True))
        for user in users
    ), (logged, users)
    assert logged[1] > 3


def test_a_last_record_that_is_cut_off_is_left_out(tmp_path: Path) -> None:
    text = sequence({"trace": {}}, metrics(1, congestion_window=3000), metrics(2))
    assert len(qlog.read(write(tmp_path, text[:-5]))["path_samples"]) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "some.qlog: not JSON"),
        ("[]", "some.qlog: not qlog: expected an object with traces, or a JSON sequence"),
        ('{"traces": [{"events": [[1, "a"]]}]}', "trace 0: expected a list of events that are"),
        ('{"traces": [{"events": [], "configuration": {"time_units": "h"}}]}', "time_units 'h'"),
        ("\x1e", "some.qlog: not qlog: the sequence is empty"),
        ("\x1e{}\n", "record 0: not qlog: expected an object with a trace"),
        (sequence({"trace": {}}, {"time": 1}), "record 1: not an event of qlog: KeyError('name')"),
        (sequence({"trace": {}}, metrics(1, smoothed_rtt="x")), "record 1: not an event of qlog"),
        (sequence({"trace": {}}) + "\x1e{\n", "record 1: not JSON"),
    ],
)
def test_a_file_that_is_no_qlog_is_an_error(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as error:
        qlog.read(write(tmp_path, text))
    assert message in str(error.value)


DRAFT_00 = """{ "qlog_version": "draft-00", "title": "picoquic", "traces": [
{ "vantage_point": { "name": "backend", "type": "server" }, "configuration": {"time_units": "us"},
"event_fields": ["relative_time", "path_id", "category", "event", "data"],
"common_fields": { "protocol_type": "QUIC_HTTP3", "reference_time": "1000"},
"events": [
[0, 0, "transport", "packet_sent", { "header": { "packet_size": 1200, "packet_number": 1 }}],
[100, 1, "transport", "packet_sent", { "header": { "packet_size": 1440, "packet_number": 1 }}],
[20000, 0, "recovery", "metrics_updated",
 {"cwnd": 14400, "smoothed_rtt": 30000, "min_rtt": 20000, "latest_rtt": 20000}],
[60000, 1, "recovery", "metrics_updated", {"cwnd": 28800, "latest_rtt": 60000}],
[61000, 1, "recovery", "packet_lost", { "packet_number" : 1, "trigger" : "time" }],
[62000, 0, "recovery", "metrics_updated", {"pto_count": 1}],
[80000, 0, "recovery", "metrics_updated", {"cwnd": 17280, "latest_rtt": 24000}]]}]}"""
"""In the form of picoquic's writer: rows, us, a column for the path."""


def test_rows_of_draft_00_have_their_units_and_paths(tmp_path: Path) -> None:
    tables = qlog.read(write(tmp_path, DRAFT_00))
    paths = tables["paths"]
    assert list(paths.path) == [0, 1]
    assert list(paths.sent_packets) == [1, 1]
    assert list(paths.lost_packets) == [0, 1]
    # Latest RTTs alone: (20 + 24) / 2 of path 0, not the smoothed 30.
    assert list(paths.rtt_ms) == [22, 60]
    samples = tables["path_samples"]
    # Three updates; that of the PTO has no metric of a sample.
    assert list(samples.time_s) == [0.02, 0.06, 0.08]
    # Path 0 logs a smoothed RTT, which holds; path 1 the latest alone.
    assert list(samples.rtt_ms) == [30, 60, 30]
    assert list(samples.window_packets) == [10, 20, 12]


@pytest.mark.parametrize(
    ("fields", "times"),
    [
        (["delta_time", "CATEGORY", "EVENT_TYPE", "TRIGGER", "DATA"], [5, 10]),
        (["time", "category", "event_type", "trigger", "data"], [1005, 1015]),
        (["relative_time", "category", "event_type", "trigger", "data"], [5, 15]),
    ],
)
def test_times_of_rows_are_since_the_reference_or_the_event_before(
    fields: list[str], times: list[int], tmp_path: Path
) -> None:
    rows = [[t, "RECOVERY", "METRIC_UPDATE", "", {"cwnd": 1500}] for t in times]
    trace = {"event_fields": fields, "common_fields": {"reference_time": 1000}, "events": rows}
    text = json.dumps({"qlog_version": "draft-01", "traces": [trace]})
    assert list(qlog.read(write(tmp_path, text))["path_samples"].time_s) == [0.005, 0.015]


@pytest.mark.parametrize("name", ["quic:packet_lost", "recovery:packets_lost"])
def test_an_event_of_several_losses_counts_each(name: str, tmp_path: Path) -> None:
    """As mvfst writes it."""
    lost = {"largest_lost_packet_num": 3, "lost_bytes": 3756, "lost_packets": 3}
    sent = {"time": 1, "name": "quic:packet_sent", "data": {"raw": {"length": 1252}}}
    text = sequence({"trace": {}}, sent, {"time": 2, "name": name, "data": lost})
    assert list(qlog.read(write(tmp_path, text))["paths"].lost_packets) == [3]


METRIC_LISTS = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(0, 2), st.integers(1, 10**6), st.integers(1, 99)),
    max_size=20,
)


@given(rows=METRIC_LISTS)
def test_every_form_of_the_same_events_gives_the_same_tables(
    rows: list[tuple[int, int, int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Rows of draft-00 in us, objects of 0.3 in ms, and a sequence of 0.4: the same numbers."""
    rows.sort()
    fields = ["relative_time", "path_id", "category", "event", "data"]
    old = [
        [t, path, "recovery", "metrics_updated", {"cwnd": 1500 * w, "latest_rtt": rtt}]
        for t, path, rtt, w in rows
    ]
    new = [
        metrics(t / 1e3, path_id=path, congestion_window=1500 * w, latest_rtt=rtt / 1e3)
        for t, path, rtt, w in rows
    ]
    units = {"time_units": "us"}
    texts = [
        json.dumps({"traces": [{"event_fields": fields, "configuration": units, "events": old}]}),
        json.dumps({"qlog_version": "0.3", "traces": [{"events": new}]}),
        sequence({"qlog_version": "0.4", "trace": {}}, *new),
    ]
    folder = tmp_path_factory.mktemp("forms")
    first, *others = [qlog.read(write(folder, text)) for text in texts]
    for other in others:
        for name, table in first.items():
            pd.testing.assert_frame_equal(table, other[name])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
PIECES = st.dictionaries(
    st.sampled_from(["time", "name", "data", "header", "raw", "path_id", "cwnd", "smoothed_rtt"]),
    JSON | st.sampled_from(["quic:packet_sent", "metrics_updated", "packet_lost", 1.5]),
)


@given(records=st.lists(PIECES | JSON, max_size=5), cut=st.integers(0, 40), plain=st.booleans())
def test_any_file_is_read_or_an_error(
    records: list[Any], cut: int, plain: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if plain:
        text = json.dumps({"traces": [{"events": records}]})
    else:
        text = sequence({"trace": {}}, *records)
    file = tmp_path_factory.mktemp("any") / "some.qlog"
    file.write_text(text[: len(text) - cut], encoding="utf-8", errors="surrogatepass")
    # Any other exception fails the test.
    with contextlib.suppress(ScenarioError):
        assert set(qlog.read(file)) == {"paths", "path_samples"}
