"""Running scenarios from Python: determinism, seeds, sweeps, errors, cancelling."""

import subprocess
import sys
import threading
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch
from anabranch import _core, runner
from anabranch.intervals import paired_difference
from anabranch.scenario import Toml, toml_value
from conftest import SMALL, assert_identical


def test_the_same_seed_gives_identical_tables_with_one_thread_or_several(small: Path) -> None:
    runs = [anabranch.run(small, ["lia", "olia"], seeds=3, jobs=jobs) for jobs in (1, 4, 4)]
    assert_identical(runs[0], runs[1])
    assert_identical(runs[1], runs[2])


def test_the_same_seed_gives_identical_tables_in_another_process(
    small: Path, tmp_path: Path
) -> None:
    code = (
        f"import anabranch; anabranch.run({str(small)!r}, seeds=2).save({str(tmp_path / 'out')!r})"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert_identical(anabranch.run(small, seeds=2), anabranch.Result.load(tmp_path / "out"))


def test_another_seed_gives_another_run(small: Path) -> None:
    samples = anabranch.run(small, seeds=2).path_samples
    first, second = (samples[samples["seed"] == seed].reset_index() for seed in (1, 2))
    assert not first["window_packets"].equals(second["window_packets"])


def test_seeds_are_the_scenarios_or_counted_or_listed(small: Path) -> None:
    assert anabranch.run(small).seeds == [1, 2]
    assert anabranch.run(small, seeds=3).seeds == [1, 2, 3]
    assert anabranch.run(small, seeds=[9, 4]).seeds == [9, 4]


def test_tables_lead_with_algorithm_and_seed_and_name_flows_and_links(small: Path) -> None:
    result = anabranch.run(small, "max", seeds=[5])  # max is another name of lia
    for table in result.tables().values():
        assert list(table.columns[:2]) == ["algorithm", "seed"]
    assert list(result.flows["flow"]) == ["two", "two", "one"]
    assert list(result.flows["rule"]) == ["lia", "lia", "reno"]
    assert list(result.links["link"]) == ["R1", "R2"]
    assert result.algorithms == ["lia"]


def test_rows_are_in_the_requested_order_whichever_run_ends_first(small: Path) -> None:
    flows = anabranch.run(small, ["olia", "lia"], seeds=[9, 4], jobs=4).flows
    order = flows[["algorithm", "seed"]].drop_duplicates().to_numpy().tolist()
    assert order == [["olia", 9], ["olia", 4], ["lia", 9], ["lia", 4]]


def test_a_scenario_may_come_as_text() -> None:
    scenario = anabranch.Scenario.parse(SMALL)
    assert (scenario.name, scenario.flow_names, scenario.link_names) == (
        "small",
        ["two", "one"],
        ["R1", "R2"],
    )
    assert anabranch.run(scenario, seeds=1).flows["goodput_mbps"].gt(0).all()


def test_overrides_are_seen_by_the_run(small: Path) -> None:
    result = anabranch.run(small, seeds=1, set={"links.R1.rate_mbps": 2.5})
    assert list(result.links["rate_mbps"]) == [2.5, 10.0]


def test_overrides_may_be_toml_text(small: Path) -> None:
    overrides = {"seeds": Toml("[3]"), "name": Toml("bare"), "description": "[3]"}
    scenario = anabranch.load(small, overrides)
    assert (scenario.seeds, scenario.name, scenario.description) == ([3], "bare", "[3]")


def test_a_sweep_runs_every_combination_and_leads_with_its_columns(small: Path) -> None:
    grid = {"links.R1.rate_mbps": [5, 10], "links.R2.delay_ms": [1, 20]}
    result = anabranch.sweep(small, grid, ["lia", "olia"], seeds=1)
    assert result.keys == (*grid, "algorithm", "seed")
    points = result.links[[*grid, "algorithm"]].drop_duplicates().to_numpy().tolist()
    assert points == [[r, d, a] for r in (5, 10) for d in (1, 20) for a in ("lia", "olia")]
    rates = result.links[result.links["link"] == "R1"]
    assert (rates["rate_mbps"] == rates["links.R1.rate_mbps"]).all()
    assert len(result.summary()) == 2 * 2 * 2 * 2  # grid, algorithms, flows


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"algorithm": "nosuch"}, "unknown algorithm"),
        ({"algorithm": []}, "no algorithm"),
        ({"algorithm": 7}, "algorithm 7: expected a name or an object"),
        ({"seeds": 0}, "at least one seed"),
        ({"seeds": [-1]}, "none below 0"),
        ({"jobs": 0}, "expected 1 or more"),
        ({"on": "paper"}, "unknown backend 'paper'"),
        ({"set": {"links.R1.rate_mbps": 0}}, "links.R1.rate_mbps"),
        ({"set": {"name": object()}}, "a value of set cannot be a object"),
    ],
)
def test_an_invalid_argument_is_one_line(
    arguments: dict[str, object], message: str, small: Path
) -> None:
    with pytest.raises(anabranch.ScenarioError, match=message) as error:
        anabranch.run(small, **arguments)
    assert "\n" not in str(error.value)


