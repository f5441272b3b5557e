"""The warning that goodput at a drop-tail queue depends on the order in which packets arrive."""

from pathlib import Path

import pytest

import anabranch

TWO_HOPS = Path("benches/theory/drop_tail_two_hops.toml").read_text()
"""Packets of `long` come to C as A has spaced them, those of others as windows grow."""

ONE_LINK = """
algorithm = "reno"
measure = { duration_s = 120, warmup_s = 30, sample_ms = 1000 }
links.A = { rate_mbps = 24, delay_ms = 20, queue.drop_tail.packets = 100 }
[[flows]]
name = "near"
count = 4
paths = [["A"]]
start_spread_s = 5
[[flows]]
name = "far"
count = 4
paths = [{links=["A"], return_delay_ms = 80}]
start_spread_s = 5
"""

FILES = "workload.poisson = { rate_per_s = 8, size.exponential = { mean_bytes = 1e5 } }"


def warned(text: str, algorithm: str | None = None, *changes: tuple[str, str]) -> list[str]:
    """The warnings of unequal losses in three runs."""
    result = anabranch.run(anabranch.Scenario.parse(text, set=[*changes]), algorithm, seeds=3)
    return [line for line in result.warnings if "phase effects" in line]


def test_a_path_that_loses_far_more_than_the_others_is_named_at_each_queue() -> None:
    found = warned(TWO_HOPS)
    assert [line.partition(" is drop-tail")[0][-6:] for line in found] == ["link A", "link C"]
    assert "path 0 of flow long as of path 0 of flow wide" in found[0]
    assert "path 0 of flow long as of path 1 of flow short" in found[1]


@pytest.mark.parametrize(
    "changes",
    [
        [("tcp.host_jitter_us", "5000")],
        [("links.A.queue", "{ red = {} }"), ("links.C.queue", "{ red = {} }")],
    ],
)
def test_with_the_remedies_that_it_names_it_is_silent(changes: list[tuple[str, str]]) -> None:
    assert not warned(TWO_HOPS, None, *changes)


def test_round_trip_times_are_compared_at_one_queue() -> None:
    assert warned(ONE_LINK)
    assert not warned(ONE_LINK, None, ("tcp.host_jitter_us", "5000"))


def test_short_files_are_not_compared() -> None:
    """Losses of short files are those of slow start."""
    assert not warned(ONE_LINK.replace("count = 4", FILES, 1))


def test_rules_by_delay_are_not_compared() -> None:
    """Shares of these do not follow from losses."""
    assert not warned(Path("papers/wvegas/scenario_fairness.toml").read_text())
