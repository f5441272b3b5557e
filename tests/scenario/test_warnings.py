"""Scenarios that are probably not meant: a warning each, on stderr and in the JSON document."""

import json
from pathlib import Path

import jsonschema
import pytest

import anabranch
from anabranch.result.schema import result_schema
from conftest import SMALL, Anabranch

ONE = 'name = "one"\n'

CASES = {
    "a flow that starts after the end": ("start_s = 6", "flows[1].start_s: flow"),
    "a flow that stops in the warm-up": ("stop_s = 2", "flows[1].stop_s: flow"),
    # 10 packets of 1448 bytes take less than 0.1 s.
    "a file that ends in the warm-up": ("workload.file.bytes = 14480", "flow one: its last file"),
    # R2 carries 10 Mbps: 800 Mbps of payload are 80 x 1500 / 1448 = 82.9 times that.
    "an offered load of 80 times the link": (
        "workload.poisson = { rate_per_s = 100, size.exponential.mean_bytes = 1e6 }",
        "links.R2: files arrive at 828.729 Mbps, 82.873 times the 10 Mbps of the link",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_makes_no_sense_is_one_warning(case: str, small: Path, anabranch: Anabranch) -> None:
    key, expected = CASES[case]
    small.write_text(SMALL.replace(ONE, f"{ONE}{key}\n"))
    done = anabranch("run", small, "--json")
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    (warning,) = json.loads(done.stdout)["warnings"]
    assert done.stderr == f"anabranch: warning: {warning}\n"
    assert warning.startswith(f"{small}: {expected}")


def test_a_file_that_ends_after_the_warm_up_is_no_warning(small: Path) -> None:
    # 5 MB over at most 10 Mbps take more than 4 s.
    small.write_text(SMALL.replace(ONE, f"{ONE}workload.file.bytes = 5e6\n"))
    result = anabranch_run(small)
    assert result.warnings == []
    assert result.as_dict()["warnings"] == []


def anabranch_run(file: Path) -> anabranch.Result:
    return anabranch.run(file, ["lia", "olia"], seeds=2)


def test_the_times_of_files_are_in_tables_and_json(small: Path, anabranch: Anabranch) -> None:
    poisson = "workload.poisson = { rate_per_s = 9, size.exponential.mean_bytes = 2e4 }\n"
    small.write_text(SMALL.replace(ONE, ONE + poisson))
    result = anabranch_run(small)
    files = result.transfers[result.transfers["start_s"] >= 2]
    of_lia = files[files["algorithm"] == "lia"].groupby("seed")["duration_s"]
    row = result.transfer_summary().iloc[0]
    assert (row["algorithm"], row["flow"]) == ("lia", "one")
    assert row["transfers"] == of_lia.count().mean()
    assert row["mean_s"] == pytest.approx(of_lia.mean().mean())
    assert row["median_s"] == pytest.approx(of_lia.median().mean())
    assert row["p95_s"] == pytest.approx(of_lia.quantile(0.95).mean())
    document = result.as_dict()
    assert [row["algorithm"] for row in document["transfers"]] == ["lia", "olia"]
    jsonschema.validate(document, result_schema())
    printed = anabranch("run", small).stdout
    assert "mean time (s)   median (s)" in printed
    assert printed.splitlines()[-1].split()[:2] == ["lia", "one"]
    assert "one, mean time of a file, s" in anabranch("compare", small, "-a", "lia,olia").stdout


def test_a_run_without_files_has_no_table_of_times(small: Path, anabranch: Anabranch) -> None:
    assert anabranch_run(small).transfer_summary().empty
    assert "median" not in anabranch("run", small).stdout
