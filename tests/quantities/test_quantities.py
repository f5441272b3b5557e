"""The quantities that papers measure, on a hand-made Result."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from anabranch import Result, ScenarioError
from anabranch.quantities import QUANTITIES, measure
from anabranch.quantities.rates import drop_percent
from anabranch.quantities.tails import ccdf, hill, tail_fit


def frames(**tables: dict[str, list]) -> Result:
    """A Result of one run with these tables."""
    names = ("flows", "paths", "links", "transfers")
    samples = ("flow_samples", "path_samples", "link_samples")
    made = {name: pd.DataFrame(tables.get(name, {})) for name in names + samples}
    window = SimpleNamespace(warmup_s=0.0, duration_s=2.0)
    return Result(scenario=window, backend="sim", keys=("algorithm", "seed"), **made)


RUN = frames(
    flows={
        "seed": [1, 1, 1],
        "flow": ["a", "a", "b"],
        "user": [0, 1, 0],
        "goodput_mbps": [1.0, 3.0, 0.5],
        "transfers_done": [2, 3, 0],
        "timeouts": [3, 5, 7],
        "sent_packets": [100, 300, 50],
        "lost_packets": [2, 4, 5],
    },
    paths={
        "flow": ["a", "a", "a", "a", "b"],
        "user": [0, 0, 1, 1, 0],
        "path": [0, 1, 0, 1, 0],
        "goodput_mbps": [0.6, 0.4, 2.0, 1.0, 0.5],
        "rtt_ms": [100.0, 50.0, 140.0, float("nan"), 80.0],
        "sent_packets": [100, 10, 300, 10, 50],
        "loss_probability": [0.02, 0.0, 0.01, 0.0, 0.1],
    },
    links={
        "link": ["R1", "R2"],
        "loss_probability": [0.01, 0.02],
        "utilization": [0.5, 0.9],
        "queue_packets": [4.0, 7.0],
        "queue_ms": [5.0, 12.0],
    },
    transfers={
        "flow": ["a", "a", "a", "b"],
        "bytes": [1_000_000, 1_000_000, 2_000_000, 500_000],
        "duration_s": [1.0, 2.0, 4.0, 1.0],
        "start_s": [0.5, 1.0, 1.5, 1.9],
    },
    flow_samples={
        "time_s": [1.0, 1.0, 1.0, 2.0, 2.0, 2.0],
        "flow": ["a", "a", "b"] * 2,
        "user": [0, 1, 0] * 2,
        "goodput_mbps": [1.0, 1.0, 4.0, 3.0, 5.0, 0.0],
        "kappa": [1.0, 1.0, 2.0, 3.0, 3.0, 2.0],
        "buffer_packets": [4, 5, 2, 3, 3, 9],
        "delivered_bytes": [250_000, 125_000, 0, 500_000, 500_000, 0],
    },
    path_samples={
        # User 0 of a has two paths, user 1 only one that moves; four samples, half a second apart.
        "time_s": [t for t in (0.5, 1.0, 1.5, 2.0) for _ in range(3)],
        "flow": ["a"] * 12,
        "user": [0, 0, 1] * 4,
        "path": [0, 1, 0] * 4,
        "window_packets": [4.0, 4.0, 10.0, 4.0, 2.0, 10.0, 8.0, 2.0, 10.0, 4.0, 2.0, 10.0],
        "one_way_delay_ms": [10.0, 20.0, 30.0] * 4,
        "lost_packets": [1, 0, 2] * 4,
        "rtt_ms": [50.0, 70.0, 60.0] * 2 + [90.0, 70.0, 60.0] * 2,
        "goodput_mbps": [0.0, 1.0, 2.0, 1.0, 1.0, 2.0, 2.0, 1.0, 2.0, 2.0, 1.0, 2.0],
    },
    link_samples={
        "time_s": [1.0, 1.0, 2.0, 2.0],
        "link": ["R1", "R2"] * 2,
        "queue_packets": [2, 0, 6, 14],
        "dropped_packets": [10, 0, 30, 0],
        "throughput_mbps": [0.12, 1.0, 0.12, 1.0],
    },
)

RATE = {"flow": "a", "packet_bytes": 1000}
CORRELATION = {**RATE, "bin_s": 0.5}
JAIN = {"flows": ["a"], "packet_bytes": 1000}
SHIFT = {**RATE, "path": 0, "from_s": 0.0, "to_s": 2.0, "within_mbps": 0.05}
USER_0 = 16 / 45 + 8 / 35
PATH_0 = np.array([0.64, 0.64, 32 / 45, 16 / 45])

GAIN = {"flow": "a", "path": 0, "after_s": 0.0, "average_from_s": 1.0}


@pytest.mark.parametrize(
    ("quantity", "parameters", "value"),
    [
        ("user_goodput_mbps", {"flow": "a"}, 2.0),  # (1 + 3) / 2 users
        ("user_goodput_mbps", {"flow": "b"}, 0.5),
        (
            "user_goodput_mbps",
            {"flow": "a", "from_s": 1},
            4.0,
        ),  # (3 + 5) / 2; the sample at 1 s is excluded
        ("user_goodput_mbps", {"flow": "b", "to_s": 1}, 4.0),
        ("user_goodput_mbps", {"flow": "a", "from_s": 0, "to_s": 2}, 2.5),  # (1 + 1 + 3 + 5) / 4
        ("aggregate_goodput_mbps", {}, 4.5),  # 1 + 3 + 0.5
        ("aggregate_goodput_mbps", {"to_s": 1}, 6.0),  # 1 + 1 + 4
        ("aggregate_goodput_mbps", {"from_s": 0}, 7.0),  # (6 + 3 + 5 + 0) / 2 samples
        ("goodput_share", {"flow": "a"}, 8 / 9),  # 4 / 4.5
        ("relative_goodput", {"flow": "a", "to": "b"}, 4.0),  # 2 / 0.5, users' means
        ("path_share", {"flow": "a", "path": 0}, 0.65),  # 2.6 / 4
        ("user_timeouts", {"flow": "a"}, 4.0),  # (3 + 5) / 2
        ("path_goodput_mbps", {"flow": "a", "path": 0}, 1.3),  # (0.6 + 2) / 2
        ("path_goodput_mbps", {"flow": "a", "path": 1, "from_s": 1}, 1.0),
        ("path_rtt_ms", {"flow": "a", "path": 0}, 120.0),  # (100 + 140) / 2 users
        ("path_rtt_ms", {"flow": "a", "path": 1}, 50.0),  # the other user has no RTT sample
        ("path_rtt_ms", {"flow": "a", "path": 0, "from_s": 1}, 75.0),  # (90 + 60) / 2
        # User 0: 0, 1/2, 2/3, 2/3, of variance 43/576; user 1 always 1.
        ("share_swing", {"flow": "a", "path": 0, "bin_s": 0.5}, (43 / 576) ** 0.5 / 2),
        ("path_losses_per_s", {"flow": "a", "path": 0}, 1.25),  # (2 + 3) / 2 users / 2 s
        # Of 1, 1 and 2 MB: 1 and 2 s per MB, and 2 s per MB.
        ("slowdown_spread", {"flow": "a"}, 0.75),
        ("path_loss_probability", {"flow": "a", "path": 0}, 0.0125),  # (2 + 3) / 400
        ("link_loss_probability", {"link": "R2"}, 0.02),
        ("link_utilization", {"link": "R1"}, 0.5),
        ("link_queue_packets", {"link": "R2"}, 7.0),
        ("link_queue_packets", {"link": "R1", "from_s": 0}, 4.0),  # (2 + 6) / 2
        # User 0 receives 250 and then 375 kB in samples of 1 s, user 1 250 kB in each. Each has
        # 125 kB that wait once: the mean of four samples is 62.5 kB, 0.5 Mbit, at 2.5 Mbps.
        ("order_wait_ms", {"flow": "a"}, 200.0),
        ("order_wait_ms", {"flow": "a", "from_s": 1}, 125.0),  # 0.5 Mbit at 4 Mbps
        ("order_waiting_share", {"flow": "a"}, 0.5),
        ("order_waiting_share", {"flow": "a", "to_s": 1}, 0.5),
        # (1 + 3 + 0.5)^2 / (3 (1 + 9 + 0.25)) = 20.25 / 30.75
        ("user_jain_index", {}, 20.25 / 30.75),
        ("user_jain_index", {"flow": "a"}, 0.8),  # 16 / (2 * 10)
        ("user_jain_index", {"flow": "a", "to_s": 1}, 1.0),
        # Over both samples users got 2, 3 and 2: 49 / (3 * 17).
        ("user_jain_index", {"from_s": 0}, 49 / 51),
        # Rates 8, 4 and 4: 16^2 / (3 (64 + 16 + 16)); with b's 4 they are 400 / (4 * 112).
        ("transfer_jain_index", {"flow": "a"}, 8 / 9),
        ("transfer_jain_index", {}, 25 / 28),
        ("transfer_mbps", {"flow": "a"}, 16 / 3),  # (8 + 4 + 4) / 3
        ("transfer_mbps", {}, 5.0),  # (8 + 4 + 4 + 4) / 4
        ("transfers_sum_mbps", {"flow": "a"}, 16.0),
        ("transfer_s", {}, 2.0),  # (1 + 2 + 4 + 1) / 4
        ("transfer_quantile_s", {"share": 0.5, "flow": "a"}, 2.0),
        ("transfers_longer", {"than_s": 1.0, "flow": "a"}, 2 / 3),
        ("transfers_longer", {"than_s": 2.0}, 1 / 4),
        ("transfers_longer", {"than_s": 2.0, "skip": 0.5}, 1 / 2),  # after 1 s of 2
        ("transfers_done", {"flow": "a"}, 5.0),
        ("transfers_done", {"flow": "b"}, 0.0),
        # a's path 0, user 0: 0, 1, 2, 2, which reaches 0.9 of 2 at 1.5 s; user 1 is there at 0.5.
        ("convergence_s", GAIN, 1.0),
        # Bins of 1 s average 0.5 and 2: only the second reaches the goal. User 1 needs one bin.
        ("convergence_s", {**GAIN, "bin_s": 1.0}, 1.5),
        ("convergence_s", {**GAIN, "within": 0.5}, 0.75),  # (1.0 + 0.5) / 2
        # User 0: 8, 6, 10, 6 with mean 7.5 and squares of deviations 0.25, 2.25, 6.25, 2.25, so
        # sqrt(11 / 4) / 7.5; user 1 is constant. Their mean is half of it.
        ("window_variation", {"flow": "a"}, 2.75**0.5 / 7.5 / 2),
        ("window_variation", {"flow": "a", "from_s": 1.5}, 0.0),
        # User 0 falls from 8 to 6 and from 10 to 6: (0.25 + 0.4) / 2.
        ("window_drop_per_loss", {"flow": "a"}, 0.325),
        ("window_drop_per_loss", {"flow": "a", "to_s": 1}, 0.25),
        # In Mbps, windows of 1000 bytes over RTT: user 0 has 0.64, 0.64, 32/45 and 16/45 on path 0,
        # then 16/35 and three times 8/35 on path 1; user 1 always 4/3.
        ("window_rate_mbps", {**RATE, "path": 0}, (88 / 150 + 4 / 3) / 2),
        ("window_rate_mbps", {"packet_bytes": 1000, "path": 0}, (88 / 150 + 4 / 3) / 2),
        ("window_rate_mbps", {**RATE, "from_s": 1.5}, (USER_0 + 4 / 3) / 2),
        # Windows of 5, 2.5 and 10 packets in the mean; 1000 bytes in 100 ms are 0.08 Mbps.
        ("expected_rate_mbps", {**RATE, "base_rtt_ms": 100}, 17.5 / 3 * 0.08),
        ("window_rate_variation", {**RATE, "path": 0}, PATH_0.std() / PATH_0.mean() / 2),
        ("window_rate_variation", {**RATE, "path": 0, "from_s": 0.5, "to_s": 1.0}, 0.0),
        (
            "window_rate_jain_index",
            {**JAIN, "from_s": 1.5},
            (USER_0 + 4 / 3) ** 2 / 2 / (USER_0**2 + 16 / 9),
        ),
        # In bins of 1 s user 0 has 0.64 and 24/45.
        ("window_rate_span_mbps", {**RATE, "path": 0, "bin_s": 1.0}, (0.64 - 24 / 45) / 2),
        # Among four points path 1 stands out in the first: (0.64 - mean) / deviation / sqrt 3.
        ("window_rate_correlation", CORRELATION, (0.64 - PATH_0.mean()) / PATH_0.std() / 3**0.5),
        ("shift_s", {**SHIFT, "target_mbps": 0.7, "bin_s": 0.5}, (1.5 + 2.0) / 2),
        ("shift_s", {**SHIFT, "target_mbps": 0.55, "bin_s": 1.0}, 2.0),
        ("kappa", {"flow": "a"}, 2.0),  # (1 + 1 + 3 + 3) / 4
        ("kappa", {"flow": "b", "skip": 0.5}, 2.0),
        ("buffer_packets", {"flow": "a"}, 3.75),  # (4 + 5 + 3 + 3) / 4
        ("buffer_packets", {"flow": "b", "skip": 0.5}, 9.0),
        # Flow a has 2 of 4, then 6 of 8.
        ("kappa_share", {"flow": "a"}, 0.625),
        ("kappa_share", {"flow": "a", "skip": 0.5}, 0.75),
        ("shares_above_loads", {"loads": {"a": 0.4, "b": 0.2}}, 1.0),
        ("shares_above_loads", {"loads": {"a": 0.4, "b": 0.3}}, 0.5),
        (
            "shares_above_loads",
            {"loads": {"a": 0.5}},
            0.5,
        ),  # a share equal to the load does not exceed it
        # The second sample has 9 and 2 packets before it and 6 and 9 after it; a gets 8 of 8.
        ("backlogged_share", {"flow": "a", "packets": 1}, 1.0),
        # Users of a have 1 and 3, and 1 and 5 Mbps; over 2 s they have 2 and 3.
        ("time_below", {"flow": "a", "mbps": 2.0, "from_s": 0}, 0.5),
        ("time_below", {"flow": "a", "mbps": 4.0, "from_s": 0}, 0.75),
        ("time_below", {"flow": "a", "mbps": 2.5, "from_s": 0, "bin_s": 2.0}, 0.5),
        ("link_queue_ms", {"link": "R2"}, 12.0),
        # A packet of 1500 bytes is 0.012 Mb: 10 pass in each second, 10 and then 30 are dropped.
        ("link_loss_peak", {"link": "R1", "bin_s": 1.0}, 0.75),
        ("link_loss_peak", {"link": "R1", "bin_s": 2.0}, 40 / 60),
        ("user_loss_probability", {"flow": "a"}, 6 / 400),
        ("delay_quantile_ms", {"flow": "a", "share": 0.5}, 20.0),
        # 105 packets a path in 2 s.
        ("packets_per_rtt", {"flow": "a", "rtt_ms": 100.0}, 5.25),
        ("path_lost_packets", {"flow": "a"}, 4.0),  # 4, 0 and 8
        ("path_lost_packets", {"flow": "a", "from_s": 1.0}, 2.0),
        # The mean over three users and two seconds is 14 / 6. User 0 of a has 1 and then 3 Mbps.
        ("starved_s", {"flow": "b"}, 1.0),
        ("starved_s", {"flow": "a"}, 0.0),
        ("starved_s", {"flow": "a", "below": 0.4}, 0.0),
        ("starved_s", {"flow": "a", "below": 0.5}, 1.0),
        ("starved_s", {"flow": "a", "below": 1.5}, 2.0),
        # The sums 18, 16, 20, 16 have the variance 11 / 3; the windows 4, 1 and 0.
        ("window_synchrony", {"flow": "a"}, 11 / 15),
        ("window_quantile", {"flow": "a", "share": 1}, 10.0),
        ("window_quantile", {"flow": "a", "share": 0, "to_s": 0.5}, 4.0),
        # The sums 8, 6, 10, 6 of user 0 fall at 1 and 2 s, those of user 1 never.
        ("window_period_s", {"flow": "a"}, 1.0),
        # 500 000 bytes in 1 s.
        ("delivered_mbps", {"flow": "b"}, 4.0),
        # Durations 4, 2, 1, 1: the largest quarter is 4, the next is 2.
        ("tail_index_hill", {"largest": 0.25}, 1 / np.log(2)),
        # On the grid i = 0 ... 29 of 4^(i/29) log2 P is 0 at i = 0, -1 up to 14, -2 beyond. Least
        # squares on i: (98 - 225) / (30 * 899 / 12); on log2 x that times 29 / 2.
        ("tail_index_fit", {"low_s": 1.0, "high_s": 4.0}, 127 / 2247.5 * 14.5),
        # With 4 and 1 alone P is 1 at i = 0 and 1/2 above: least squares of 14.5 / (30 * 899 / 12).
        ("tail_index_fit", {"low_s": 1.0, "high_s": 4.0, "skip": 0.5}, 14.5 / 2247.5 * 14.5),
    ],
)
def test_quantities_of_a_hand_made_run(quantity: str, parameters: dict, value: float) -> None:
    assert measure(quantity, RUN, **parameters) == pytest.approx(value)


def test_every_quantity_is_tested_above_and_has_a_docstring() -> None:
    (marker,) = (
        mark for mark in test_quantities_of_a_hand_made_run.pytestmark if mark.name == "parametrize"
    )
    assert {entry[0] for entry in marker.args[1]} == set(QUANTITIES)
    assert all(quantity.__doc__ for quantity in QUANTITIES.values())


def test_an_aggregate_of_two_runs_is_their_mean() -> None:
    two = frames(flows={"seed": [1, 1, 2, 2], "goodput_mbps": [1.0, 2.0, 3.0, 4.0]})
    assert measure("aggregate_goodput_mbps", two) == pytest.approx(5.0)  # (3 + 7) / 2


def test_jains_index_of_two_runs_is_their_mean() -> None:
    flows = {"seed": [1, 1, 2, 2], "flow": ["a"] * 4, "user": [0, 1] * 2}
    two = frames(flows={**flows, "goodput_mbps": [1.0, 1.0, 2.0, 0.0]})
    assert measure("user_jain_index", two) == pytest.approx(0.75)  # (1 + 1/2) / 2


def test_a_drop_is_relative_to_the_first_value() -> None:
    assert drop_percent(60.0, 51.0) == pytest.approx(15.0)
    assert drop_percent(2.0, 2.1) == pytest.approx(-5.0)


def test_a_ccdf_counts_values_at_least_as_large() -> None:
    x = np.array([0.5, 1.0, 1.5, 2.0, 4.0, 4.1])
    expected = [1.0, 1.0, 0.5, 0.5, 0.25, 0.0]
    np.testing.assert_allclose(ccdf(np.array([1.0, 1.0, 2.0, 4.0]), x), expected)


def test_a_fit_through_three_points_of_a_power_law_is_exact() -> None:
    # P(X >= 1, 2, 4) = 1, 1/2, 1/4: slope -1 through the origin.
    slope, intercept = tail_fit([1.0, 1.0, 2.0, 4.0], 1.0, 4.0, points=3)
    assert slope == pytest.approx(-1.0)
    assert intercept == pytest.approx(0.0, abs=1e-12)


def test_both_estimators_find_the_index_of_paretos_quantiles() -> None:
    # P(X >= x) = x^-1.5 at x = (n / i)^(1 / 1.5), i = 1 ... n. The sum of ln(n / i) over the k
    # largest differs from k by about ln(2 pi k) / 2: 0.3 % at k = 1000.
    quantiles = (10_000 / np.arange(1, 10_001)) ** (1 / 1.5)
    assert hill(quantiles, 0.1) == pytest.approx(1.5, rel=0.01)
    slope, _ = tail_fit(quantiles, 2.0, 50.0)
    assert slope == pytest.approx(-1.5, rel=0.01)


@pytest.mark.parametrize(
    ("quantity", "parameters", "says"),
    [
        ("speed", {}, "unknown quantity 'speed': expected one of "),
        ("user_goodput_mbps", {"flow": "c"}, "no flow 'c': expected one of a, b"),
        ("path_rtt_ms", {"flow": "b", "path": 1}, "no path 1: expected one of 0"),
        ("link_utilization", {}, "link"),
        ("user_goodput_mbps", {"flow": "a", "from_s": 9}, "no samples from 9 to inf s"),
        ("tail_index_hill", {"largest": 0.1}, "4 transfers have no tail of 0.1 of them"),
        ("tail_index_fit", {"low_s": 5, "high_s": 9}, "no transfers last from 5 to 9 s"),
        ("transfer_quantile_s", {"share": 90}, "in the interval [0, 1]"),
        ("delay_quantile_ms", {"flow": "a", "share": -1}, "in the interval [0, 1]"),
    ],
)
def test_a_wrong_measure_is_reported_in_one_line(
    quantity: str, parameters: dict, says: str
) -> None:
    with pytest.raises(ScenarioError, match=re.escape(says)) as error:
        measure(quantity, RUN, **parameters)
    assert "\n" not in str(error.value)


def test_a_discarded_window_sample_is_not_a_window_of_zero() -> None:
    # User 0 has the windows 8, 6, 10, 6. Without the third the mean is 20/3 and the variance
    # (64 + 36 + 36) / 3 - 400/9 = 8/9; user 1 does not vary. With a 0 for path 0 it would be 2.
    samples = RUN.path_samples.copy()
    samples.loc[6, "window_packets"] = np.nan
    run = replace(RUN, path_samples=samples)
    expected = (8 / 9) ** 0.5 / (20 / 3) / 2
    assert measure("window_variation", run, flow="a") == pytest.approx(expected)
