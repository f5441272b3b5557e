"""The command line: what it prints, where, and how it exits."""

import json
import os
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from anabranch import runner
from anabranch.cli import main
from anabranch.cli.main import app
from anabranch.result import Result
from conftest import SMALL, Anabranch

WRONG_CALLS = {
    "no file": (["run"], "FILE"),
    "a missing file": (["run", "nowhere.toml"], "nowhere.toml: file not found"),
    "a directory": (["run", "{tmp}"], "expected a scenario file, or a directory that --out"),
    "a directory to compare": (["compare", "{tmp}", "-a", "lia"], "file, got a directory"),
    "an unknown command": (["fly"], "fly"),
    "an algorithm that is not text": (["run", "{small}", "--algorithm", "\udcff"], "can't encode"),
    "an unknown option": (["run", "{small}", "--fast"], "--fast"),
    "no seeds": (["run", "{small}", "--seeds", "0"], "--seeds"),
    "seeds in words": (
        ["run", "{small}", "--seeds", "abc"],
        "expected N for the seeds 1 to N, or a list as in 3,7",
    ),
    "an empty seed": (["run", "{small}", "--seeds", "1,,2"], "or a list as in 3,7; got '1,,2'"),
    "an unknown algorithm": (["run", "{small}", "--algorithm", "lia,olla"], 'algorithm "olla"'),
    "no algorithm": (["run", "{small}", "-a", ""], "empty name in --algorithm ''"),
    "an empty algorithm": (
        ["run", "{small}", "-a", "lia,,olia"],
        "empty name in --algorithm 'lia,,olia'",
    ),
    "an unknown parameter": (["run", "{small}", "--algorithm", "lia:x=1"], '"x"'),
    "an unknown backend": (["run", "{small}", "--on", "paper"], "backend 'paper'"),
    "a setting without value": (["run", "{small}", "--set", "seeds"], "expected KEY=VALUE"),
    "a setting of an unknown key": (["run", "{small}", "--set", "links.R9.delay_ms=1"], "links.R9"),
    "a negative rate": (["run", "{small}", "--set", "links.R1.rate_mbps=-3"], "rate_mbps"),
    "a rate in words": (
        ["run", "{small}", "--set", "links.R1.rate_mbps=fast"],
        '--set links.R1.rate_mbps=fast: expected a number, got "fast"',
    ),
    "a setting of a paper": (["theory", "fixed-points", "olia", "--set", "seeds=1"], "--set seeds"),
    "an output that is a file": (["run", "{small}", "--out", "{small}"], "small.toml"),
    "an output below a file": (
        ["run", "{small}", "--out", "{small}/x"],
        "small.toml: expected a directory to write to, got a file",
    ),
    "an output without a name": (["run", "{small}", "--out", ""], "'--out': expected a directory"),
    "an output that has files": (
        ["run", "{small}", "--out", "{tmp}"],
        "the directory is not empty; choose another one, or replace files in it with --force",
    ),
    "jobs in words": (["run", "{small}", "--jobs", "many"], "'--jobs': expected an integer"),
    "zero runs at a time": (["compare", "{small}", "-a", "lia", "--jobs", "0"], "--jobs"),
    "no algorithm to compare": (["compare", "{small}"], "--algorithm"),
    "an unknown paper": (["reproduce", "naughty"], "naughty"),
}


@pytest.mark.parametrize("case", WRONG_CALLS)
def test_a_user_error_is_one_line_on_stderr_and_exit_code_2(
    case: str, small: Path, tmp_path: Path, anabranch: Anabranch
) -> None:
    arguments, expected = WRONG_CALLS[case]
    names = {"small": small, "tmp": tmp_path}
    before = sorted(tmp_path.rglob("*"))
    done = anabranch(*(argument.format(**names) for argument in arguments))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("anabranch: ")
    assert done.stderr.count("\n") == 1
    assert expected in done.stderr
    assert "Input should" not in done.stderr
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "code"),
    [
        pytest.param(["run", "{small}", "--json"], 0, marks=pytest.mark.slow),
        (["run", "nowhere.toml"], 2),
    ],
    ids=str,
)
def test_a_process_prints_and_exits_as_the_command_line_does_in_the_tests(
    words: list[str], code: int, small: Path, anabranch: Anabranch, process: Anabranch
) -> None:
    arguments = [word.format(small=small) for word in words]
    done, here = process(*arguments), anabranch(*arguments)
    assert done.returncode == here.returncode == code
    assert (done.stdout, done.stderr) == (here.stdout, here.stderr)


