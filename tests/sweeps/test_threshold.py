"""Bisection of a key."""

from pathlib import Path

import pandas as pd
import pytest

import anabranch
from anabranch.scenario import ScenarioError
from anabranch.sweeps.threshold import condition

RATE = {"links.R1.rate_mbps": "lin(4,20)"}


def direct(small: Path, rate: float, algorithm: str = "lia") -> float:
    """The total goodput, mean of two seeds."""
    run = anabranch.run(small, algorithm, seeds=2, set={"links.R1.rate_mbps": rate})
    return float(run.totals()["total_goodput_mbps"].iloc[0])


def spread(small: Path, rate: float, algorithm: str) -> tuple[float, float]:
    """Mean of two seeds, and half of their distance."""
    run = anabranch.run(small, algorithm, seeds=2, set={"links.R1.rate_mbps": rate})
    one, other = run.flows.groupby("seed")["goodput_mbps"].sum()
    return (one + other) / 2, abs(one - other) / 2


def test_the_bracket_holds_the_threshold_and_has_the_promised_width(small: Path) -> None:
    found = anabranch.threshold(
        small, RATE, "total_goodput_mbps >= 17", ["lia", "olia"], seeds=2, halvings=6
    )
    assert found.table["algorithm"].tolist() == ["lia", "olia"]
    for row in found.table.to_dict(orient="records"):
        assert row["width"] == 16 / 2**6
        assert row["holds_at"] - row["fails_at"] == row["width"]  # more rate, more goodput
        assert row["metric_holds"] == direct(small, row["holds_at"], row["algorithm"]) >= 17
        assert row["metric_fails"] == direct(small, row["fails_at"], row["algorithm"]) < 17
        # Two seeds, a and b: half of the interval is t(0.975, 1) |a - b| / 2 = 6.35 |a - b|.
        ends = [spread(small, row[at], row["algorithm"]) for at in ("holds_at", "fails_at")]
        assert row["decided"] == all(abs(mean - 17) > 12.706 * half for mean, half in ends)
    # Both ends and six middles of two algorithms with two seeds.
    assert len(found.result.links) / 2 == 8 * 2 * 2


def test_a_condition_that_ceases_to_hold_is_bisected_too(small: Path) -> None:
    found = anabranch.threshold(small, RATE, "total_goodput_mbps < 17", seeds=2, halvings=3)
    (row,) = found.table.to_dict(orient="records")
    assert row["fails_at"] - row["holds_at"] == 2


def test_integers_are_bisected_until_they_are_adjacent(small: Path) -> None:
    # The more users share the links, the less each of them gets.
    found = anabranch.threshold(
        small,
        {"flows.two.count": "int(1,10)", "links.R1.rate_mbps": [10, 20]},
        "flows.two.goodput_mbps < 5",
        seeds=2,
        halvings=20,
    )
    assert list(found.table.columns[:2]) == ["links.R1.rate_mbps", "algorithm"]
    assert found.table["width"].tolist() == [1, 1]
    few, many = found.table["holds_at"]
    assert few < many  # at twice the rate it takes more users


def test_all_points_are_stored_and_none_runs_twice(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "store"
    how = {"seeds": 1, "halvings": 4, "out": out}
    first = anabranch.threshold(small, RATE, "total_goodput_mbps >= 17", **how)
    files = {file: file.stat().st_mtime_ns for file in (out / "points").glob("*/*.zip")}
    assert len(files) == 6
    again = anabranch.threshold(small, RATE, "total_goodput_mbps >= 17", **how)
    assert {file: file.stat().st_mtime_ns for file in (out / "points").glob("*/*.zip")} == files
    pd.testing.assert_frame_equal(first.table, again.table)
    pd.testing.assert_frame_equal(first.table, pd.read_parquet(out / "thresholds.parquet"))


def test_a_metric_that_does_not_cross_is_an_error_that_says_its_values(small: Path) -> None:
    with pytest.raises(ScenarioError) as error:
        anabranch.threshold(small, RATE, "total_goodput_mbps >= 1000", seeds=1)
    message = str(error.value)
    assert message.startswith(
        "links.R1.rate_mbps, lia: total_goodput_mbps >= 1000 holds at neither"
    )
    assert " at 4 and " in message
    with pytest.raises(ScenarioError, match="holds at both ends"):
        anabranch.threshold(small, RATE, "total_goodput_mbps >= 1", seeds=1)


def test_a_case_that_does_not_cross_is_reported_beside_those_that_do(small: Path) -> None:
    over = {**RATE, "links.R2.rate_mbps": [10, 100]}
    found = anabranch.threshold(small, over, "total_goodput_mbps >= 17", seeds=1, halvings=2)
    assert found.table["links.R2.rate_mbps"].tolist() == [10]
    assert list(found.failures) == ["links.R2.rate_mbps=100, lia"]
    assert "holds at both ends" in found.as_dict()["failures"]["links.R2.rate_mbps=100, lia"]


@pytest.mark.parametrize(
    ("until", "over", "message"),
    [
        ("goodput", RATE, "expected METRIC, one of < <= > >=, and a number"),
        ("goodput >= 5", RATE, "metric 'goodput': expected total_goodput_mbps, jain_index, flows"),
        ("jain_index >= x", RATE, "expected a number, got 'x'"),
        ("flows.three.rtt_ms < 5", RATE, "no flow 'three': expected one of two, one"),
        ("links.R1.rtt_ms < 5", RATE, "no column 'rtt_ms': expected one of throughput_mbps"),
        ("jain_index >= 1", {"links.R1.rate_mbps": [5, 6]}, "one key with an interval.*got 0"),
        ("jain_index >= 1", {**RATE, "links.R1.delay_ms": "lin(1,2)"}, "interval.*got 2"),
    ],
)
def test_what_cannot_be_bisected_is_one_clear_line(
    until: str, over: dict[str, object], message: str, small: Path
) -> None:
    with pytest.raises(ScenarioError, match=message) as error:
        anabranch.threshold(small, over, until, seeds=1)
    assert "\n" not in str(error.value)


def test_names_of_flows_may_have_spaces_and_dots() -> None:
    scenario = anabranch.load("examples/two_links.toml")
    found = condition("flows.on the left.goodput_mbps<=1e-3", scenario)
    assert (found.metric.name, found.bound, found.holds(0.001)) == ("on the left", 0.001, True)


def test_a_threshold_is_decided_only_where_intervals_exclude_the_bound(small: Path) -> None:
    # Total goodput grows by about 5 Mbps from one end of the bracket to the other, of which each
    # interval of five seeds is a small part; of one seed there is none.
    rough = {"links.R1.rate_mbps": "lin(4,20)"}
    for seeds, decided in (5, True), (1, False):
        found = anabranch.threshold(
            small, rough, "total_goodput_mbps >= 17", "lia", seeds=seeds, halvings=1
        )
        assert found.table["decided"].tolist() == [decided]
