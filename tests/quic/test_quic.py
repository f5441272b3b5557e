"""The QUIC backend: the same tables as the simulator's, repeatable, errors before the run."""

from pathlib import Path
from typing import Any

import pytest

import anabranch
from anabranch import ScenarioError
from conftest import Anabranch, assert_identical


class Half:
    """Half of Reno's increase."""

    def increase(self, r: int, paths: list[Any]) -> float:
        return 0.5 / float(paths[r].window)

    def decrease(self, r: int, paths: list[Any]) -> float:
        return float(paths[r].window) / 2


def test_tables_have_the_rows_and_columns_of_the_simulator(small: Path) -> None:
    sim, quic = (anabranch.run(small, seeds=1, on=on).tables() for on in ("sim", "quic"))
    assert list(sim) == list(quic)
    for name, table in quic.items():
        assert list(table.columns) == list(sim[name].columns)
        assert len(table) == len(sim[name])
        assert list(table.dtypes) == list(sim[name].dtypes)


def test_the_same_seed_gives_identical_tables_with_one_thread_or_several(small: Path) -> None:
    assert_identical(*(anabranch.run(small, seeds=3, on="quic", jobs=jobs) for jobs in (1, 3)))


def test_a_rule_in_python_runs_over_quic(small: Path) -> None:
    # From the start, because data counts when it is in order: some of it arrived earlier.
    result = anabranch.run(small, Half(), seeds=1, on="quic", set={"measure.warmup_s": 0})
    assert list(result.flows["rule"]) == ["Half", "Half", "reno"]
    # Both links are full but for up to a second; 1432 to 1444 of 1500 bytes are payload.
    assert 16.0 < result.flows.goodput_mbps.sum() < 19.3


def test_what_is_not_available_is_an_error_before_the_run(small: Path) -> None:
    with pytest.raises(ScenarioError) as raised:
        anabranch.run(small, set={"tcp.packet_bytes": 600}, on="quic")
    assert str(raised.value) == (
        "tcp.packet_bytes: less than 1228 bytes is not available on quic; run it with --on sim"
    )


def test_the_command_line_runs_it(small: Path, anabranch: Anabranch) -> None:
    done = anabranch("run", small, "--on", "quic", "--seeds", 1, "--quiet")
    assert done.returncode == 0, done.stderr
    assert "two" in done.stdout


def test_the_librarys_own_bbr_is_an_algorithm_of_quic_alone(small: Path) -> None:
    asked = ["bbr3", "noq-bbr3"]
    result = anabranch.run(small, asked, seeds=1, on="quic")
    assert list(result.flows["algorithm"].unique()) == asked
    own = result.summary()["flow"] == "one"  # which names a rule of its own
    assert set(result.summary()["rule"][~own]) == set(asked)
    goodput = result.flows.groupby("algorithm")["goodput_mbps"].sum()
    assert goodput["bbr3"] != goodput["noq-bbr3"]
    with pytest.raises(ScenarioError, match="unknown algorithm"):
        anabranch.run(small, "noq-bbr3", seeds=1)