def test_a_fault_of_the_scenario_names_file_line_and_key(
    tmp_path: Path, anabranch: Anabranch
) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(SMALL.replace('paths = [["R2"]]', 'paths = [["R3"]]'))
    done = anabranch("run", file)
    line = 1 + SMALL[: SMALL.index('paths = [["R2"]]')].count("\n")
    assert f"{file}:{line}: flows[1].paths" in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.returncode == 2


def test_run_prints_a_line_per_flow_and_link(small: Path, anabranch: Anabranch) -> None:
    done = anabranch("run", small)
    assert done.returncode == 0
    assert done.stderr == ""
    lines = [line.split()[:2] for line in done.stdout.splitlines()]
    rows = [line for line in lines if line and line[0] in ("lia", "reno")]
    assert rows == [["lia", "two"], ["reno", "one"], ["lia", "R1"], ["lia", "R2"]]


def test_compare_prints_a_column_per_algorithm(small: Path, anabranch: Anabranch) -> None:
    done = anabranch("compare", small, "--algorithm", "max,olia", "--seeds", 2)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert any(line.split() == ["lia", "olia"] for line in lines)
    (jain,) = [line for line in lines if "Jain's index over users" in line]
    assert jain.count("±") == 2


def test_json_is_one_document_with_all_rows_and_no_nan(small: Path, anabranch: Anabranch) -> None:
    done = anabranch("run", small, "--algorithm", "lia,reno", "--seeds", 1, "--json")

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    result = json.loads(done.stdout, parse_constant=refuse)
    assert done.stderr == ""
    assert result["scenario"]["name"] == "small"
    assert result["algorithms"] == ["lia", "reno"]
    assert result["seeds"] == [1]
    assert [(row["algorithm"], row["flow"]) for row in result["flows"]] == [
        ("lia", "two"),
        ("lia", "one"),
        ("reno", "two"),
        ("reno", "one"),
    ]
    assert [row["link"] for row in result["links"]] == ["R1", "R2", "R1", "R2"]
    assert {row["goodput_mbps_ci95"] for row in result["flows"]} == {None}  # one seed


def test_set_replaces_values_of_the_scenario(small: Path, anabranch: Anabranch) -> None:
    settings = ["--set", "links.R1.rate_mbps=1", "--set", "name=slow"]
    done = anabranch("run", small, *settings, "--json")
    result = json.loads(done.stdout)
    assert result["scenario"]["name"] == "slow"
    assert max(r["throughput_mbps"] for r in result["links"] if r["link"] == "R1") <= 1.01


def test_out_holds_tables_figures_and_the_scenario(
    small: Path, tmp_path: Path, anabranch: Anabranch
) -> None:
    out = tmp_path / "deep" / "out"
    done = anabranch("run", small, "--out", out, "--set", "seeds=[7]")
    assert (done.returncode, done.stderr) == (0, f"Tables and figures are in {out}\n")
    tables = ["flows", "paths", "links", "transfers", "flow_samples", "path_samples"]
    figures = ["goodput", "windows", "queues"]
    expected = [f"{table}.parquet" for table in [*tables, "link_samples"]]
    expected += [f"{figure}.{kind}" for figure in figures for kind in ("png", "svg")]
    assert sorted(os.listdir(out)) == sorted(
        [*expected, "manifest.json", "original.toml", "scenario.toml"]
    )
    again = anabranch("run", out / "scenario.toml", "--json")
    assert json.loads(again.stdout)["seeds"] == [7]


@pytest.mark.parametrize(
    "command",
    [
        ["run", "{small}"],
        ["compare", "{small}", "-a", "lia"],
        ["reproduce", "olia"],
        ["reproduce", "all"],
        ["agree", "olia"],
        ["theory", "packets"],
        ["theory", "map"],
        ["theory", "wvegas"],
        ["theory", "queueing"],
        ["theory", "rent"],
    ],
)
def test_every_command_refuses_an_output_that_has_files(
    command: list[str], small: Path, tmp_path: Path
) -> None:
    arguments = [argument.format(small=small) for argument in command]
    with pytest.raises(FileExistsError, match="not empty"):
        app([*arguments, "--out", str(tmp_path)], standalone_mode=False)
    assert list(tmp_path.iterdir()) == [small]