def test_an_algorithm_that_no_flow_would_run_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    own = SMALL.replace('algorithm = "lia"\n', "", 1).replace(
        'name = "two"', 'name = "two"\nalgorithm = "olia"'
    )
    file.write_text(own)
    assert anabranch.run(file).algorithms == ["own"]
    with pytest.raises(anabranch.ScenarioError, match="every flow names its own algorithm"):
        anabranch.run(file, "lia")


def test_cancelling_ends_a_run_at_once_and_stops_it_from_beginning_again(long: Path) -> None:
    run = _core.Run(anabranch.load(long), None, 1)

    def cancel_when_running() -> None:
        while run.progress == 0:
            time.sleep(0.01)
        run.cancel()

    threading.Thread(target=cancel_when_running).start()
    with pytest.raises(anabranch.Cancelled):
        run.execute()
    reached = run.progress
    assert 0 < reached < 1
    with pytest.raises(anabranch.Cancelled):
        run.execute()
    assert run.progress == reached


def test_progress_grows_to_one(small: Path) -> None:
    seen: list[float] = []
    anabranch.run(small, seeds=2, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_an_error_of_the_progress_callback_cancels_the_runs(long: Path) -> None:
    def refuse(fraction: float) -> None:
        raise RuntimeError("no more")

    begun = threading.active_count()
    with pytest.raises(RuntimeError, match="no more"):
        anabranch.run(long, seeds=3, progress=refuse)
    while threading.active_count() > begun:
        time.sleep(0.01)


def test_python_values_become_toml() -> None:
    values = {
        "a": [1, 2.5, True, 'a "quoted"\nstring', float("inf")],
        "b": {"drop_tail": {"packets": 100}},
    }
    text = "\n".join(f"{key} = {toml_value(value)}" for key, value in values.items())
    assert repr(tomllib.loads(text)) == repr(values)  # True is not 1
    assert toml_value(np.float64(0.1)) == "0.1"
    assert toml_value(np.int64(3)) == "3"


def test_ctrl_c_while_runs_are_handed_to_threads_cancels_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Waiting:
        """A run that ends when it is cancelled, or after a while without that."""

        def __init__(self) -> None:
            self.cancelled = threading.Event()

        def execute(self) -> bool:
            return self.cancelled.wait(10)

        def cancel(self) -> None:
            self.cancelled.set()

    class Interrupted(ThreadPoolExecutor):
        def submit(self, *arguments: Any) -> Any:
            if self._threads:
                raise KeyboardInterrupt
            return super().submit(*arguments)

    monkeypatch.setattr(runner, "ThreadPoolExecutor", Interrupted)
    runs: list[Any] = [Waiting(), Waiting()]
    with pytest.raises(KeyboardInterrupt):
        list(runner._execute(runs, 2, None))
    assert all(run.cancelled.is_set() for run in runs)


TWO = """
algorithm = "cubic"
measure = { duration_s = 40, warmup_s = 10, sample_ms = 1000 }
links.line = { rate_mbps = 50, delay_ms = 10, queue.drop_tail.packets = 100 }
[[flows]]
name = "a"
paths = [["line"]]
[[flows]]
name = "b"
paths = [["line"]]
"""


def within(spread_s: float) -> anabranch.Scenario:
    text = TWO.replace("[[flows]]\n", f"[[flows]]\nstart_spread_s = {spread_s}\n")
    return anabranch.Scenario.parse(text)


def test_equal_flows_get_what_a_wide_spread_of_starts_gives() -> None:
    default = anabranch.run(anabranch.Scenario.parse(TWO), seeds=20)
    spread = anabranch.run(within(0.1), seeds=20)
    assert not default.is_one_trajectory()
    one, other = (r.summary().set_index("flow") for r in (default, spread))
    for flow in "ab":
        apart = abs(one.at[flow, "goodput_mbps"] - other.at[flow, "goodput_mbps"])
        assert apart < one.at[flow, "goodput_mbps_ci95"] + other.at[flow, "goodput_mbps_ci95"]
        # In step, as with starts at once, the deviation would be 0.
        ratio = one.at[flow, "goodput_mbps_ci95"] / other.at[flow, "goodput_mbps_ci95"]
        assert ratio == pytest.approx(1, abs=0.6)


def test_neither_of_two_equal_flows_is_ranked() -> None:
    goodput = anabranch.run(anabranch.Scenario.parse(TWO), seeds=20).flows.pivot(
        index="seed", columns="flow", values="goodput_mbps"
    )
    assert not paired_difference(goodput["a"], goodput["b"]).decided


def test_starts_at_once_are_one_trajectory() -> None:
    result = anabranch.run(within(0), seeds=3)
    assert result.is_one_trajectory()
