"""The distance of a run from the optimum, on samples made by hand."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from anabranch.runner import run
from anabranch.scenario import Scenario
from anabranch.theory.optimum.distance import distance, price_spread
from anabranch.theory.optimum.optimum import optima
from conftest import Anabranch
from theory.optimum.problems import TWO_LINKS

SCENARIO = Scenario.parse(
    TWO_LINKS.replace("duration_s = 60", "duration_s = 2\nsample_ms = 1000\nwarmup_s = 0")
)
BOTH = {"both": (2.0, 3.0), "above": (4.0,), "below": (5.0,)}
"""Mbps of each path."""


def samples(rates, losses=0, rtt_ms=50.0, times=(1.0, 2.0)):
    """The two tables of samples that a distance looks at; one row per path and time."""
    keys = {"algorithm": "lia", "seed": 1, "user": 0}
    flows = [
        {**keys, "time_s": t, "flow": flow, "goodput_mbps": sum(paths)}
        for t in times
        for flow, paths in rates.items()
    ]
    paths = [
        {
            **keys,
            "time_s": t,
            "flow": flow,
            "path": path,
            "goodput_mbps": rate,
            "lost_packets": losses[path] if flow == "both" and losses else 0,
            "rtt_ms": rtt_ms[path] if isinstance(rtt_ms, tuple) else rtt_ms,
        }
        for t in times
        for flow, of_paths in rates.items()
        for path, rate in enumerate(of_paths)
    ]
    return pd.DataFrame(flows), pd.DataFrame(paths)


@pytest.fixture(scope="module")
def result():
    """A run whose samples the tests replace."""
    return run(SCENARIO, "lia", seeds=1)


def far(result, flows, paths, scenario=SCENARIO):
    made = replace(result, flow_samples=flows, path_samples=paths, scenario=scenario)
    (row,) = distance(made, optima(scenario)).frame.to_dict(orient="records")
    return row


def test_efficiency_fairness_and_utility_by_hand(result):
    # The optimum is 5 Mbps each; measured are 5, 4 and 5.
    row = far(result, *samples(BOTH))
    assert row["efficiency"] == pytest.approx(14 / 15, abs=1e-5)
    assert row["jain_index"] == pytest.approx(14**2 / (3 * (25 + 16 + 25)))
    assert row["optimal_jain_index"] == pytest.approx(1)
    assert row["utility_gap"] == pytest.approx(np.log(5 / 4) / 3, abs=1e-5)


def test_at_the_optimum_nothing_is_missing(result):
    row = far(result, *samples({"both": (1.0, 4.0), "above": (5.0,), "below": (5.0,)}))
    assert row["efficiency"] == pytest.approx(1, abs=1e-5)
    assert row["utility_gap"] == pytest.approx(0, abs=1e-5)


def test_the_spread_of_losses_by_hand(result):
    # 2 Mbps are 250 packets of 8000 bits in a second, 3 Mbps 375. 250 + 250 lost of 1000 on the
    # one path is 1/2, 125 + 125 of 1000 on the other 1/4: (1/2 - 1/4) / (1/2).
    row = far(result, *samples(BOTH, losses=(250, 125)))
    assert row["price_spread"] == pytest.approx(1 / 2)


def test_a_path_that_is_not_used_has_no_price(result):
    row = far(result, *samples({**BOTH, "both": (0.1, 4.9)}, losses=(250, 125)))
    assert np.isnan(row["price_spread"])


def test_the_spread_of_queueing_delays_by_hand():
    # Base RTT: 40 ms and 8000 bits at 6 or 9 Mbps, 4/3 and 8/9 ms. 30 and 10 ms wait.
    _, paths = samples(BOTH, losses=(250, 250), rtt_ms=(40 + 4 / 3 + 30, 40 + 8 / 9 + 10))
    (best,) = optima(SCENARIO)
    assert price_spread(paths, 1.0, best, {"both"}) == pytest.approx((30 - 10) / 30)


def test_the_price_of_a_delay_based_rule_is_its_queueing_delay(result):
    flows, paths = samples(BOTH, losses=(250, 250), rtt_ms=(40 + 4 / 3 + 30, 40 + 8 / 9 + 10))
    lossy, delayed = far(result, flows, paths), paths.assign(algorithm="wvegas")
    # At equal losses of unequal rates: 1/2 and 250 of 625.
    assert lossy["price_spread"] == pytest.approx((0.5 - 0.4) / 0.5)
    row = far(result, flows.assign(algorithm="wvegas"), delayed)
    assert row["price_spread"] == pytest.approx((30 - 10) / 30)


def test_intervals_are_weighted_by_their_length(result):
    # The upper link fails after 1 of 4 s: the optimum is 15 Mbps, then 9 for the other two.
    text = TWO_LINKS.replace("duration_s = 60", "duration_s = 4")
    text = text.replace("rate_mbps = 6", "rate_mbps = 6\ndown = [{ from_s = 1, to_s = 9 }]")
    first = samples(BOTH, times=(1.0,))
    rest = samples({"both": (0.0, 4.5), "above": (0.0,), "below": (4.5,)}, times=(2.0, 3.0, 4.0))
    flows, paths = (pd.concat(pair) for pair in zip(first, rest, strict=True))
    paths.loc[(paths["flow"] == "both") & (paths["time_s"] == 1), "lost_packets"] = [250, 125]
    row = far(result, flows, paths, Scenario.parse(text))
    # Prices can be compared only in the first second: 250 of 500 are lost, and 125 of 500.
    assert row["price_spread"] == pytest.approx(1 / 2)
    assert row["efficiency"] == pytest.approx((14 / 15 + 3 * 1) / 4, abs=1e-5)


def test_the_warm_up_does_not_count(result):
    text = TWO_LINKS.replace("duration_s = 60", "duration_s = 2\nwarmup_s = 1")
    nothing = samples({"both": (0.0, 0.0), "above": (0.0,), "below": (0.0,)}, times=(1.0,))
    flows, paths = (
        pd.concat(pair) for pair in zip(nothing, samples(BOTH, times=(2.0,)), strict=True)
    )
    row = far(result, flows, paths, Scenario.parse(text))
    assert row["efficiency"] == pytest.approx(14 / 15, abs=1e-5)


def test_a_user_without_goodput_has_an_infinite_gap_which_is_null_in_json(result):
    flows, paths = samples({"both": (5.0, 5.0), "above": (0.0,), "below": (5.0,)})
    made = replace(result, flow_samples=flows, path_samples=paths)
    found = distance(made, optima(SCENARIO)).as_dict()
    (row,) = json.loads(json.dumps(found, allow_nan=False))
    assert row["utility_gap"] is None
    assert row["efficiency"] == pytest.approx(1, abs=1e-5)


def test_the_commands_print_the_distance(small, anabranch: Anabranch):
    # Without warm-up, so that no data counts that arrived out of order before the measurement.
    done = anabranch("run", small, "--optimum", "--json", "--set", "measure.warmup_s=0")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["optimum"]
    # Queues and starts take the rest.
    assert 0.5 < row["efficiency"] <= 1.001
    done = anabranch("compare", small, "-a", "lia,olia", "--optimum")
    assert "Distance from the optimum" in done.stdout
    assert done.stdout.count("olia") >= 2


def test_a_scenario_without_an_optimum_fails_early(long, anabranch: Anabranch):
    text = long.read_text().replace(
        'algorithm = "reno"', "workload.on_off = { on_s = 1, off_s = 1 }"
    )
    long.write_text(text)
    done = anabranch("run", long, "--optimum")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "has no optimum" in done.stderr
