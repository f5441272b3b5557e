"""The rule through the bindings, and a scenario as arrays."""

import numpy as np
import pytest

from anabranch.scenario import Scenario, ScenarioError
from anabranch.theory.law import Law, States
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


def test_phi_of_lia_by_hand():
    # Rates 100 and 100, sum 200; max w/tau^2 is 1000. I = min(1000/200^2, 1/w) = 0.025 for both,
    # D = w/2.
    states = States.of_user([10, 20], [0.1, 0.2])
    assert Law("lia").phi(states) == pytest.approx([0.025 / 5, 0.025 / 10])


@pytest.mark.parametrize("spec", ["reno", "ewtcp", "coupled", "semicoupled", "balia", "rsf-db"])
@pytest.mark.parametrize("wrt", ["window", "rtt", "queue_delay"])
def test_derivatives_are_those_of_differences(spec, wrt):
    law = Law(spec)
    states = States.of_user([10, 23, 5], [0.1, 0.2, 0.07], [0.08, 0.06, 0.055])
    exact = law.phi_derivatives(states, wrt).toarray()
    for k in range(3):
        step = np.zeros(3)
        step[k] = 1e-6
        column = getattr(states, wrt)
        above = law.phi(_with(states, wrt, column + step))
        below = law.phi(_with(states, wrt, column - step))
        assert exact[:, k] == pytest.approx((above - below) / 2e-6, rel=1e-4, abs=1e-7)


def _with(states, field, values):
    columns = vars(states) | {field: values}
    return States(**columns)


def test_users_do_not_see_each_other():
    one = States.of_user([10, 20], [0.1, 0.2])
    starts = np.array([0, 2, 3, 5])
    both = [np.concatenate([column, column[:1], column]) for column in one.columns()[1:]]
    law = Law("balia")
    all_three = States(starts, *both)
    assert law.phi(all_three)[3:] == pytest.approx(law.phi(one))
    jacobian = law.phi_derivatives(all_three, "window").toarray()
    assert jacobian[3:, 3:] == pytest.approx(law.phi_derivatives(one, "window").toarray())
    assert not jacobian[:3, 3:].any()
    assert not jacobian[2, :2].any()


def test_columns_that_do_not_fit_are_refused():
    states = States.of_user([10, 20], [0.1, 0.2])
    with pytest.raises(ValueError, match="columns differ in length"):
        Law("lia").phi(_with(states, "rtt", np.array([0.1])))
    with pytest.raises(ValueError, match="starts must rise from 0"):
        Law("lia").phi(_with(states, "starts", np.array([0, 1])))
