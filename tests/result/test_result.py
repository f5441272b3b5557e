"""A Result: its summaries, on data made by hand, its tables in files and other processes."""

import copy
import math
import multiprocessing
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pandas as pd
import pytest

import anabranch
from anabranch.cli import comparison, tables
from conftest import SMALL, assert_identical


def made_by_hand(goodputs: dict[int, list[float]]) -> anabranch.Result:
    """One flow of two users with one path each; per seed the goodput of each user, Mbps."""
    flows, paths, links = [], [], []
    for seed, users in goodputs.items():
        keys = {"algorithm": "lia", "seed": seed}
        for user, goodput in enumerate(users):
            sent = 100 * (user + 1)
            row = {**keys, "flow": "f", "user": user, "sent_packets": sent}
            flows.append({**row, "rule": "lia", "goodput_mbps": goodput, "lost_packets": 3})
            measured = {"goodput_mbps": goodput, "lost_random": 0, "rtt_ms": 40.0 + 30.0 * user}
            paths.append({**row, "path": 0, **measured})
        total = sum(users)
        link = {"rate_mbps": 2 * total, "throughput_mbps": total, "utilization": 0.5}
        link["loss_probability"] = 0.1
        links.append({**keys, "link": "R", **link, "queue_packets": math.nan})
    tables = {"flows": flows, "paths": paths, "links": links}
    for empty in ("transfers", "flow_samples", "path_samples", "link_samples"):
        tables[empty] = []
    return anabranch.Result(
        scenario=anabranch.Scenario.parse(SMALL),
        backend="sim",
        keys=("algorithm", "seed"),
        **{name: pd.DataFrame(rows) for name, rows in tables.items()},
    )


def test_summary_has_means_over_users_and_intervals_over_seeds() -> None:
    result = made_by_hand({1: [1.0, 3.0], 2: [2.0, 4.0], 3: [3.0, 5.0]})
    (row,) = result.summary().to_dict(orient="records")
    assert (row["algorithm"], row["flow"], row["users"]) == ("lia", "f", 2)
    # The seeds' means are 2, 3, 4: mean 3, standard deviation 1; t(0.975, 2) = 4.30265.
    assert row["goodput_mbps"] == 3.0
    assert row["goodput_mbps_ci95"] == pytest.approx(4.30265 / math.sqrt(3), rel=1e-5)
    # 6 lost of 300 sent, in every seed.
    assert row["loss_probability"] == pytest.approx(0.02)
    assert row["loss_probability_ci95"] == pytest.approx(0.0, abs=1e-12)
    # 40 ms over 100 packets, 70 ms over 200.
    assert row["rtt_ms"] == pytest.approx(60.0)


