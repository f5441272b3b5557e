"""Sweeps in Python: tables, stores, executors, failures."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pandas as pd
import pytest

import anabranch
from anabranch.sweeps import execute, point, store
from anabranch.sweeps.store import about
from anabranch.sweeps.sweep import Plan
from conftest import assert_identical

GRID = {"links.R1.rate_mbps": [5, 10], "links.R2.delay_ms": [1, 20]}


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The points that were run in this process."""
    keys: list[str] = []

    def run(one: point.Point, *live: point.Live) -> bytes:
        keys.append(one.key)
        return point.run_point(one, *live)

    monkeypatch.setattr(execute, "run_point", run)
    return keys


def entries(directory: Path) -> list[Path]:
    return sorted((directory / "points").glob("*/*.zip"))


def test_the_tables_are_those_of_single_runs(small: Path) -> None:
    swept = anabranch.sweep(small, GRID, ["lia", "olia"], seeds=2, with_samples=True)
    assert swept.keys == (*GRID, "algorithm", "seed")
    runs = []
    for r1 in (5, 10):
        for delay in (1, 20):
            values = {"links.R1.rate_mbps": r1, "links.R2.delay_ms": delay}
            run = anabranch.run(small, ["lia", "olia"], seeds=2, set=values)
            runs.append((values, run))
    for name, table in swept.tables().items():
        parts = [run.tables()[name].assign(**values) for values, run in runs]
        expected = pd.concat(parts, ignore_index=True)[table.columns]
        empty = {"check_dtype": False} if expected.empty else {}
        pd.testing.assert_frame_equal(table, expected, check_exact=True, obj=name, **empty)


def test_tables_over_time_are_empty_unless_they_are_wanted(small: Path) -> None:
    swept = anabranch.sweep(small, GRID, seeds=1)
    whole = anabranch.sweep(small, GRID, seeds=1, with_samples=True)
    for name in point.SAMPLES:
        assert swept.tables()[name].empty
        assert list(swept.tables()[name].columns) == list(whole.tables()[name].columns)
        assert not whole.tables()[name].empty


def test_a_stored_sweep_runs_no_point_twice_and_gives_the_same(
    small: Path, tmp_path: Path, executed: list[str]
) -> None:
    out = tmp_path / "store"
    first = anabranch.sweep(small, GRID, seeds=2, out=out)
    assert len(set(executed)) == len(executed) == 8
    assert_identical(first, anabranch.sweep(small, GRID, seeds=2, out=out))
    assert len(executed) == 8
    # One more value and one more seed: 3 * 2 * 3 points, of which 8 are there.
    more = {**GRID, "links.R1.rate_mbps": [5, 7, 10]}
    anabranch.sweep(small, more, seeds=3, out=out)
    assert len(set(executed)) == len(executed) == 18
    assert_identical(first, anabranch.sweep(small, GRID, seeds=2))


