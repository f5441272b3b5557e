"""Rate traces from a few numbers."""

from dataclasses import replace

import numpy as np

from anabranch.conversion.described import Delays, Steps, Walk, csv, mahimahi, rates_at

WALK = Walk(seed=1, step_s=1, steps_=200, median_mbps=8, sigma=0.5, correlation=0.8)


def opportunities(trace: Steps | Walk) -> np.ndarray:
    return np.array([int(line) for line in mahimahi(trace).decode().split()])


def test_steps_give_an_opportunity_per_1500_bytes() -> None:
    times = opportunities(Steps(((1, 12), (2, 3), (1, 0))))
    # 12 Mbps are 1000 packets a second, 3 Mbps 250; the last line ends the trace at 4 s.
    assert np.count_nonzero(times <= 1000) == 1000
    assert np.count_nonzero((times > 1000) & (times <= 3000)) == 500
    assert np.count_nonzero(times > 3000) == 1
    assert times[-1] == 4000
    assert np.all(np.diff(times) >= 0)


def test_a_packet_that_a_step_begins_is_finished_in_the_next() -> None:
    # Half a packet in each of four steps of 10 ms at 0.6 Mbps: packets at 20 and 40 ms.
    assert opportunities(Steps(((0.01, 0.6),) * 4)).tolist() == [20, 40, 40]


def test_a_walk_has_its_median_and_is_still_in_outages() -> None:
    rates = np.array([rate for _, rate in WALK.steps()])
    # The median of 200 rates, correlated by 0.8: sigma sqrt(pi / 2 * 9 / 200) = 13 % of error.
    assert abs(np.median(rates) / 8 - 1) < 0.4
    assert np.corrcoef(rates[1:], rates[:-1])[0, 1] > 0.6
    times = opportunities(replace(WALK, outages=((50, 55),)))
    assert np.count_nonzero((times > 50_000) & (times < 55_000)) == 0
    assert np.count_nonzero((times > 55_000) & (times <= 56_000)) > 0


def test_the_rate_at_a_time_repeats_with_the_trace() -> None:
    trace = Steps(((1, 12), (2, 3)))
    assert rates_at(trace, np.array([0.5, 1.5, 2.9, 3.5, 4.0])).tolist() == [12, 3, 3, 12, 3]


def test_delays_are_lines_at_the_sums_of_the_durations() -> None:
    trace = Delays(((10, 0), (10, 40), (5, 20)))
    assert csv(trace).decode().split() == ["time_s,delay_ms", "0.0,0", "10.0,40", "20.0,20"]
