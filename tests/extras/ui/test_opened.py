"""The command, and opening a scenario or a directory of results; anything else is refused."""

import http.client
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from zipfile import ZipFile

import pytest

import anabranch
from anabranch.extras.ui.opened import open_path
from anabranch.extras.ui.series import plan
from anabranch.result import Result
from anabranch.scenario import ScenarioError
from conftest import accept_sigint
from extras.ui.conftest import ENDLESS, PATIENCE_S, client_of, events, read_until

EXAMPLE = Path(__file__).parents[3] / "examples" / "two_against_one.toml"
SHORT = {"measure.duration_s": 12, "measure.warmup_s": 2}


def test_a_scenario_file_is_opened_as_its_text():
    opened = open_path(EXAMPLE).as_dict()
    assert opened["kind"] == "scenario"
    assert opened["toml"] == EXAMPLE.read_text()


def test_a_directory_of_results_is_shown_as_it_ran(tmp_path: Path):
    result = anabranch.run(EXAMPLE, ["lia", "olia"], [4, 7], set=SHORT)
    result.save(tmp_path / "results")
    with client_of(tmp_path / "results") as client:
        opened = client.get("/api/start").json()["opened"]
        found = events(client.get("/api/opened", params={"a": "olia", "b": "lia", "seed": 7}))
        wrong = client.get("/api/opened", params={"a": "balia", "seed": 7})
        unknown = client.get("/api/opened", params={"a": "lia", "seed": 1})
    assert (opened["algorithms"], opened["seeds"]) == (["lia", "olia"], [4, 7])
    totals = [event["totals"] for event in found if event["type"] == "result"]
    for rule, own in zip(["olia", "lia"], totals, strict=True):
        rows = result.flows[(result.flows["algorithm"] == rule) & (result.flows["seed"] == 7)]
        assert own["total_mbps"] == pytest.approx(rows["goodput_mbps"].sum())
    assert wrong.json()["error"]["message"].startswith("algorithm 'balia': expected one of")
    assert unknown.json()["error"]["message"] == "seed 1: expected one of 4, 7"


def test_a_stored_result_has_the_means_and_intervals_over_its_seeds(tmp_path: Path):
    result = anabranch.run(EXAMPLE, ["lia"], [4, 7, 9], set=SHORT)
    result.save(tmp_path / "results")
    with client_of(tmp_path / "results") as client:
        found = events(client.get("/api/opened", params={"a": "lia", "seed": 7}))
    (event,) = (event for event in found if event["type"] == "result")
    summary = result.summary()
    assert event["over_seeds"]["seeds"] == 3
    assert event["over_seeds"]["goodput_mbps"] == pytest.approx(list(summary["goodput_mbps"]))
    assert event["over_seeds"]["half_mbps"] == pytest.approx(list(summary["goodput_mbps_ci95"]))


def test_the_plan_names_the_rules_of_flows_that_have_their_own():
    scenario = anabranch.Scenario.load(EXAMPLE.with_name("two_links.toml"))
    assert [flow["own"] for flow in plan(scenario)["flows"]] == [None, "reno", "reno"]
    same = scenario.with_algorithm("reno")
    assert [flow["own"] for flow in plan(same)["flows"]] == [None, "reno", "reno"]


@pytest.mark.parametrize("name", ["nothing", "nothing.toml", "nothing.qlog", "empty"])
def test_what_cannot_be_opened_is_one_error(tmp_path: Path, name: str):
    (tmp_path / "empty").mkdir()
    with pytest.raises((ScenarioError, OSError), match=name):
        open_path(tmp_path / name)


def test_saved_data_are_a_directory_of_results(tmp_path: Path):
    values = {key: json.dumps(value) for key, value in SHORT.items()}
    ask = {"toml": EXAMPLE.read_text(), "set": values, "rules": ["lia"], "seed": 2, "on": "sim"}
    with client_of(EXAMPLE) as client:
        answer = client.post("/api/export", json=ask)
    ZipFile(io.BytesIO(answer.content)).extractall(tmp_path)
    stored = Result.load(tmp_path / "anabranch")
    again = anabranch.run(EXAMPLE, "lia", [2], set=SHORT)
    assert stored.flows["goodput_mbps"].tolist() == again.flows["goodput_mbps"].tolist()
    assert (tmp_path / "anabranch" / "goodput.svg").is_file()


def test_ctrl_c_ends_the_server_and_a_run_that_computes():
    command = [sys.executable, "-m", "anabranch", "ui", "--no-browser"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, preexec_fn=accept_sigint
    )
    assert process.stdout
    address = urlsplit(process.stdout.readline().strip())
    assert address.hostname == "127.0.0.1"
    connection = http.client.HTTPConnection(address.netloc, timeout=PATIENCE_S)
    headers = {"x-anabranch-token": parse_qs(address.query)["token"][0]}
    headers["content-type"] = "application/json"
    connection.request("POST", "/api/run", json.dumps(ENDLESS), headers)
    read_until(connection.getresponse(), "samples")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE_S)
    connection.close()
    assert process.returncode == 130
    assert "Traceback" not in said


def test_without_its_library_the_command_names_the_extra(
    anabranch, monkeypatch: pytest.MonkeyPatch
):
    for name in list(sys.modules):
        if name.startswith("anabranch.extras.ui.") and name.rpartition(".")[2] in ("serve", "app"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = anabranch("ui")
    assert result.returncode == 2
    assert result.stderr.strip() == (
        "anabranch: uvicorn is not installed: pip install 'anabranch[ui]' installs it"
    )


def test_what_cannot_be_opened_is_one_line(anabranch, tmp_path: Path):
    result = anabranch("ui", str(tmp_path))
    assert result.returncode == 2
    assert result.stderr.startswith(f"anabranch: {tmp_path}: expected manifest.json")
    assert result.stderr.count(os.linesep) == 1
