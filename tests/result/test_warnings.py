"""Warnings about rules by what ran, whatever the scenario asked for."""

from pathlib import Path

import pytest

import anabranch
from anabranch.result.warnings import found
from conftest import Anabranch


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
