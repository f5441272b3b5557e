"""Opening a scenario or a directory of results; anything else is refused."""

import io
import json
from pathlib import Path
from zipfile import ZipFile

import pytest

import anabranch
from anabranch.extras.ui.opened import open_path
from anabranch.extras.ui.series import plan
from anabranch.result import Result
from anabranch.scenario import ScenarioError
from extras.ui.server import client_of, events

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