def test_runs_that_were_too_late_are_marked_in_tables(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = {"algorithm": "lia", "seed": [1, 2], "p99_us": [80.0, 30_016.0]}
    lateness = pd.DataFrame(runs).assign(too_late=[False, True])
    result = replace(made_by_hand({1: [1.0, 3.0], 2: [2.0, 4.0]}), lateness=lateness)
    for write in (tables.run, lambda one: comparison.comparison([one])):
        write(result)
        printed = capsys.readouterr().out
        assert "lia (late)" in printed
        assert printed.count("late: lia, seed 2: packets were delivered up to 30.0 ms late") == 1
        assert "seed 1" not in printed


def test_totals_have_jains_index_over_users() -> None:
    (row,) = made_by_hand({1: [1.0, 3.0]}).totals().to_dict(orient="records")
    assert row["total_goodput_mbps"] == 4.0
    assert row["jain_index"] == pytest.approx(16.0 / 20.0)  # (1 + 3)^2 / (2 (1 + 9))
    assert math.isnan(row["jain_index_ci95"])  # one seed has no interval


def test_jains_index_is_one_for_equal_rates_and_one_nth_if_one_user_has_all() -> None:
    assert anabranch.jain_index([2.0, 2.0, 2.0]) == pytest.approx(1.0)
    assert anabranch.jain_index([5.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert math.isnan(anabranch.jain_index([0.0, 0.0]))


def test_a_value_that_was_not_measured_is_none_in_json() -> None:
    (link,) = made_by_hand({1: [1.0, 3.0]}).as_dict()["links"]
    assert link["throughput_mbps"] == 4.0
    assert link["queue_packets"] is None


def test_parquet_files_hold_the_tables(small: Path, tmp_path: Path) -> None:
    result = anabranch.run(small, ["lia", "olia"], seeds=2)
    result.save(tmp_path / "out")
    for name, table in result.tables().items():
        saved = pd.read_parquet(tmp_path / "out" / f"{name}.parquet")
        pd.testing.assert_frame_equal(saved, table, check_exact=True, obj=name)
    text = (tmp_path / "out" / "scenario.toml").read_text()
    assert anabranch.Scenario.parse(text).text == result.scenario.text


def assert_equal(one: anabranch.Result, other: anabranch.Result) -> None:
    """Whether tables, their types and all else are equal."""
    assert_identical(one, other)
    for name in ("backend", "keys", "algorithms", "seeds", "failures", "rules_in_python"):
        assert getattr(one, name) == getattr(other, name)
    assert (one.lateness is None) == (other.lateness is None)
    assert one.scenario.text == other.scenario.text


def test_a_result_is_read_as_it_was_saved(small: Path, tmp_path: Path) -> None:
    result = anabranch.run(small, ["lia", "olia"], seeds=2, set={"links.R1.rate_mbps": 7})
    result.save(tmp_path / "out")
    assert_equal(result, anabranch.Result.load(tmp_path / "out"))
    lateness = pd.DataFrame({"algorithm": ["lia"], "seed": [1], "p99_us": [80.0]})
    late = replace(result, backend="kernel", lateness=lateness, failures={"bbr": "not there"})
    late.save(tmp_path / "late")
    read = anabranch.Result.load(tmp_path / "late")
    assert_equal(late, read)
    pd.testing.assert_frame_equal(read.lateness, lateness)


def test_save_does_not_overwrite_unless_forced(small: Path, tmp_path: Path) -> None:
    result = anabranch.run(small, seeds=1)
    (tmp_path / "out").mkdir()
    result.save(tmp_path / "out")  # empty
    with pytest.raises(FileExistsError, match=r"out: the directory is not empty; .*force=True"):
        result.save(tmp_path / "out")
    anabranch.run(small, seeds=2).save(tmp_path / "out", force=True)
    assert anabranch.Result.load(tmp_path / "out").seeds == [1, 2]


def test_results_and_scenarios_can_be_copied_and_pickled(tmp_path: Path) -> None:
    (tmp_path / "lte.trace").write_text("1\n2\n")
    file = tmp_path / "traced.toml"
    file.write_text(SMALL.replace("rate_mbps = 10", 'trace_file = "lte.trace"', 1))
    scenario = anabranch.load(file, {"links.R2.rate_mbps": 7}).with_algorithm("balia:cap=inf")
    result = anabranch.run(scenario, seeds=2)
    stored = pickle.dumps((scenario, result))
    for path in (file, tmp_path / "lte.trace"):
        path.unlink()  # as on another machine
    for again, result_again in (copy.copy((scenario, result)), pickle.loads(stored)):
        assert (again.text, again.inputs) == (scenario.text, scenario.inputs)
        assert (again.original, again.set) == (scenario.original, scenario.set)
        assert_equal(result, result_again)
        assert_equal(result, anabranch.run(again, seeds=2))
    assert copy.deepcopy(scenario).text == copy.copy(scenario).text == scenario.text
    assert_equal(result, copy.deepcopy(result))


def test_a_result_is_returned_from_another_process(small: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    scenario = anabranch.load(small)
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        result = pool.submit(anabranch.run, scenario, "olia", 1).result()
        wrong = pool.submit(anabranch.run, scenario, "ollia", 1)
        with pytest.raises(anabranch.ScenarioError, match="unknown algorithm"):
            wrong.result()
    assert_equal(result, anabranch.run(small, "olia", 1))


@pytest.mark.parametrize("backend", ["sim", "fluid", "equilibrium"])
def test_an_empty_table_has_the_types_of_a_full_one(backend: str, small: Path) -> None:
    assert len(anabranch.run(small, seeds=1).transfers) == 0
    empty = anabranch.run(small, seeds=1, on=backend).transfers
    sized = {"flows.one.workload.file.bytes": 100_000}
    full = anabranch.run(small, seeds=1, set=sized).transfers
    assert len(full) == 1
    assert empty.dtypes.to_dict() == full.dtypes.to_dict()


def test_a_run_without_transfers_does_not_change_the_types_of_the_others(small: Path) -> None:
    small.write_text(SMALL.replace('name = "one"', 'name = "one"\nworkload.file.bytes = 100_000'))
    grid = {"flows.one.start_s": [0, 5.99]}
    transfers = anabranch.sweep(small, grid, seeds=1).transfers
    assert list(transfers["flows.one.start_s"]) == [0]
    assert transfers["seed"].dtype == transfers["bytes"].dtype == "int64"
    assert transfers["flows.one.start_s"].dtype == "float64"


@pytest.mark.parametrize("columns", [80, 60])
def test_the_summary_shows_goodput_in_a_narrow_terminal(columns: int, small: Path) -> None:
    result = anabranch.run(small, ["lia", "olia"], seeds=2)
    with pd.option_context("display.max_columns", 0, "display.width", columns):
        header = repr(result.summary()).splitlines()[0].split()
    assert "..." in header
    assert {"flow", "goodput_mbps"} <= {*header}


def test_what_a_result_and_a_scenario_print_is_short(small: Path) -> None:
    result = anabranch.run(small, ["lia", "olia"], seeds=2)
    assert repr(result) == '<Result "small" on sim: algorithms lia, olia; seeds 1, 2>'
    assert repr(result.scenario) == '<Scenario "small": 2 links, 2 flows, lia, 6 s>'
    many = made_by_hand({seed: [1.0] for seed in range(1, 21)})
    assert repr(many) == '<Result "small" on sim: algorithms lia; 20 seeds>'


def test_notebooks_show_the_summaries(small: Path) -> None:
    scenario = anabranch.load(small, {"name": "<small>"})
    page = anabranch.run(scenario, seeds=1)._repr_html_()
    assert "&lt;small&gt;" in page
    assert "<small>" not in page
    assert page.count("<table") == 2
    assert "goodput_mbps" in page
    assert "utilization" in page


def test_a_result_draws_its_figures(small: Path) -> None:
    result = anabranch.run(small, ["lia", "olia"], seeds=1)
    assert len(result.plot().axes) == 1
    assert len(result.plot("queues").axes) == 2 * 2
    with pytest.raises(ValueError, match="unknown figure 'nothing': expected one of goodput, win"):
        result.plot("nothing")


def test_matplotlib_is_not_loaded_before_it_draws(small: Path) -> None:
    code = (
        f"import sys, anabranch; result = anabranch.run({str(small)!r}, seeds=1); "
        "assert 'matplotlib' not in sys.modules; result.plot('windows')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_version_is_that_of_the_package() -> None:
    assert anabranch.__version__ == metadata.version("anabranch")


def test_a_run_without_chance_is_called_deterministic() -> None:
    short = {"measure.duration_s": 10, "measure.warmup_s": 2}
    result = anabranch.run("examples/two_links.toml", "reno", 2, set=short)
    assert not result.is_deterministic()
    # One user, who starts at 0 because that is written, and a queue that drops nothing at random.
    one = {
        **short,
        "flows": [{"name": "one", "paths": [["left"]], "start_spread_s": 0}],
        "links.left.queue": {"drop_tail": {"packets": 50}},
    }
    assert anabranch.run("examples/two_links.toml", "reno", 2, set=one).is_deterministic()
