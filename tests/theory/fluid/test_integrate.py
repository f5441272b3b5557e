"""The backend `fluid`: it fills the simulator's tables and tends to the equilibrium."""

import subprocess
import sys
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

import anabranch
from anabranch.scenario import Scenario, ScenarioError
from anabranch.theory.fluid.equilibrium import equilibrium
from anabranch.theory.network import Network
from conftest import CLI, LONG, SMALL, interrupt

STEADY = """
algorithm = "{algorithm}"
seeds = [1, 2]
[measure]
duration_s = 300
warmup_s = 250
[tcp]
header_bytes = 0
[links.A]
rate_mbps = 12
delay_ms = 20
queue.red = {{ min_packets = 20, mid_packets = 60, max_packets = 120, mid_probability = 0.02 }}
[links.B]
rate_mbps = 6
delay_ms = 5
queue.drop_tail = {{ packets = 50 }}
[[flows]]
name = "two"
paths = [["A"], ["B"]]
[[flows]]
name = "one"
count = 2
paths = [["B"]]
algorithm = "reno"
"""


def run(text: str, on: str = "fluid", algorithm: str | None = None) -> anabranch.Result:
    return anabranch.run(Scenario.parse(text), algorithm, on=on)


@pytest.mark.parametrize("algorithm", ["lia", "vegas"])
def test_tables_have_the_columns_types_and_rows_of_the_simulator(algorithm: str) -> None:
    text = SMALL.replace("seeds = [1, 2]", "seeds = [1]") + (
        '[[flows]]\nname = "file"\npaths = [["R1"]]\nworkload.file = { bytes = 200000 }\n'
    )
    packets, fluid = run(text, "sim", algorithm), run(text, "fluid", algorithm)
    assert fluid.backend == "fluid"
    for name, table in packets.tables().items():
        other = fluid.tables()[name]
        assert list(other.columns) == list(table.columns), name
        assert other.dtypes.to_dict() == table.dtypes.to_dict(), name
        assert len(other) == len(table), name


@pytest.mark.parametrize(
    "algorithm",
    [
        "lia",
        "olia",
        *(
            pytest.param(r, marks=pytest.mark.slow)
            for r in ("reno", "semicoupled", "balia", "rsf-lb")
        ),
    ],
)
def test_integration_tends_to_the_equilibrium(algorithm: str) -> None:
    text = STEADY.format(algorithm=algorithm)
    result = run(text)
    found = equilibrium(Network.of(Scenario.parse(text)))
    assert result.paths["goodput_mbps"].to_numpy() == pytest.approx(found.goodput_mbps, rel=5e-3)
    assert result.paths["window_packets"].to_numpy() == pytest.approx(found.window, rel=5e-3)
    assert result.links["queue_packets"].to_numpy() == pytest.approx(found.waiting, rel=5e-3)
    assert result.links["loss_probability"].to_numpy() == pytest.approx(found.loss, rel=1e-2)


def test_seeds_have_no_effect_and_one_is_run() -> None:
    assert run(STEADY.format(algorithm="reno").replace("300", "20").replace("250", "5")).seeds == [
        1
    ]


def test_sent_is_delivered_plus_lost_and_goodput_is_delivered() -> None:
    result = run(STEADY.format(algorithm="lia"))
    paths = result.paths
    arrived = paths["delivered_bytes"] / 1500
    assert (paths["sent_packets"] - paths["lost_overflow"] - paths["lost_red"]).to_numpy() == (
        pytest.approx(arrived.to_numpy(), abs=2)
    )
    assert paths["goodput_mbps"].to_numpy() == pytest.approx(
        (paths["delivered_bytes"] * 8e-6 / 50).to_numpy(), rel=1e-6
    )
    assert result.links["utilization"].to_numpy() == pytest.approx([1.0, 1.0], rel=1e-3)


