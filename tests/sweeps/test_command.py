"""`anabranch sweep` as a command."""

import json
from pathlib import Path

import jsonschema
import pandas as pd
import pytest

import anabranch as package
from anabranch.result.schema import result_schema
from conftest import CLI, SMALL, Anabranch, interrupt

RATES = "--over=links.R1.rate_mbps=5,10"


def test_the_table_has_a_row_per_case_and_the_store_the_rest(
    anabranch: Anabranch, small: Path, tmp_path: Path
) -> None:
    out = tmp_path / "store"
    done = anabranch("sweep", small, RATES, "-a", "lia,olia", "--seeds", 2, "--out", out)
    assert done.returncode == 0, done.stderr
    assert [line.split()[:2] for line in done.stdout.splitlines()[2:]] == [
        ["5", "lia"],
        ["5", "olia"],
        ["10", "lia"],
        ["10", "olia"],
    ]
    assert f"Points and tables are in {out}" in done.stderr
    expected = package.sweep(small, {"links.R1.rate_mbps": [5, 10]}, ["lia", "olia"], seeds=2)
    pd.testing.assert_frame_equal(pd.read_parquet(out / "flows.parquet"), expected.flows)
    printed = anabranch("sweep", "status", out).stdout.split()
    assert printed[:4] == ["points", "8", "done", "8"]
    removed = anabranch("sweep", "gc", out, "--dry-run").stdout
    assert removed == f"{out}: would remove 0 entries and 0 leftovers, 0 B\n"


def test_json_follows_the_schema_of_results(anabranch: Anabranch, small: Path) -> None:
    arguments = ["--over=links.R1.rate_mbps=lin(5,10)", "--sample=4", "--method=sobol", "--json"]
    document = json.loads(anabranch("sweep", "run", small, *arguments).stdout)
    jsonschema.validate(document, result_schema())
    assert len(document["totals"]) == 4


def test_a_threshold_is_printed_with_its_bracket(anabranch: Anabranch, small: Path) -> None:
    over = "--over=links.R1.rate_mbps=lin(4,20)"
    arguments = ["sweep", small, over, "--until", "total_goodput_mbps >= 17", "--halvings=3"]
    done = anabranch(*arguments)
    assert done.returncode == 0, done.stderr
    assert "the metric is assumed to be monotone" in done.stdout
    (row,) = json.loads(anabranch(*arguments, "--json").stdout)["thresholds"]
    assert row["width"] == 2


def test_failed_points_give_their_reason_and_exit_code_1(
    anabranch: Anabranch, small: Path, tmp_path: Path
) -> None:
    poisson = (
        "{ poisson = { rate_per_s = 1, size = { pareto = { mean_bytes = 1e5, shape = 1.5 } } } }"
    )
    over = f"--over=flows.one.workload=bulk,{poisson}"
    out = tmp_path / "store"
    done = anabranch("sweep", small, over, "--on", "fluid", "--out", out)
    assert done.returncode == 1
    assert f"failed: flows.one.workload={poisson}, lia, seed 1: " in done.stdout
    assert done.stderr.endswith("anabranch: 1 failed\n")
    found = json.loads(anabranch("sweep", "status", out, "--json").stdout)
    assert (found["done"], found["failed"]) == (1, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "a sweep needs a key to vary, as in links.R1.rate_mbps=5,10,20"),
        (["--over", "links.R1.rate_mbps"], "expected KEY=VALUES"),
        (["--over=a=1", "--over=a=2"], "--over a: given twice"),
        (["--over=links.R1.rate_mbps=lin(1,2)"], "give the number of values as in lin(1,2,10)"),
        (["--over=links.R9.rate_mbps=1"], "links.R9"),
        ([RATES, "--sample=4"], "samples need an interval"),
        ([RATES, "--until=jain_index<1", "--sample=4"], "--until has neither"),
        ([RATES, "--until=jain_index<1"], "a threshold needs one key with an interval"),
        ([RATES, "--on=nosuch"], "unknown backend"),
        ([RATES, "--out="], "empty name"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, anabranch: Anabranch, small: Path
) -> None:
    done = anabranch("sweep", small, *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_help_has_the_options_of_the_sweep_itself(anabranch: Anabranch) -> None:
    printed = anabranch("sweep", "--help").stdout
    assert "--over" in printed
    assert "sweep status" in printed


def test_ctrl_c_stops_at_once_and_the_sweep_resumes(anabranch: Anabranch, tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    out = tmp_path / "store"
    # The last point takes eleven days, so it is under way when the others are done.
    over = "--over=measure.duration_s=6,7,8,1e6"
    command = [*CLI, "sweep", file, over, "--set=measure.sample_ms=1000", "--out", out]
    command.append("--quiet")  # a busy machine takes more than 2 s, and would print progress
    code, stdout, stderr = interrupt(command, lambda: len(list(out.glob("points/*/*.zip"))) == 6)
    resume = f"{out} has the points that are done; run the same command to resume"
    assert (code, stdout, stderr) == (130, "", f"anabranch: interrupted: {resume}\n")
    found = json.loads(anabranch("sweep", "status", out, "--json").stdout)
    assert (found["done"], found["missing"], found["leftovers"]) == (6, 2, 0)
