"""The quantities that papers measure, on a Result made by hand."""

import re

import pandas as pd
import pytest

from anabranch import Result, ScenarioError
from anabranch.quantities import QUANTITIES, drop_percent, measure


def frames(**tables: dict[str, list]) -> Result:
    """A Result of one run, of the tables given."""
    names = ("flows", "paths", "links", "transfers")
    samples = ("flow_samples", "path_samples", "link_samples")
    made = {name: pd.DataFrame(tables.get(name, {})) for name in names + samples}
    return Result(scenario=None, backend="sim", keys=("algorithm", "seed"), **made)


RUN = frames(
    flows={
        "seed": [1, 1, 1],
        "flow": ["a", "a", "b"],
        "user": [0, 1, 0],
        "goodput_mbps": [1.0, 3.0, 0.5],
    },
    paths={
        "flow": ["a", "a", "a", "a", "b"],
        "user": [0, 0, 1, 1, 0],
        "path": [0, 1, 0, 1, 0],
        "rtt_ms": [100.0, 50.0, 140.0, float("nan"), 80.0],
    },
    links={"link": ["R1", "R2"], "loss_probability": [0.01, 0.02], "utilization": [0.5, 0.9]},
)


@pytest.mark.parametrize(
    ("quantity", "parameters", "value"),
    [
        ("user_goodput_mbps", {"flow": "a"}, 2.0),  # (1 + 3) / 2 users
        ("user_goodput_mbps", {"flow": "b"}, 0.5),
        ("aggregate_goodput_mbps", {}, 4.5),  # 1 + 3 + 0.5
        ("path_rtt_ms", {"flow": "a", "path": 0}, 120.0),  # (100 + 140) / 2 users
        ("path_rtt_ms", {"flow": "a", "path": 1}, 50.0),  # the other never had an ACK
        ("link_loss_probability", {"link": "R2"}, 0.02),
        ("link_utilization", {"link": "R1"}, 0.5),
    ],
)
def test_quantities_of_a_run_made_by_hand(quantity: str, parameters: dict, value: float) -> None:
    assert measure(quantity, RUN, **parameters) == pytest.approx(value)


def test_every_quantity_is_tested_above_and_says_its_unit() -> None:
    (marker,) = (
        mark
        for mark in test_quantities_of_a_run_made_by_hand.pytestmark
        if mark.name == "parametrize"
    )
    assert {entry[0] for entry in marker.args[1]} == set(QUANTITIES)
    assert all(quantity.__doc__ for quantity in QUANTITIES.values())


def test_an_aggregate_of_two_runs_is_their_mean() -> None:
    two = frames(flows={"seed": [1, 1, 2, 2], "goodput_mbps": [1.0, 2.0, 3.0, 4.0]})
    assert measure("aggregate_goodput_mbps", two) == pytest.approx(5.0)  # (3 + 7) / 2


def test_a_drop_is_relative_to_what_was_before() -> None:
    assert drop_percent(60.0, 51.0) == pytest.approx(15.0)
    assert drop_percent(2.0, 2.1) == pytest.approx(-5.0)


@pytest.mark.parametrize(
    ("quantity", "parameters", "says"),
    [
        ("speed", {}, "unknown quantity 'speed': expected one of user_goodput_mbps"),
        ("user_goodput_mbps", {"flow": "c"}, "no flow 'c': expected one of a, b"),
        ("path_rtt_ms", {"flow": "b", "path": 1}, "no path 1: expected one of 0"),
        ("link_utilization", {}, "link"),
    ],
)
def test_a_wrong_measure_is_told_in_one_line(quantity: str, parameters: dict, says: str) -> None:
    with pytest.raises(ScenarioError, match=re.escape(says)) as error:
        measure(quantity, RUN, **parameters)
    assert "\n" not in str(error.value)
