"""Two equal flows through a drop-tail queue are no single trajectory."""

import pytest

import anabranch
from anabranch.intervals import paired_difference

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
