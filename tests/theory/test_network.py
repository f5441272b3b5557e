"""A scenario as arrays, and when its paths may send."""

import numpy as np
import pytest

from anabranch.scenario import Scenario, ScenarioError
from anabranch.theory.network import Network
from anabranch.theory.schedule import Schedule, intervals

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


COMING_AND_GOING = """
algorithm = "lia"
[measure]
duration_s = 100
[links.top]
rate_mbps = 6
delay_ms = 20
down = [{ from_s = 20, to_s = 30 }, { from_s = 60, to_s = 61 }]
[links.bottom]
rate_mbps = 9
delay_ms = 20
[links.unused]
rate_mbps = 9
delay_ms = 20
down = [{ from_s = 50, to_s = 55 }]
[[flows]]
name = "both"
paths = [["top"], { links = ["bottom"], start_s = 15 }]
[[flows]]
name = "many"
count = 4
start_s = 40
start_spread_s = 8
stop_s = 90
paths = [["bottom"]]
"""


def test_users_start_evenly_over_the_spread_as_the_simulator_s_do_on_average():
    schedule = Schedule.of(Scenario.parse(COMING_AND_GOING))
    assert schedule.start_s.tolist() == [0, 41, 43, 45, 47]
    assert schedule.sending(44).tolist() == [True, True, True, True, False, False]


def test_intervals_agree_with_the_schedule_but_while_the_users_of_a_flow_start():
    scenario = Scenario.parse(COMING_AND_GOING)
    schedule, found = Schedule.of(scenario), intervals(scenario)
    assert [str(interval) for interval in found] == [
        "0 to 15 s",
        "15 to 20 s",
        "20 to 30 s",
        "30 to 40 s",
        "40 to 60 s",
        "60 to 61 s",
        "61 to 90 s",
        "90 to 100 s",
    ]
    for start, stop in schedule.stretches((40.0,)):  # where the first interval of `many` begins
        (interval,) = (one for one in found if one.from_s <= start and stop <= one.to_s)
        sending = schedule.sending((start + stop) / 2)
        if 40 <= start < 47:
            assert (sending <= interval.present).all()
        else:
            assert np.array_equal(sending, interval.present), (start, stop)


def test_a_schedule_is_in_the_order_of_the_network():
    scenario = Scenario.parse(COMING_AND_GOING)
    schedule, network = Schedule.of(scenario), Network.of(scenario)
    assert np.array_equal(schedule.user_of_path, network.user_of_path)
    assert len(schedule.start_s) == network.users


def test_messages_and_packet_sizes_have_no_model():
    messages = "workload.messages = { size_bytes = 100, interval_ms = 20 }\n"
    with pytest.raises(ScenarioError, match="because its messages are single packets"):
        Schedule.of(Scenario.parse(COMING_AND_GOING + messages))
    with pytest.raises(ScenarioError, match="packets of 300 bytes beside those of 1500"):
        Network.of(Scenario.parse(COMING_AND_GOING + "packet_bytes = 300\n"))


def test_a_flow_that_pauses_has_a_schedule_and_no_interval():
    text = COMING_AND_GOING + "workload.on_off = { on_s = 2, off_s = 1 }\n"
    schedule = Schedule.of(Scenario.parse(text))
    assert [bool(schedule.sending(41 + time)[2]) for time in (1, 2.5, 4)] == [True, False, True]
    with pytest.raises(ScenarioError, match="'on_off' has no optimum and no equilibrium"):
        intervals(Scenario.parse(text))