@pytest.mark.usefixtures("no_figures")
def test_force_replaces_files_and_keeps_others(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plot = ["run", str(small), "--plot", "--seeds"]
    app([*plot, "1"], standalone_mode=False)
    (tmp_path / "results" / "notes").write_text("kept")
    with pytest.raises(FileExistsError, match="results: the directory is not empty"):
        app([*plot, "2"], standalone_mode=False)
    app([*plot, "2", "--force"], standalone_mode=False)
    assert len(Result.load("results").flows) == 2 * 3
    assert (tmp_path / "results" / "notes").read_text() == "kept"


def test_list_names_every_algorithm_with_ranges_and_choices(anabranch: Anabranch) -> None:
    done = anabranch("list")
    assert done.returncode == 0
    printed = done.stdout
    assert {"reno", "lia,", "olia"} <= {
        line.split()[0] for line in printed.split("\n") if line.strip()
    }
    assert "cap = 1.5 (1 to inf)" in printed
    assert "d_s = 0.1 s (0.0001 to 100)" in printed
    assert "drain = 1 (0 or 1)" in printed


def test_the_schema_accepts_a_scenario_and_refuses_an_unknown_key(anabranch: Anabranch) -> None:
    schema = json.loads(anabranch("schema").stdout)
    scenario = tomllib.loads(SMALL)
    jsonschema.validate(scenario, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**scenario, "flavour": "vanilla"}, schema)


def test_jobs_are_the_runs_at_a_time(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int | None] = []

    def execute(runs: Sequence[Any], threads: int, progress: Any) -> Iterator[Any]:
        asked.append(threads)
        return (run.execute() for run in runs)

    monkeypatch.setattr(runner, "_execute", execute)
    for command in ("run", "compare"):
        app([command, str(small), "-a", "lia,olia", "--jobs", "3"], standalone_mode=False)
    assert asked == [3, 3]


def test_a_run_warns_once_where_no_file_is_as_large_as_the_distribution_says(
    small: Path, anabranch: Anabranch
) -> None:
    # In a Pareto tail of shape 1.05 the part (largest / smallest)^-0.05 of the load is beyond the
    # largest file; with a mean of 1 GB that is far more than 1 %.
    size = "size.pareto = { mean_bytes = 1e9, shape = 1.05 }"
    poisson = f'name = "one"\nworkload.poisson = {{ rate_per_s = 0.001, {size} }}'
    small.write_text(small.read_text().replace('name = "one"', poisson))
    done = anabranch("run", small)
    assert done.returncode == 0
    assert done.stderr.count("warning") == 1
    assert "flows[1].workload.poisson.size.pareto: the mean size is" in done.stderr


def test_ctrl_c_while_an_extension_module_is_imported_is_no_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def importing(**_: object) -> None:
        raise ImportError("initialization failed") from KeyboardInterrupt()

    monkeypatch.setattr(main, "app", importing)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert (ended.value.code, capsys.readouterr().err) == (130, "anabranch: interrupted\n")


# ---------------------------------------------------------------- trace
def test_a_trace_is_converted_and_says_what_it_lacks(tmp_path: Path, anabranch: Anabranch) -> None:
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("1,250000\n2,125000\n")
    done = anabranch("trace", "convert", source, target, "--from", "multipath-wireless")
    assert done.returncode == 0
    assert target.read_text() == "time_s,rate_mbps\n0.0,2.0\n1.0,1.0\n"
    assert "It lacks delay_ms, loss: the keys of the link say them." in done.stderr
    scenario = tmp_path / "one.toml"
    scenario.write_text(
        'algorithm = "reno"\nmeasure.duration_s = 2\n'
        'links.a = { trace_file = "out.csv", delay_ms = 5 }\n'
        'flows = [{ name = "u", paths = [["a"]] }]\n'
    )
    assert anabranch("run", scenario).returncode == 0

    again = anabranch("trace", "convert", source, target, "--from", "multipath-wireless")
    assert (again.returncode, "give another name, or --force" in again.stderr) == (2, True)
    options = ["--from", "csv", "--to", "mahimahi", "--force"]
    assert anabranch("trace", "convert", target, target, *options).returncode == 0
    # 2 Mbps are an opportunity every 6 ms, 1 Mbps one every 12 ms.
    assert len(target.read_text().split()) == 166 + 84


def test_a_fault_names_the_file_and_the_line(tmp_path: Path, anabranch: Anabranch) -> None:
    source = tmp_path / "in.csv"
    source.write_text("1,250000\nx\n")
    done = anabranch("trace", "convert", source, tmp_path / "o", "--from", "multipath-wireless")
    assert done.returncode == 2
    assert done.stderr.startswith(f"anabranch: {source}: line 2: expected a second and bytes")
    assert not (tmp_path / "o").exists()


def test_formats_are_listed(anabranch: Anabranch) -> None:
    assert "satellite-vs-cellular" in anabranch("trace", "formats").stdout
