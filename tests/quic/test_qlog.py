"""Qlog files of the QUIC backend: valid by the schema, in the time of the run, never replaced."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import anabranch
from anabranch import ScenarioError
from conftest import Anabranch
from quic.qlog_schema import DATA, EVENT, HEADER

LOSSY = {
    "links.R1.loss.bernoulli.probability": 0.02,
    "links.R1.down": [{"from_s": 2.0, "to_s": 3.5}],
}
SHORT = {"measure.duration_s": 2, "measure.warmup_s": 0.5}


def records(file: Path) -> list[dict[str, Any]]:
    """A JSON text sequence (RFC 7464): each record begins with 0x1e and ends with a newline."""
    texts = file.read_text().split("\x1e")
    assert texts[0] == ""
    assert all(text.endswith("\n") for text in texts[1:])
    return [json.loads(text) for text in texts[1:]]


# Every fifth of 6000 events, and all of 20 000.
@pytest.mark.parametrize(
    ("rate_mbps", "nth"), [(0.5, 5), pytest.param(2, 1, marks=pytest.mark.slow)]
)
def test_files_of_both_ends_are_valid_by_the_schema(
    rate_mbps: float, nth: int, small: Path, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    rates = {"links.R1.rate_mbps": rate_mbps, "links.R2.rate_mbps": rate_mbps}
    result = anabranch.run(small, seeds=1, set=LOSSY | rates, on="quic", qlog=logs)
    (folder,) = logs.iterdir()
    assert folder.name == f"{result.algorithms[0]}-seed-1"
    # Three users with data without limit.
    ends = [f"connection-{n}-{end}.sqlog" for n in range(3) for end in ("receiver", "sender")]
    assert sorted(file.name for file in folder.iterdir()) == ends
    is_header, is_event = map(jsonschema.Draft202012Validator, (HEADER, EVENT))
    names = set()
    for file in folder.iterdir():
        header, *events = records(file)
        is_header.validate(header)
        end = "client" if file.stem.endswith("sender") else "server"
        assert header["trace"]["vantage_point"]["type"] == end
        kinds = {event["name"]: event for event in events}
        for event in [*kinds.values(), *events[::nth]]:
            is_event.validate(event)
        times = [event["time"] for event in events]
        assert times == sorted(times)
        names |= {event["name"] for event in events}
    assert names == set(DATA)


def test_times_are_those_of_the_run_in_ms(small: Path, tmp_path: Path) -> None:
    at_once = {**SHORT, "flows.one.start_spread_s": 0}
    result = anabranch.run(small, seeds=1, set=at_once, on="quic", qlog=tmp_path / "logs")
    (sender,) = (tmp_path / "logs").glob("*/connection-0-sender.sqlog")
    _, *events = records(sender)
    # The user with one path starts first, at once.
    assert events[0]["time"] == 0.0
    end_ms = result.scenario.duration_s * 1e3
    assert end_ms - 1000 < events[-1]["time"] <= end_ms


def test_logging_does_not_change_the_tables(small: Path, tmp_path: Path) -> None:
    without = anabranch.run(small, seeds=1, set=SHORT, on="quic").tables()
    logged = anabranch.run(small, seeds=1, set=SHORT, on="quic", qlog=tmp_path / "logs")
    with_logs = logged.tables()
    assert all(table.equals(with_logs[name]) for name, table in without.items())


def test_each_run_has_a_folder(small: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    rules = ["lia", "balia:cap=inf"]
    shorter = SHORT | {"measure.duration_s": 1}
    anabranch.run(small, rules, seeds=2, set=shorter, on="quic", qlog=logs)
    names = {folder.name for folder in logs.iterdir()}
    runs = {f"{rule}-seed-{seed}" for rule in ("lia", "balia_cap=inf") for seed in (1, 2)}
    assert names == runs


def test_backends_without_events_have_no_logs(small: Path, tmp_path: Path) -> None:
    for on in ("fluid", "kernel"):
        with pytest.raises(ScenarioError) as raised:
            anabranch.run(small, on=on, qlog=tmp_path / "logs")
        assert str(raised.value) == f"qlog: {on} logs no events; run it with --on quic or sim"
    assert not (tmp_path / "logs").exists()


def test_a_full_directory_is_refused(small: Path, tmp_path: Path, anabranch: Anabranch) -> None:
    (tmp_path / "logs").mkdir()
    kept = tmp_path / "logs" / "kept"
    kept.touch()
    short = [word for key, value in SHORT.items() for word in ("--set", f"{key}={value}")]
    call = ("run", small, "--on", "quic", "--seeds", 1, "--quiet", "--qlog", tmp_path / "logs")
    done = anabranch(*call, *short)
    assert done.returncode == 2
    assert "the directory is not empty" in done.stderr
    assert anabranch(*call, *short, "--force").returncode == 0
    assert kept.exists()
    assert list((tmp_path / "logs").glob("*/connection-0-sender.sqlog"))


def test_a_file_that_cannot_be_written_is_an_error(small: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(NotADirectoryError, match="expected a directory to write to, got a file"):
        anabranch.run(small, on="quic", qlog=file)
