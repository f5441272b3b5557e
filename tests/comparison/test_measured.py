"""A measured goodput beside computed ones: the interval of one more run, and what files say."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import anabranch
from anabranch.comparison.measured import Measured, beside, from_files, given, read
from anabranch.scenario import ScenarioError
from conftest import Anabranch

IPERF = {
    "start": {"test_start": {"protocol": "TCP", "num_streams": 2}},
    "end": {
        "streams": [{"sender": {"mean_rtt": 20_000}}, {"sender": {"mean_rtt": 40_000}}],
        "sum_sent": {"bits_per_second": 99e6},
        "sum_received": {"bits_per_second": 24e6},
    },
}

QUICKLY = ["--format", "latex", "-q"]
"""Figures take most of the time."""

IDLE = "\t cubic rtt:0.026/0.014 bytes_acked:165 lastsnd:1508 app_limited minrtt:0.008"
SS = """\
State Recv-Q Send-Q Local Address:Port  Peer Address:Port
ESTAB 0      0          10.0.0.1:38580    10.0.0.2:5201
{idle}
ESTAB 0      131072     10.0.0.1:38596    10.0.0.2:5201
\t cubic {ulp}rtt:20/4 mss:1448 bytes_sent:3000000 bytes_acked:2500000 busy:2000ms unacked:3
ESTAB 0      262038     10.0.0.3:38610    10.0.0.2:5201
\t cubic {ulp}rtt:40.5/3 mss:1448 bytes_acked:7500000 busy:2000ms rwnd_limited:80ms(4.0%)
"""


def test_a_measurement_is_inside_where_95_percent_of_runs_are(small: Path) -> None:
    result = anabranch.run(small, "lia", seeds=2)
    # Seeds with 4 and 6 Mbps: mean 5, standard deviation sqrt(2), and one more run is within
    # t(0.975, 1) sqrt(2) sqrt(1 + 1/2) = 12.706 * 1.732 = 22.0 of it.
    two = result.flows["seed"].map({1: 4.0, 2: 6.0})
    result = replace(result, flows=result.flows.assign(goodput_mbps=two))
    (row,) = beside(result, {"one": Measured(26.9)}).to_dict(orient="records")
    assert (row["low"], row["high"]) == pytest.approx((0, 5 + 22.01), abs=0.01)
    assert row["verdict"] == "inside"
    (row,) = beside(result, {"one": Measured(27.1)}).to_dict(orient="records")
    assert row["verdict"] == "outside, 5.42 times"


def test_without_seeds_there_is_no_interval(small: Path) -> None:
    result = anabranch.run(small, "lia", on="equilibrium")
    goodput = result.summary().set_index("flow")["goodput_mbps"]["one"]
    (row,) = beside(result, {"one": Measured(0.9 * goodput)}).to_dict(orient="records")
    assert row["verdict"] == "-10.0 %"


def test_iperf3_has_what_the_receiver_got_per_stream(tmp_path: Path) -> None:
    file = tmp_path / "iperf.json"
    file.write_text(json.dumps(IPERF))
    assert read(file) == Measured(12.0, 30.0)
    file.write_text(json.dumps({"error": "unable to connect"}))
    with pytest.raises(ScenarioError, match=r"iperf\.json: iperf3 failed: unable to connect"):
        read(file)


@pytest.mark.parametrize(("ulp", "goodput"), [("", 20.0), ("tcp-ulp-mptcp flags:Mm ", 40.0)])
def test_ss_has_acknowledged_bytes_over_busy_time(ulp: str, goodput: float, tmp_path: Path) -> None:
    file = tmp_path / "ss.txt"
    file.write_text(SS.format(idle=IDLE, ulp=ulp))
    # 2.5 MB and 7.5 MB in 2 s are 10 and 30 Mbps: their mean, or the sum of two subflows.
    # The idle connection has no time busy. RTTs of 20 and 40.5 ms weigh 1 to 3.
    assert read(file) == Measured(goodput, pytest.approx(35.375))
    file.write_text(IDLE)
    with pytest.raises(ScenarioError, match="no connection with bytes_acked and busy"):
        read(file)


def test_a_file_needs_the_name_of_its_flow_where_there_are_several(small: Path) -> None:
    scenario = anabranch.Scenario.load(small)
    with pytest.raises(ScenarioError, match=r"of which flow.*FLOW=ss\.txt, with one of two, one"):
        from_files(["ss.txt"], scenario)
    with pytest.raises(ScenarioError, match="unknown flow 'on': expected one of two, one"):
        given(["on=3"], scenario)
    assert given(["one=3"], scenario) == {"one": Measured(3.0)}


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
