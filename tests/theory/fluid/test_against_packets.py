"""Theory meets packets: the generator's ranges, and some of its scenarios run."""

import numpy as np
import pandas as pd
import pytest

from anabranch.theory.fluid import against_packets
from anabranch.theory.network import Network


@pytest.mark.parametrize("seed", range(40))
def test_a_generated_scenario_is_within_its_documented_ranges(seed: int) -> None:
    scenario = against_packets.random_scenario(seed)
    assert scenario.text == against_packets.random_scenario(seed).text
    network = Network.of(scenario)
    assert 2 <= len(network.links) <= 6
    assert 2 <= network.users <= 20
    propagation = network.base_rtt - network.service
    # Each of two hops has a delay of at least 1 ms; that of the return may be 0.
    assert propagation.min() >= 0.010 - 1e-6
    assert propagation.max() <= 0.300 + 1e-6
    assert network.routes.sum(axis=1).min() >= 1
    assert (np.diff(network.starts) > 1).any()
    assert all(curve is not None for curve in network.queues.red)


@pytest.mark.parametrize("number", [11, pytest.param(20, marks=pytest.mark.slow)])
def test_shares_of_packets_are_those_of_the_fluid_equilibrium(number: int) -> None:
    rules = ["reno", "lia", "olia", "balia"]
    found = against_packets.judged(against_packets.compare_scenario(number, rules, quick=True))
    assert found.failed == []
    assert list(found.table().index) == rules
    measured = found.flows.groupby("rule")[["measured", "predicted"]].sum()
    assert measured.to_numpy() == pytest.approx(np.ones((4, 2)))


def flows(measured: list[float], rule: str = "lia", isolated: bool = True) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "scenario": 1,
            "rule": rule,
            "flow": ["a", "b", "c"],
            "paths": [2, 1, 1],
            "loss": 1e-3,
            "predicted": [0.5, 0.3, 0.2],
            "measured": measured,
            "spread": 0.0,
            "isolated": isolated,
        }
    )


def test_a_cell_outside_its_band_fails_unless_the_reason_is_known() -> None:
    # The worst share is 0.28 instead of 0.2: 40 % more. The median deviation is 5 %.
    outside = against_packets.judged(flows([0.475, 0.245, 0.28]))
    assert outside.failed == ["lia in scenario 1"]
    assert outside.table().loc["lia", 1] == "40 (18) *"
    assert against_packets.judged(flows([0.49, 0.3, 0.21])).failed == []
    open_split = against_packets.judged(flows([0.1, 0.3, 0.6], "coupled", isolated=False))
    assert open_split.failed == []
    assert "infinitely many" in open_split.reasons()[0]
    assert open_split.table().loc["coupled", 1].endswith("∞ *")


def test_a_record_has_a_row_for_each_rule_and_scenario() -> None:
    found = pd.concat([flows([0.475, 0.245, 0.28]), flows([0.49, 0.3, 0.21], isolated=False)])
    second = found.assign(scenario=[1, 1, 1, 2, 2, 2])
    assert against_packets.record(against_packets.judged(second)) == (
        'rule,scenario,"worst, %","median, %",equilibria,within its band\n'
        # 0.28 instead of 0.2 is 40 % more, 0.245 instead of 0.3 18 % less.
        "lia,1,40,18,,no\n"
        "lia,2,5,2,open,yes\n"
    )