def test_a_file_ends_when_its_bytes_are_delivered() -> None:
    # 3e6 bytes over 6 Mbps take 4 s, and slow start a bit more.
    text = """
    algorithm = "reno"
    seeds = [1]
    [measure]
    duration_s = 20
    [tcp]
    header_bytes = 0
    [links.L]
    rate_mbps = 6
    delay_ms = 5
    queue.drop_tail = { packets = 200 }
    [[flows]]
    name = "f"
    paths = [["L"]]
    start_s = 2
    workload.file = { bytes = 3e6 }
    """
    result = run(text)
    (duration,) = result.transfers["duration_s"]
    assert 4.0 < duration < 4.3
    (flow,) = result.flows.to_dict(orient="records")
    assert flow["delivered_bytes"] == pytest.approx(3e6, rel=1e-3)
    assert flow["transfers_done"] == 1
    assert flow["stop_s"] == pytest.approx(2 + duration)


def test_paths_do_not_send_in_an_outage_a_pause_and_after_their_stop() -> None:
    text = """
    algorithm = "lia"
    seeds = [1]
    [measure]
    duration_s = 40
    sample_ms = 1000
    [links.A]
    rate_mbps = 12
    delay_ms = 10
    down = [{ from_s = 10, to_s = 15 }]
    [links.B]
    rate_mbps = 12
    delay_ms = 10
    [[flows]]
    name = "two"
    paths = [["A"], ["B"]]
    stop_s = 30
    [[flows]]
    name = "video"
    paths = [["B"]]
    workload.on_off = { on_s = 2, off_s = 3 }
    """
    samples = run(text).path_samples.set_index(["flow", "path", "time_s"])["goodput_mbps"]
    on_a, video = samples["two"][0], samples["video"][0]
    assert (on_a.loc[12:15] == 0).all()
    assert (on_a.loc[20:30] > 5).all()
    assert (on_a.loc[32:] == 0).all()
    assert video.loc[8] == 0
    assert video.loc[7] > 0.5
    # Nothing else is on B from 30 s on.
    assert samples["two"][1].loc[32:].eq(0).all()


def test_slow_start_doubles_windows_and_ends_with_the_first_loss() -> None:
    text = STEADY.format(algorithm="reno").replace("duration_s = 300", "duration_s = 20")
    text = text.replace("warmup_s = 250", "sample_ms = 50")
    samples = run(text).path_samples
    window = samples[(samples["flow"] == "two") & (samples["path"] == 0)].set_index("time_s")
    # 10 packets at first, doubled every 41 ms while the queue is empty.
    assert window["window_packets"][0.05] == pytest.approx(
        10 * 2 ** (0.05 / 0.041 / np.log(2)), rel=0.5
    )
    assert window["window_packets"].max() > 60
    assert window["window_packets"].loc[10:].max() < 80


def test_rules_and_workloads_without_a_fluid_model_are_errors() -> None:
    size = "size.exponential = { mean_bytes = 1e5 }"
    web = SMALL + f"workload.poisson = {{ rate_per_s = 1, {size} }}\n"
    with pytest.raises(ScenarioError, match="flow one: workload poisson has no fluid model"):
        run(web)
    with pytest.raises(ScenarioError, match="cubic has no fluid model"):
        run(SMALL.replace('"reno"', '"cubic"'))


@pytest.mark.parametrize("backend", ["fluid", "equilibrium"])
@pytest.mark.parametrize(
    ("set_to", "message"),
    [
        ({"links.R1.queue.codel": "{}"}, "links.R1.queue: codel is not available in the equations"),
        ({"links.R1.queue.pie": "{}"}, "links.R1.queue: pie is not available in the equations"),
        ({"tcp.ecn": "true"}, "tcp.ecn: ECN is not available in the equations"),
    ],
)
def test_queues_without_equations_are_errors(
    backend: Literal["fluid", "equilibrium"], set_to: dict[str, str], message: str
) -> None:
    with pytest.raises(ScenarioError, match=message):
        anabranch.run(Scenario.parse(SMALL, set=list(set_to.items())), on=backend)


def test_a_rule_in_python_has_no_derivatives() -> None:
    class Mine(anabranch.Rule):
        def increase(self, r, paths):
            return 0.1

        def decrease(self, r, paths):
            return 1.0

    with pytest.raises(ScenarioError, match="Mine is written in Python"):
        anabranch.run(Scenario.parse(SMALL), Mine(), on="fluid")


