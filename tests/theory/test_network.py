"""A scenario as arrays."""

import numpy as np
import pytest

from anabranch.scenario import Scenario, ScenarioError
from anabranch.theory.network import Network

TWO_USERS = """
name = "two users"
algorithm = "lia"
seeds = [1]
[measure]
duration_s = 10
[links.left]
rate_mbps = 12
delay_ms = 20
queue.red = { min_packets = 10, mid_packets = 20, max_packets = 40 }
loss.gilbert_elliott = { good_to_bad = 0.01, bad_to_good = 0.04, loss_bad = 0.5 }
[links.right]
rate_mbps = 6
delay_ms = 5
queue.drop_tail = { bytes = 30000 }
[[flows]]
name = "both"
paths = [["left"], { links = ["left", "right"], return_delay_ms = 1 }]
[[flows]]
name = "one"
paths = [["right"]]
algorithm = "reno"
"""


def test_a_scenario_becomes_arrays():
    network = Network.of(Scenario.parse(TWO_USERS))
    # 1500 bytes are 12000 bits: 12 Mbps carry 1000 of them in a second, each in 1 ms.
    assert network.capacity.tolist() == [1000, 500]
    assert network.routes.toarray().tolist() == [[1, 1, 0], [0, 1, 1]]
    # There and back 20 ms and one transmission of 1 ms; 25 ms there, 3 ms, 1 ms back.
    assert network.base_rtt == pytest.approx([0.041, 0.029, 0.012])
    assert network.starts.tolist() == [0, 2, 3]
    assert network.algorithms == ["lia", "reno"]
    assert network.sums.toarray().tolist() == [[1, 1, 0], [0, 0, 1]]
    assert network.queues.limit.tolist() == [40, 20]
    assert network.queues.red[0].tolist() == [[10, 0], [20, 0.1], [40, 1]]
    assert network.queues.red[1] is None
    # A fifth of all packets meets the bad state, which loses half of them.
    assert network.queues.random_loss == pytest.approx([0.1, 0])
    # 52 of 1500 bytes are headers.
    assert network.goodput_mbps(np.array([1000.0])) == pytest.approx([11.584])


def test_an_algorithm_replaces_only_the_scenarios_own():
    assert Network.of(Scenario.parse(TWO_USERS), "max").algorithms == ["lia", "reno"]
    assert Network.of(Scenario.parse(TWO_USERS), "olia").algorithms == ["olia", "reno"]
    with pytest.raises(ScenarioError, match="unknown algorithm"):
        Network.of(Scenario.parse(TWO_USERS), "nonsense")
