"""From numbers to a verdict, by hand."""

import math
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anabranch.judge.entries import Item, Measure, Point
from anabranch.judge.networks import Network
from anabranch.judge.verdict import FAILS, HOLDS, Number, of_numbers

LOSS = Measure("link_loss_probability", "loss", "why", at_most_of_reference=2.0, at_most=0.01)
GOODPUT = Measure("user_goodput_mbps", "goodput", "why", at_least_of_reference=0.8)
ITEM = Item(
    "5.2.1", "MUST", "Harm", "?", points=(Point("small"), Point("large")), measures=(GOODPUT,)
)


def number(measure: Measure, ours: list[float], reno: list[float], label: str = "small") -> Number:
    network = cast(Network, SimpleNamespace(label=label))
    seeds = dict(enumerate(ours, 1))
    return Number(measure, network, seeds, {"reno": dict(enumerate(reno, 1))})


def test_a_number_is_the_mean_beside_a_multiple_of_the_reference() -> None:
    one = number(GOODPUT, [3.0, 5.0], [4.0, 6.0])
    assert (one.value, one.bound, one.holds) == (4.0, 4.0, True)
    assert one.in_words == "4.00 >= 4.00 (0.8 x reno's 5.00)"
    less = number(GOODPUT, [3.0, 4.9], [4.0, 6.0])
    assert not less.holds
    assert less.margin == pytest.approx(3.95 / 4)
    assert less.in_words == "3.95 < 4.00 (0.8 x reno's 5.00)"


def test_a_small_number_is_no_failure_beside_a_smaller_one() -> None:
    assert number(LOSS, [0.009], [0.001]).holds
    assert not number(LOSS, [0.011], [0.001]).holds
    assert number(LOSS, [0.011], [0.006]).holds
    assert number(LOSS, [0.0], [0.0]).margin == math.inf


def test_what_cannot_be_measured_fails_unless_the_reference_has_nothing_either() -> None:
    nothing = number(GOODPUT, [math.nan, 2.0], [4.0, 6.0])
    assert not nothing.holds
    assert nothing.in_words == "nothing was measured, as where no file ended"
    assert nothing.as_dict()["value"] is None
    assert number(GOODPUT, [1.0], [math.nan]).holds


def test_the_counterexample_is_the_first_and_the_worst_is_named_beside_it() -> None:
    numbers = [
        number(GOODPUT, [5.0], [5.0]),
        number(GOODPUT, [3.0], [5.0], "large"),
        number(GOODPUT, [1.0], [5.0], "larger"),
    ]
    verdict = of_numbers("harm", ITEM, numbers)
    assert verdict.result == FAILS
    assert verdict.counterexample is numbers[1]
    assert verdict.worst is numbers[2]
    assert verdict.says == (
        "large: goodput: 3.00 < 4.00 (0.8 x reno's 5.00); "
        "worst at larger: 1.00 < 4.00 (0.8 x reno's 5.00)"
    )
    held = of_numbers("harm", ITEM, numbers[:1])
    assert (held.result, held.counterexample) == (HOLDS, None)


def test_the_seed_of_a_counterexample_crosses_alone_by_most() -> None:
    # Alone: 3 of 4, 1 of 4.8; together 2 of 4.4.
    assert number(GOODPUT, [3.0, 1.0], [5.0, 6.0]).counterexample_seeds == [2]
    # 4 of 4 and 4 of 3.2: none crosses alone.
    assert number(GOODPUT, [4.0, 4.0], [5.0, 4.0]).counterexample_seeds == [1, 2]


def test_a_verdict_is_plain_data() -> None:
    verdict = of_numbers("harm", ITEM, [number(GOODPUT, [3.0], [5.0])])
    plain: dict[str, Any] = verdict.as_dict()
    assert plain["result"] == "fails"
    assert plain["counterexample"]["seeds"] == {"1": 3.0}
    assert plain["counterexample"]["bound"] == 4.0
