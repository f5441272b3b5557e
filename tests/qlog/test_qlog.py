"""Qlog of the simulator's samples by the schema, and files of three kinds of sender as tables."""

import contextlib
import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anabranch
from anabranch import ScenarioError, qlog
from quic.qlog_schema import EVENT, HEADER

AIOQUIC = Path(__file__).with_name("aioquic.qlog")
"""What the server of aioquic 1.7.2 logged while it sent 200 kB; without frames."""

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