def test_the_command_line_runs_it_and_names_the_backends(small: Path, anabranch: object) -> None:
    compared = anabranch("compare", small, "-a", "reno,lia", "--on", "fluid")  # type: ignore[operator]
    assert compared.returncode == 0, compared.stderr
    assert "reno" in compared.stdout
    wrong = anabranch("run", small, "--on", "water")  # type: ignore[operator]
    assert wrong.returncode == 2
    known = "sim, fluid, equilibrium, quic, kernel"
    expected = f"anabranch: unknown backend 'water': expected one of {known}"
    assert wrong.stderr.strip() == expected


def test_ctrl_c_stops_an_integration(tmp_path: Path) -> None:
    file, out = tmp_path / "long.toml", tmp_path / "out"
    file.write_text(
        LONG.replace(
            'paths = [["R2"]]', 'paths = [["R2"]]\nworkload.on_off = { on_s = 1, off_s = 1 }'
        ).replace("duration_s = 1e6", "duration_s = 1e4")
    )
    code, _, stderr = interrupt(
        [*CLI, "run", file, "--on", "fluid", "--out", out],
        begun=lambda: any(tmp_path.glob(".anabranch-*")),
    )
    assert code == 130, stderr
    assert not out.exists()


def test_the_command_starts_without_scipys_solvers() -> None:
    code = "import sys, anabranch.cli.main; print('scipy.integrate' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


def test_theory_equilibrium_prints_a_line_per_path_and_link(small: Path, anabranch: object) -> None:
    found = anabranch("theory", "equilibrium", small, "-a", "balia")  # type: ignore[operator]
    assert found.returncode == 0, found.stderr
    assert "balia" in found.stdout
    assert "R2" in found.stdout
    endless = anabranch("theory", "equilibrium", small, "-a", "cubic")  # type: ignore[operator]
    assert endless.returncode == 2
    warning, error = endless.stderr.splitlines()
    assert "link R1 is drop-tail" in warning
    assert error.startswith("anabranch: cubic has no fluid model")


def test_a_path_resumes_with_half_its_window() -> None:
    text = STEADY.format(algorithm="reno").replace("duration_s = 300", "duration_s = 12")
    text = text.replace("warmup_s = 250", "sample_ms = 10") + (
        '[[flows]]\nname = "video"\npaths = [["A"]]\nworkload.on_off = { on_s = 5, off_s = 5 }\n'
    )
    samples = run(text).path_samples
    window = samples[samples["flow"] == "video"].set_index("time_s")["window_packets"]
    assert window.loc[4.99:5.0].iloc[0] > 10
    assert window.loc[10.01:].iloc[0] == pytest.approx(window.loc[4.99:5.0].iloc[0] / 2, rel=0.1)


def test_vegas_may_start_late_and_stop_early() -> None:
    text = STEADY.format(algorithm="vegas").replace("duration_s = 300", "duration_s = 20")
    text = text.replace("warmup_s = 250", "sample_ms = 1000")
    text = text.replace('name = "two"', 'name = "two"\nstart_s = 5\nstop_s = 15')
    text = text.replace('name = "one"', 'name = "one"\nstart_s = 3')
    samples = run(text).path_samples
    goodput = samples[samples["path"] == 0].groupby(["flow", "time_s"])["goodput_mbps"].sum()
    assert goodput["two"].loc[:5].eq(0).all()
    assert goodput["two"].loc[10:15].to_numpy() == pytest.approx([12.0] * 6, rel=0.02)
    assert goodput["two"].loc[16:].eq(0).all()
    assert goodput["one"].loc[:3].eq(0).all()


def test_wvegas_does_not_count_a_path_in_an_outage() -> None:
    """Two equal paths keep 5 of 10 packets in each queue; one whose sibling is down, all 10."""
    text = """
    algorithm = "wvegas"
    seeds = [1]
    measure = { duration_s = 90, sample_ms = 1000 }
    links.A = { rate_mbps = 12, delay_ms = 20, down = [{ from_s = 30, to_s = 60 }] }
    links.B = { rate_mbps = 12, delay_ms = 20 }
    flows = [{ name = "two", paths = [["A"], ["B"]] }]
    """
    samples = run(text).link_samples.set_index(["link", "time_s"])["queue_packets"].loc["B"]
    for stretch, expected in [((20, 29), 5), ((50, 59), 10), ((80, 89), 5)]:
        assert samples.loc[slice(*stretch)].mean() == pytest.approx(expected, abs=1), stretch
