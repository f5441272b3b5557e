"""The backend `equilibrium`: the simulator's tables, of an equilibrium."""

import json
import math
from pathlib import Path

import pytest

import anabranch
from anabranch._core import Cancelled
from anabranch.quantities import measure
from anabranch.scenario import Scenario, ScenarioError
from anabranch.theory.fluid import backend
from anabranch.theory.fluid.backend import EquilibriumRun
from anabranch.theory.fluid.equilibrium import Equilibrium, equilibrium
from anabranch.theory.network import Network
from conftest import SMALL, Anabranch

LOSSY = """
algorithm = "reno"
[measure]
duration_s = 100
[tcp]
header_bytes = 0
[links.L]
rate_mbps = 120
delay_ms = 20
loss.bernoulli = { probability = 0.0005 }
[[flows]]
name = "f"
count = 2
paths = [["L"]]
start_spread_s = 5
workload.file = { bytes = 4_000_000 }
"""

QUEUED = LOSSY.replace("loss.bernoulli = { probability = 0.0005 }", "").replace("120", "12")

ENDLESS = """
algorithm = "reno"
[measure]
duration_s = 10
[links.L]
rate_mbps = 1e6
delay_ms = 500
[[flows]]
name = "f"
paths = [["L"]]
"""
"""83 million packets per RTT: more than the largest window, so that nothing is ever lost."""


def run(text: str, algorithm: str | None = None) -> anabranch.Result:
    return anabranch.run(Scenario.parse(text), algorithm, on="equilibrium")


def found_of(text: str, algorithm: str | None = None) -> Equilibrium:
    return equilibrium(Network.of(Scenario.parse(text), algorithm))


@pytest.mark.parametrize("algorithm", ["lia", "olia", "vegas"])
def test_tables_contain_the_equilibrium(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = QUEUED if algorithm == "vegas" else SMALL
    found = found_of(text, algorithm)
    if algorithm == "vegas":  # a search takes seconds
        monkeypatch.setattr(backend, "equilibrium", lambda *_, **__: found)
    result = run(text, algorithm)
    assert result.backend == "equilibrium"
    paths, links = result.paths, result.links
    assert paths["goodput_mbps"].to_numpy() == pytest.approx(found.goodput_mbps)
    assert paths["window_packets"].to_numpy() == pytest.approx(found.window)
    assert paths["rtt_ms"].to_numpy() == pytest.approx(1e3 * found.rtt)
    assert paths["loss_probability"].to_numpy() == pytest.approx(found.path_loss)
    assert links["loss_probability"].to_numpy() == pytest.approx(found.loss)
    assert links["queue_packets"].to_numpy() == pytest.approx(found.waiting)
    # Nothing moves, so that each sample is as the whole.
    assert result.path_samples.groupby(["flow", "user", "path"])["goodput_mbps"].std().max() < 1e-9


def test_tables_have_the_columns_and_rows_of_the_simulator() -> None:
    packets = anabranch.run(Scenario.parse(LOSSY), seeds=[1])
    found = run(LOSSY).tables()
    for name, table in packets.tables().items():
        assert list(found[name].columns) == list(table.columns), name
        assert len(found[name]) == len(table), name


def test_the_duration_of_a_file_is_its_size_over_its_user_s_rate() -> None:
    # phi = (1/w)/(w/2) = p = 0.0005: w = sqrt(2/p) = 63.2456 packets in 40.1 ms, of which 1 - p
    # arrive: 1576.41 packets/s of 12 kbit, 18.9169 Mbps.
    result = run(LOSSY)
    assert measure("user_goodput_mbps", result, flow="f") == pytest.approx(18.9169, rel=1e-5)
    assert measure("transfer_mbps", result, flow="f") == pytest.approx(18.9169, rel=1e-5)
    assert result.transfers["bytes"].tolist() == [4_000_000] * 2
    assert measure("link_loss_probability", result, link="L") == pytest.approx(0.0005)


def test_values_that_an_equilibrium_lacks_are_nan() -> None:
    result = run(LOSSY)
    assert math.isnan(measure("transfers_done", result, flow="f"))
    assert math.isnan(measure("user_timeouts", result, flow="f"))


@pytest.mark.parametrize(
    "changed",
    [
        SMALL + "stop_s = 4\n",
        SMALL + "start_s = 3\n",
        SMALL.replace('"R1"], ["R2"]', '"R1"], { links = ["R2"], start_s = 5 }'),
        SMALL.replace("delay_ms = 10\n\n", "delay_ms = 10\ndown = [{ from_s = 3, to_s = 4 }]\n\n"),
        SMALL + "stop_s = 1\n",
    ],
)
def test_a_change_after_the_warm_up_is_an_error(changed: str) -> None:
    with pytest.raises(ScenarioError, match=r"^small: flows, paths or links come or go after"):
        run(changed)


def test_flows_that_start_in_the_warm_up_are_present() -> None:
    late = run(SMALL + "start_s = 1\n").flows["goodput_mbps"].to_numpy()
    assert late == pytest.approx(run(SMALL).flows["goodput_mbps"].to_numpy())


def test_a_flow_that_pauses_has_no_equilibrium() -> None:
    with pytest.raises(ScenarioError, match="workload 'on_off' has no optimum and no equilibrium"):
        run(SMALL + "workload.on_off = { on_s = 1, off_s = 1 }\n")


def test_an_equilibrium_that_is_not_found_names_the_residual(
    tmp_path: Path, anabranch: Anabranch
) -> None:
    file = tmp_path / "endless.toml"
    file.write_text(ENDLESS)
    done = anabranch("run", file, "--on", "equilibrium")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("anabranch: no equilibrium found: residual ")
    assert "path 0 of f meets no loss" in done.stderr


def test_theory_equilibrium_takes_values_as_run_does(small: Path, anabranch: Anabranch) -> None:
    setting = "links.R1.rate_mbps=30"
    found = json.loads(anabranch("theory", "equilibrium", small, "--set", setting, "--json").stdout)
    wide = found_of(SMALL.replace("rate_mbps = 10", "rate_mbps = 30", 1))
    assert found["users"] == wide.as_dict()["users"]
    assert found["users"] != found_of(SMALL).as_dict()["users"]


@pytest.mark.parametrize("algorithm", ["reno", "vegas"])
def test_a_search_can_be_cancelled(algorithm: str) -> None:
    search = EquilibriumRun(Scenario.parse(ENDLESS), algorithm, 1)
    search.cancel()
    with pytest.raises(Cancelled):
        search.execute()


@pytest.mark.parametrize("backend", ["fluid", "equilibrium"])
def test_a_way_back_over_links_is_refused(backend: str) -> None:
    text = """
    algorithm = "lia"
    measure.duration_s = 4
    links.A = { rate_mbps = 2, delay_ms = 10, queue.red = {} }
    links.B = { rate_mbps = 2, delay_ms = 10, queue.red = {} }
    flows = [{ name = "f", paths = [["B"], { links = ["A"], back = ["B"] }] }]
    """
    refused = rf"flows.f.paths: a way back over links \(back\) is not available on {backend}; run"
    with pytest.raises(ScenarioError, match=refused):
        anabranch.run(Scenario.parse(text), on=backend)