def test_any_change_of_the_scenario_gives_another_key(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def key(**how: object) -> str:
        named = {"set": None, "algorithm": "lia", "seeds": [1], "on": "sim", "with_samples": False}
        over = {"links.R1.rate_mbps": [5]}
        plan = Plan.of(source=small, over=over, **{**named, **how})
        (one,) = plan.points([{"links.R1.rate_mbps": 5}])
        return one.key

    keys = [
        key(),
        key(set={"measure.duration_s": 7}),
        key(algorithm="olia"),
        key(seeds=[2]),
        key(on="fluid"),
        key(with_samples=True),
    ]
    assert key() == keys[0] == key(algorithm="max") == key(algorithm=None)
    monkeypatch.setattr(point, "build", lambda: "0.0.0+other")
    keys.append(key())
    assert len(set(keys)) == len(keys)


def with_trace(folder: Path, lines: str) -> Path:
    """A scenario whose first link has a trace in another folder."""
    from conftest import SMALL

    (folder / "traces").mkdir(exist_ok=True)
    (folder / "traces" / "a.trace").write_text(lines)
    file = folder / "traced.toml"
    trace = 'trace_file = "traces/a.trace"'
    file.write_text(SMALL.replace("[links.R1]\nrate_mbps = 10", f"[links.R1]\n{trace}"))
    return file


def test_a_point_needs_no_file_and_its_key_depends_on_the_contents_of_traces(
    tmp_path: Path,
) -> None:
    keys = []
    for lines in ("1\n2\n", "1\n3\n"):
        file = with_trace(tmp_path, lines)
        expected = anabranch.run(file, seeds=1, set={"links.R2.rate_mbps": 5})
        over = {"links.R2.rate_mbps": [5]}
        plan = Plan.of(file, None, over, None, 1, "sim", with_samples=True)
        (one,) = plan.points([{"links.R2.rate_mbps": 5}])
        (tmp_path / "traces" / "a.trace").unlink()
        data = point.run_point(one)
        keys.append(one.key)
        memory = store.Memory()
        memory.write(one.key, data)
        from anabranch.sweeps.tables import join

        found = join(plan.scenario, [one], memory)
        pd.testing.assert_frame_equal(
            found.links.drop(columns="links.R2.rate_mbps"), expected.links, check_exact=True
        )
    assert keys[0] != keys[1]


def test_a_worker_with_another_version_is_refused(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan.of(small, None, {"links.R1.rate_mbps": [5]}, None, 1, "sim", with_samples=False)
    (one,) = plan.points([{"links.R1.rate_mbps": 5}])
    monkeypatch.setattr(point, "_version", lambda: "9.9")
    with pytest.raises(anabranch.ScenarioError, match=r"a worker has Anabranch 9\.9, this machine"):
        point.run_point(one)


# Two processes that share a store (test_store.py) are the fast form.
@pytest.mark.slow
def test_processes_give_the_same_as_threads(tmp_path: Path) -> None:
    file = with_trace(tmp_path, "1\n2\n")
    over = {"links.R2.rate_mbps": [5, 10, 15]}
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        processes = anabranch.sweep(file, over, ["lia", "olia"], seeds=1, executor=pool)
    assert_identical(processes, anabranch.sweep(file, over, ["lia", "olia"], seeds=1))


def test_a_point_that_fails_is_recorded_and_the_others_go_on(
    tmp_path: Path, executed: list[str]
) -> None:
    from conftest import SMALL

    # Equations have no workload at random, so the points with one fail on fluid.
    file = tmp_path / "mixed.toml"
    file.write_text(SMALL)
    poisson = (
        "{ poisson = { rate_per_s = 1, size = { pareto = { mean_bytes = 1e5, shape = 1.5 } } } }"
    )
    over = {"flows.one.workload": f"{poisson},bulk"}
    out = tmp_path / "store"
    with pytest.raises(anabranch.ScenarioError):
        anabranch.sweep(file, over, on="nosuch")
    result = anabranch.sweep(file, over, on="fluid", out=out)
    assert len(result.failures) == 1
    ((label, reason),) = result.failures.items()
    assert label == f"flows.one.workload={poisson}, lia, seed 1"
    assert "random" in reason
    assert list(result.links["flows.one.workload"].unique()) == ["bulk"]
    assert pd.read_parquet(out / "failures.parquet")["reason"].tolist() == [reason]
    again = anabranch.sweep(file, over, on="fluid", out=out)
    assert (again.failures, len(executed)) == (result.failures, 2)
    anabranch.sweep(file, over, on="fluid", out=out, retry=True)
    assert len(executed) == 3
    with pytest.raises(anabranch.ScenarioError, match="every point failed; flows"):
        anabranch.sweep(file, {"flows.one.workload": poisson}, on="fluid", out=out)


def test_a_damaged_entry_is_reported_and_runs_again(
    small: Path, tmp_path: Path, executed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "store"
    first = anabranch.sweep(small, GRID, seeds=1, out=out)
    cut, changed, *_ = entries(out)
    cut.write_bytes(cut.read_bytes()[:-100])
    data = bytearray(changed.read_bytes())
    data[200] ^= 1
    changed.write_bytes(data)
    assert_identical(first, anabranch.sweep(small, GRID, seeds=1, out=out))
    assert sorted(executed[4:]) == sorted([cut.stem, changed.stem])
    assert capsys.readouterr().err.count("is damaged (its checksum is wrong): it runs again") == 2
    for file in entries(out):
        assert about(file.read_bytes(), file.stem)["seed"] == 1


def test_another_sweep_in_the_same_store_is_said(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "store"
    anabranch.sweep(small, GRID, seeds=1, out=out)
    anabranch.sweep(small, GRID, seeds=1, out=out)
    assert capsys.readouterr().err == ""
    anabranch.sweep(small, GRID, seeds=2, out=out)
    assert "has another sweep so far: its tables are replaced" in capsys.readouterr().err


class Half(anabranch.Rule):
    """Half the increase."""

    def increase(self, r: int, paths: list[anabranch.Path]) -> float:
        return 0.5 / sum(path.window for path in paths)

    def decrease(self, r: int, paths: list[anabranch.Path]) -> float:
        return paths[r].window / 2


def test_a_rule_in_python_is_swept_in_memory_and_not_stored(small: Path, tmp_path: Path) -> None:
    over = {"links.R1.rate_mbps": [5, 10]}
    result = anabranch.sweep(small, over, Half(), seeds=1)
    assert result.algorithms == ["Half"]
    with pytest.raises(anabranch.ScenarioError, match="sweep it without a store"):
        anabranch.sweep(small, over, Half(), seeds=1, out=tmp_path / "store")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"over": {}}, "a sweep needs a key to vary"),
        ({"over": {"links.R1.rate_mbps": [5, 0]}}, "expected a number above 0"),
        ({"over": {"links.R9.rate_mbps": [5]}}, "links.R9"),
        ({"set": {"links.R1.rate_mbps": 5}}, "has one value and is swept"),
        ({"jobs": 0}, "jobs = 0: expected 1 or more"),
        ({"out": ""}, "got an empty name"),
        ({"out": __file__}, "is a file: the store needs a directory"),
        ({"out": Path(__file__).parent}, "choose a new directory"),
    ],
)
def test_an_invalid_argument_is_one_line_before_anything_runs(
    how: dict[str, object], message: str, small: Path, executed: list[str]
) -> None:
    with pytest.raises(anabranch.ScenarioError, match=message) as error:
        anabranch.sweep(small, **{"over": {"links.R1.rate_mbps": [5]}, "seeds": 1, **how})
    assert "\n" not in str(error.value)
    assert executed == []


def test_progress_grows_to_one(small: Path) -> None:
    seen: list[float] = []
    anabranch.sweep(small, GRID, seeds=3, progress=seen.append)
    assert seen[-1] == 1.0
    assert all(0 <= fraction <= 1 for fraction in seen)


def test_an_error_in_between_cancels_the_runs_and_keeps_what_was_done(
    long: Path, tmp_path: Path
) -> None:
    # One point takes milliseconds, the other eleven days.
    out = tmp_path / "store"

    def refuse(fraction: float) -> None:
        if entries(out):
            raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        anabranch.sweep(long, {"measure.duration_s": [6, 1e6]}, seeds=1, out=out, progress=refuse)
    assert len(entries(out)) == 1
