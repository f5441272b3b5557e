"""Runs of the page: their events, their limits, and that they end with who began them."""

import asyncio
import threading
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import anabranch
from anabranch._core import Run, Scenario
from anabranch.extras.ui import live
from anabranch.extras.ui.asked import Asked
from extras.ui.conftest import ENDLESS, Server, events, read_until

EXAMPLES = Path(__file__).parents[3] / "examples"
SHORT = {"measure.duration_s": "12", "measure.warmup_s": "4"}
ASK = {"item": "examples/two_links", "set": SHORT, "rules": ["lia", "olia"], "seed": 3, "on": "sim"}


def test_the_page_gets_what_run_gives(client: TestClient):
    found = events(client.post("/api/run", json=ASK))
    results = {event["run"]: event["totals"] for event in found if event["type"] == "result"}
    values = {key: float(value) for key, value in SHORT.items()}
    result = anabranch.run(EXAMPLES / "two_links.toml", ["lia", "olia"], [3], set=values)
    for number, rule in enumerate(["lia", "olia"]):
        flows = result.flows[result.flows["algorithm"] == rule]
        means = flows.groupby("flow", sort=False)["goodput_mbps"].mean()
        assert [row["goodput_mbps"] for row in results[number]["flows"]] == pytest.approx(means)
        assert results[number]["total_mbps"] == pytest.approx(flows["goodput_mbps"].sum())
        links = result.links[result.links["algorithm"] == rule]
        utilization = [row["utilization"] for row in results[number]["links"]]
        assert utilization == pytest.approx(list(links["utilization"]))
    assert found[0]["type"] == "plan"
    assert [run["rule"] for run in found[0]["runs"]] == ["lia", "olia"]
    assert found[-1] == {"type": "done"}


def test_the_optimum_and_the_equilibrium_of_both_rules_come_with_them(client: TestClient):
    found = events(client.post("/api/run", json=ASK))
    (best,) = [event for event in found if event["type"] == "optimum"]
    # 20 Mbps for 11 users, of which 1448 of 1500 bytes are payload.
    assert best["goodput_mbps"] == pytest.approx([20 / 11 * 1448 / 1500] * 3, rel=1e-3)
    equilibria = {e["run"]: e["goodput_mbps"] for e in found if e["type"] == "equilibrium"}
    assert equilibria.keys() == {0, 1}
    for rates in equilibria.values():
        assert rates[0] + 5 * rates[1] + 5 * rates[2] == pytest.approx(20 * 1448 / 1500, rel=0.02)


@pytest.mark.parametrize("on", ["fluid", "equilibrium", "quic"])
def test_other_backends_give_the_same_events(client: TestClient, on: str):
    ask = {**ASK, "item": "examples/two_against_one", "rules": ["lia"], "on": on}
    found = events(client.post("/api/run", json=ask))
    (result,) = [event for event in found if event["type"] == "result"]
    assert result["totals"]["total_mbps"] == pytest.approx(19.2, rel=0.1)
    points = [e for e in found if e["type"] in ("samples", "result")]
    assert len([time for event in points for time in event.get("time", [])]) > 10


def test_samples_of_a_run_and_those_of_its_end_are_those_of_its_tables():
    """`samples` gives the beginning of the tables, in pieces, while a run computes."""
    values = [("measure.sample_ms", "20"), ("measure.duration_s", "40")]
    scenario = Scenario.load(EXAMPLES / "two_links.toml", values)
    run = Run(scenario, None, 1)
    run.samples()
    parts, done = [], []
    thread = threading.Thread(target=lambda: done.append(run.execute()))
    thread.start()
    while thread.is_alive():
        if part := run.samples():
            parts.append(part)
        time.sleep(0.005)
    (tables,) = done
    for name, columns in {
        "flow_samples": ["time_s", "user", "goodput_mbps"],
        "path_samples": ["time_s", "path", "window_packets"],
        "link_samples": ["time_s", "queue_packets"],
    }.items():
        for column in columns:
            given = [value for part in parts for value in part[name][column].tolist()]
            whole = tables[name][column].tolist()
            assert repr(given) == repr(whole[: len(given)])
    assert len(parts) > 1
    assert {len(part["flows"]["user"]) for part in parts} == {0}


