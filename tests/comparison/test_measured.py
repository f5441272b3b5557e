"""A measured goodput beside computed ones: the interval of one more run, and what files say."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import anabranch
from anabranch.comparison.gain import gains, over_single_paths
from anabranch.comparison.measured import Measured, beside, from_files, given, measurements
from anabranch.scenario import ScenarioError
from conftest import Anabranch

PARTS = """
algorithm = "reno"
seeds = [1]
measure = { duration_s = 30, warmup_s = 5 }
links.L = { rate_mbps = 10, delay_ms = 10 }

[[flows]]
name = "late"
paths = [["L"]]
start_s = 20
start_spread_s = 0

[[flows]]
name = "file"
paths = [["L"]]
workload.file = { bytes = 2e6 }

[[flows]]
name = "on and off"
paths = [["L"]]
start_spread_s = 0
workload.on_off = { on_s = 2, off_s = 3 }
"""

QUICKLY = ["--format", "latex", "-q"]
"""Figures take most of the time."""


@pytest.fixture
def result(small: Path) -> anabranch.Result:
    """Two seeds with 4 and 6 Mbps: mean 5, standard deviation sqrt(2)."""
    result = anabranch.run(small, "lia", seeds=2)
    two = result.flows["seed"].map({1: 4.0, 2: 6.0})
    return replace(result, flows=result.flows.assign(goodput_mbps=two))


def test_a_measurement_is_inside_where_95_percent_of_runs_are(result: anabranch.Result) -> None:
    # One more run is within t(0.975, 1) sqrt(2) sqrt(1 + 1/2) = 12.706 * 1.732 = 22.0 of the mean.
    (row,) = beside(result, {"one": Measured((26.9,))}).to_dict(orient="records")
    assert (row["low"], row["high"]) == pytest.approx((0, 5 + 22.01), abs=0.01)
    assert row["verdict"] == "inside"
    (row,) = beside(result, {"one": Measured((27.1,))}).to_dict(orient="records")
    assert row["verdict"] == "outside, 5.42 times"


def test_without_seeds_there_is_no_interval(small: Path) -> None:
    result = anabranch.run(small, "lia", on="equilibrium")
    goodput = result.summary().set_index("flow")["goodput_mbps"]["one"]
    (row,) = beside(result, {"one": Measured((0.9 * goodput,))}).to_dict(orient="records")
    assert row["verdict"] == "-10.0 %"


def test_several_measurements_have_a_spread_of_their_own(result: anabranch.Result) -> None:
    # Measured 8, 10, 12: mean 10, s = 2, and t(0.975, 2) 2 / sqrt(3) = 4.303 * 1.1547 = 4.97.
    # The difference is 5. Variances of the means: 4/3 and 1. Welch: freedom (7/3)^2 /
    # ((4/3)^2 / 2 + 1) = 5.444 / 1.889 = 2.88, t = 3.26, half the interval 3.26 sqrt(7/3) = 4.98.
    (row,) = beside(result, {"one": Measured((8.0, 10.0, 12.0))}).to_dict(orient="records")
    assert (row["measured"], row["measurements"]) == (10, 3)
    assert row["measured_ci95"] == pytest.approx(4.97, abs=0.01)
    assert row["verdict"] == "outside, +100.0 %"
    (row,) = beside(result, {"one": Measured((7.9, 9.9, 11.9))}).to_dict(orient="records")
    assert row["verdict"] == "inside"  # 4.9 of 4.98


def test_a_transfer_is_compared_with_its_own_rate_and_others_with_the_time_they_send(
    tmp_path: Path,
) -> None:
    file = tmp_path / "parts.toml"
    file.write_text(PARTS)
    result = anabranch.run(file)
    flows = {name: Measured((1.0,)) for name in ("late", "file", "on and off")}
    found = beside(result, flows).set_index("flow")
    whole = result.flows.set_index("flow")["goodput_mbps"]
    done = result.transfers.iloc[0]
    assert found["computed"]["file"] == pytest.approx(2e6 * 8e-6 / done["duration_s"])
    # From 20 to 30 of 5 to 30 s: 2.5 times the mean over the window.
    assert found["computed"]["late"] == pytest.approx(2.5 * whole["late"])
    # On from 5 to 7, 10 to 12, ... 25 to 27: 10 of 25 s.
    assert found["computed"]["on and off"] == pytest.approx(2.5 * whole["on and off"])
    assert list(found["quantity"]) == [
        "Mbps while it sends",
        "Mbps of a transfer",
        "Mbps while it sends",
    ]


def test_several_files_of_a_flow_are_several_measurements(small: Path, tmp_path: Path) -> None:
    scenario = anabranch.Scenario.load(small)
    for name, rate in ("a", 3e6), ("b", 5e6):
        stream = {"bytes": rate, "seconds": 8, "bits_per_second": rate, "sender": True}
        end = {"streams": [{"sender": stream, "receiver": stream}]}
        (tmp_path / name).write_text(json.dumps({"start": {"version": "iperf 3.12"}, "end": end}))
    said: list[str] = []
    files = [f"one={tmp_path / name}" for name in "ab"]
    found = measurements(["one=4"], files, scenario, said.append)
    assert found == {"one": Measured((3.0, 5.0, 4.0))}
    assert said[0] == f"{tmp_path / 'a'}: iperf3 3.12: 1 connection: 3 Mbps"
    with pytest.raises(ScenarioError, match="no connection #2: #1 client to server"):
        measurements([], [f"{files[0]}#2"], scenario)


def test_a_file_needs_the_name_of_its_flow_where_there_are_several(small: Path) -> None:
    scenario = anabranch.Scenario.load(small)
    with pytest.raises(ScenarioError, match=r"of which flow.*FLOW=ss\.txt, with one of two, one"):
        from_files(["ss.txt"], scenario)
    with pytest.raises(ScenarioError, match="unknown flow 'on': expected one of two, one"):
        given(["on=3"], scenario)
    assert given(["one=3"], scenario) == [("one", Measured((3.0,)))]


def test_run_prints_backends_side_by_side_with_the_measurement(
    small: Path, tmp_path: Path, anabranch: Anabranch
) -> None:
    out = tmp_path / "out"
    done = anabranch(
        "run", small, "--on", "sim,equilibrium", "--measured", "one=900", "--out", out, *QUICKLY
    )
    assert done.returncode == 0
    assert "lia on sim" in done.stdout
    assert "lia on equilibrium" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("one, Mbps")]
    assert [row[2] for row in rows] == ["sim", "equilibrium"]
    assert "outside," in rows[0]
    assert "outside," not in rows[1]  # computed, so that there is no interval
    assert (out / "sim" / "flows.tex").is_file()
    assert {file.name for file in out.iterdir()} == {"sim", "equilibrium"}
    again = anabranch("run", out / "equilibrium", "-q")
    assert "Identical to" in again.stdout


ALONE = """\
seeds = [1]
algorithm = "reno"
measure = { duration_s = 20, warmup_s = 5 }
links.slow = { rate_mbps = 4, delay_ms = 10 }
links.fast = { rate_mbps = 12, delay_ms = 10 }
[[flows]]
name = "user"
paths = [["slow"], ["fast"]]
"""


def test_two_clean_paths_give_their_sum_over_the_faster_one(tmp_path: Path) -> None:
    file = tmp_path / "alone.toml"
    file.write_text(ALONE)
    result = anabranch.run(file)
    single = over_single_paths(result.scenario, None, "sim", None)
    (row,) = gains(result, single).to_dict(orient="records")
    assert row["best_path"] == "fast"
    # Both links are full: (4 + 12) / 12.
    assert row["gain"] == pytest.approx(16 / 12, rel=0.01)


def test_compare_prints_and_documents_the_gain(small: Path, anabranch: Anabranch) -> None:
    done = anabranch("compare", small, "-a", "lia,olia", "--gain", "-q")
    assert "two, over R1 alone" in done.stdout
    assert anabranch("compare", small, "-a", "lia,olia", "-q").stdout.count("alone") == 0
