"""The gallery and its sliders: all of it can be opened, and whatever a slider sets is accepted."""

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from anabranch.experiments.folder import known_studies
from anabranch.extras.ui.asked import scenario_of
from anabranch.extras.ui.gallery import gallery
from anabranch.extras.ui.parameters import parameters

ROOT = Path(__file__).parents[3]


def test_the_gallery_has_every_example_study_and_network_of_a_paper():
    ids = set(gallery())
    assert {f"examples/{file.stem}" for file in (ROOT / "examples").glob("*.toml")} <= ids
    assert {name.split("/")[1] for name in ids if name.startswith("studies/")} == set(
        known_studies()
    )
    papers = {
        f"papers/{f.parent.name}/{f.stem}" for f in (ROOT / "papers").glob("*/scenario*.toml")
    }
    assert papers <= ids


@pytest.mark.parametrize("name", list(gallery()))
def test_both_ends_of_every_slider_are_scenarios(name: str):
    values = dict(gallery()[name].set)
    scenario = scenario_of({"item": name, "set": values}, Path())
    for one in parameters(scenario):
        for toml in ends(one):
            scenario_of({"item": name, "set": {**values, one["key"]: toml}}, Path())


def ends(one: dict) -> list[str]:
    """The TOML of the least and the largest value, or of every choice."""
    if "choices" in one:
        return list(one["choices"].values())
    assert one["min"] <= one["value"] <= one["max"], one
    return [one["toml"].replace("%", f"{one['factor'] * one[end]:.12g}") for end in ("min", "max")]


def test_a_slider_shows_what_it_has_set(client: TestClient):
    ask = {"item": "examples/two_links", "set": {}}
    before = client.post("/api/check", json=ask).json()["parameters"]
    for one in before:
        if "choices" in one:
            continue
        value = one["min"] + (one["max"] - one["min"]) / 2
        value = round(value) if one["step"] == 1 else value
        changed = {one["key"]: one["toml"].replace("%", f"{one['factor'] * value:.12g}")}
        after = client.post("/api/check", json={**ask, "set": changed}).json()["parameters"]
        (shown,) = [
            new for new in after if (new["key"], new["label"]) == (one["key"], one["label"])
        ]
        assert shown["value"] == pytest.approx(value, abs=1e-6)


def test_the_text_with_its_changes_is_the_same_scenario(client: TestClient):
    changes = {"links.left.rate_mbps": "25", 'flows."on the left".count': "2"}
    ask = {"item": "examples/two_links", "set": changes}
    found = client.post("/api/check", json=ask).json()
    again = client.post("/api/check", json={"toml": found["text"], "set": {}}).json()
    assert again["parameters"] == found["parameters"]
    assert again["topology"] == found["topology"]


def test_two_rules_of_a_scenario_whose_flows_have_their_own_are_one_run(client: TestClient):
    ask = {"toml": OWN, "set": {}, "rules": ["lia", "olia"], "seed": 1, "on": "sim"}
    plan = client.post("/api/run", json=ask).text.splitlines()[0]
    assert '"runs":[{"rule":"own"}]' in plan


OWN = """
[measure]
duration_s = 2
[links.a]
rate_mbps = 5
delay_ms = 10
[[flows]]
name = "user"
algorithm = "reno"
paths = [["a"]]
"""