def test_a_run_gives_samples_only_to_who_asked():
    run = Run(Scenario.load(EXAMPLES / "two_against_one.toml"), None, 1)
    run.execute()
    assert run.samples() is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rules": ["lja"]}, "did you mean"),
        ({"rules": []}, "rules: expected a list"),
        ({"rules": ["lia", "olia", "balia"]}, "rules: expected a list"),
        ({"seed": -1}, "seed: expected a whole number"),
        ({"seed": True}, "seed: expected a whole number"),
        ({"on": "kernel"}, "on: expected one of sim, fluid, equilibrium, quic"),
        ({"item": "examples/none"}, "unknown item"),
        ({"set": {"links.left.rate_mbps": 3}}, "set: expected an object of keys to TOML"),
        ({"set": {"links.middle.rate_mbps": "3"}}, 'unknown link "middle"'),
        ({"item": None}, "expected toml or item"),
    ],
)
def test_a_wrong_request_is_one_clear_error(client: TestClient, change: dict, message: str):
    answer = client.post("/api/run", json={**ASK, **change})
    if answer.status_code == 200:
        texts = [event["message"] for event in events(answer) if event["type"] == "error"]
    else:
        assert answer.status_code == 422
        texts = [answer.json()["error"]["message"]]
    assert message in texts[0]
    assert str(EXAMPLES.parent) not in texts[0]


def test_an_error_in_the_text_names_its_line(client: TestClient):
    text = "[measure]\nduration_s = 10\n\n[links.a]\nrate = 3\n"
    error = client.post("/api/check", json={"toml": text}).json()["error"]
    assert error["line"] == 5
    assert error["message"].startswith("links.a.rate: unknown key")


def test_a_run_that_fails_says_why_and_the_other_one_goes_on(client: TestClient):
    ask = {**ASK, "item": "examples/gateways", "set": {"measure.duration_s": "20"}}
    found = events(client.post("/api/run", json={**ask, "rules": ["vegas:kappa=10", "lia"]}))
    assert [e["run"] for e in found if e["type"] == "result"] == [0]
    (error,) = [event for event in found if event["type"] == "error"]
    assert error["message"].startswith("scenario.toml: --algorithm lia: expected a flow that runs")


def test_a_run_ends_when_its_page_leaves(server: Server):
    connection, answer = server.begin(ENDLESS)
    assert read_until(answer, "samples")["progress"] < 1
    assert server.jobs() > 0
    answer.close()
    connection.close()
    server.wait_for_no_jobs()


def test_other_runs_wait_and_begin_when_a_worker_is_free(server: Server):
    first, first_answer = server.begin(ENDLESS)
    read_until(first_answer, "samples")
    second, second_answer = server.begin({**ENDLESS, "set": {"measure.duration_s": "21"}})
    assert read_until(second_answer, "queued")["jobs"] > 0
    first_answer.close()
    first.close()
    assert read_until(second_answer, "result")["totals"]["total_mbps"] > 0
    second.close()
    server.wait_for_no_jobs()


def test_too_many_runs_are_refused(client: TestClient, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("anabranch.extras.ui.live.MOST_JOBS", 0)
    answer = client.post("/api/run", json=ASK)
    assert answer.status_code == 503
    assert "waiting" in answer.json()["error"]["message"]


def test_a_server_that_ends_begins_no_more_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two events, when the optimum and the references would begin."""
    monkeypatch.setattr(live, "REST_S", 0)
    scenario = Scenario.load("examples/two_links.toml", list(ENDLESS["set"].items()))

    async def read() -> list[str]:
        pool, found = live.Pool(1), []
        async for event in live.events(Asked(scenario, ["lia"], 1, "sim"), pool):
            found.append(event["type"])
            if event["type"] == "samples":
                pool.close()
        return found

    assert asyncio.run(read())[-1] == "done"
