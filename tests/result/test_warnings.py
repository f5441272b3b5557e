"""Warnings about rules by what ran, whatever the scenario asked for."""

import tomllib
from pathlib import Path

import pytest

import anabranch
from anabranch.result.warnings import found
from conftest import Anabranch

parse = tomllib.loads


@pytest.mark.parametrize(
    ("algorithm", "ssthresh", "said"),
    [("rsf-db", None, 1), ("rsf-db:d_s=0.2", None, 1), ("rsf-db", 20, 0), ("rsf-lb", None, 0)],
)
def test_a_rule_that_keeps_an_overshoot_is_named_where_slow_start_has_no_threshold(
    algorithm: str, ssthresh: int | None, said: int, small: Path
) -> None:
    settings = {"tcp.initial_ssthresh_packets": ssthresh} if ssthresh else None
    result = anabranch.run(small, algorithm, seeds=1, set=settings)
    lines = [line for line in result.warnings if "overshoot" in line]
    assert len(lines) == said
    assert all("rsf-db shrinks" in line and "initial_ssthresh_packets" in line for line in lines)


def test_the_warning_is_printed_and_not_for_equations(small: Path, anabranch: Anabranch) -> None:
    done = anabranch("run", small, "-a", "rsf-db", "--seeds", "1")
    assert "overshoot of slow start lasts for minutes" in done.stderr
    done = anabranch("run", small, "-a", "rsf-db", "--on", "equilibrium")
    assert "overshoot" not in done.stderr


def test_a_goodput_above_the_rate_of_its_links_is_an_internal_error(small: Path) -> None:
    """A goodput of 30 Mbps over any link of the file, none of which has more than 10."""
    result = anabranch.run(small, "lia", seeds=2)
    tables = result.tables()
    assert not [line for line in found(result.scenario, "sim", tables) if "internal" in line]
    paths = tables["paths"].copy()
    first = paths.index[(paths["seed"] == 2) & (paths["path"] == 0)][0]
    paths.loc[first, "goodput_mbps"] = 30.0
    lines = list(found(result.scenario, "sim", {**tables, "paths": paths}))
    assert any("internal error" in line and "Mbps, more than its" in line for line in lines)


@pytest.mark.parametrize(
    ("rule", "recovery", "said"),
    [("bbr3", "sack", 1), ("bbr3", "rack", 0), ("reno", "sack", 0)],
)
def test_timeouts_of_a_rule_by_rate_are_named_with_the_remedy(
    rule: str, recovery: str, said: int, small: Path
) -> None:
    lossy = {"links.R1.loss.bernoulli.probability": 0.2, "tcp.recovery": recovery}
    lines = anabranch.run(small, rule, seeds=1, set=lossy).warnings
    assert len([line for line in lines if 'set tcp.recovery = "rack"' in line]) == said


def test_warnings_parse_no_flow_and_are_computed_once(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = anabranch.run(small, "lia", seeds=1)
    assert tomllib.loads(result.scenario.tcp) == tomllib.loads(result.scenario.text)["tcp"]
    read: list[str] = []
    monkeypatch.setattr(tomllib, "loads", lambda text: read.append(text) or parse(text))
    warnings = result.warnings
    assert read
    assert not [text for text in read if "flows" in text]
    assert result.warnings is warnings


def test_random_losses_without_a_timeout_are_no_error(tmp_path: Path) -> None:
    """No row has a timeout: pandas partitions an empty column into none."""
    file = tmp_path / "lossy.toml"
    file.write_text(
        'algorithm = "reno"\nseeds = [1]\nmeasure = { duration_s = 5, warmup_s = 1 }\n'
        "links.L = { rate_mbps = 10, delay_ms = 10, loss.bernoulli.probability = 0.001 }\n"
        '[[flows]]\nname = "user"\npaths = [["L"]]\n'
    )
    result = anabranch.run(file)
    assert result.paths["lost_random"].sum() > 0
    assert result.flows["timeouts"].sum() == 0
    assert result.warnings == []


TWO_HOPS = """
algorithm = "lia"
measure = { duration_s = 120, warmup_s = 30, sample_ms = 1000 }
links.A = { rate_mbps = 30, delay_ms = 6, queue.drop_tail.packets = 300 }
links.B = { rate_mbps = 12, delay_ms = 40, queue.drop_tail.packets = 120 }
links.C = { rate_mbps = 18, delay_ms = 20, queue.drop_tail.packets = 180 }
[[flows]]
name = "wide"
count = 3
paths = [["A"], ["B", "C"]]
start_spread_s = 5
[[flows]]
name = "short"
count = 3
paths = [["B"], ["C"]]
start_spread_s = 5
[[flows]]
name = "long"
count = 3
paths = [["A", "C"]]
start_spread_s = 5
"""
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
