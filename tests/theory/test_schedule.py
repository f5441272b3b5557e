"""When paths may send, over time and in the intervals of an optimum."""

import numpy as np
import pytest

from anabranch.scenario import Scenario, ScenarioError
from anabranch.theory.network import Network
from anabranch.theory.schedule import Schedule, intervals

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
