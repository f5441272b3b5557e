"""From numbers to an answer, by hand."""

import math
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anabranch.experiments.decision import FAILS, HOLDS, UNDECIDED, Looks
from anabranch.experiments.networks import Network
from anabranch.experiments.numbers import Answer, Number
from anabranch.experiments.suite import Bound, Case, Item, Measure

LOSS = (
    Measure("loss", quantity="link_loss_probability"),
    Bound("m", "why", at_most_of=2.0, at_most=0.01),
)
GOODPUT = Measure("goodput", quantity="user_goodput_mbps"), Bound("m", "why", at_least_of=0.8)
BOUNDS = (GOODPUT[1],)
ITEM = Item("?", cases={"small": Case(), "large": Case()}, bounds=BOUNDS)
NAN = math.nan


def number(
    what: tuple[Measure, Bound],
    ours: list[float],
    reno: list[float],
    label: str = "small",
    **more: Any,
) -> Number:
    network = cast(Network, SimpleNamespace(label=label))
    seeds, others = dict(enumerate(ours, 1)), {"reno": dict(enumerate(reno, 1))}
    return Number(*what, network, "lia", seeds, others, Looks.one(len(ours)), **more)


def test_a_number_is_the_mean_beside_a_multiple_of_the_reference() -> None:
    one = number(GOODPUT, [3.0, 5.0], [4.0, 6.0])
    assert (one.value, one.limit, one.margin) == (4.0, (1, 4.0), 1.0)
    assert one.in_words == "4.00 >= 4.00 (0.8 x reno's 5.00)"
    less = number(GOODPUT, [3.0, 4.9], [4.0, 6.0])
    assert less.margin == pytest.approx(3.95 / 4)
    assert less.in_words == "3.95 < 4.00 (0.8 x reno's 5.00)"


def test_the_more_lenient_of_two_standards_counts_or_each() -> None:
    def limit(bound: Bound, each: bool = False) -> float:
        both = {"reno": {1: 2.0}, "cubic": {1: 3.0}}
        network = cast(Network, None)
        return Number(GOODPUT[0], bound, network, "lia", {1: 1.0}, both, Looks.one(1), each).limit[
            1
        ]

    assert limit(Bound("m", "", at_most_of=1.5)) == 4.5, "the larger of two standards"
    assert limit(Bound("m", "", at_least_of=0.5)) == 1.0, "the smaller of two standards"
    assert limit(Bound("m", "", at_least_of=0.5), each=True) == 1.5
    assert limit(Bound("m", "", at_most_of=1.5, at_most=5)) == 5.0
    assert limit(Bound("m", "", at_most_of=1.5, at_most=4)) == 4.5
    assert limit(Bound("m", "", at_least=0.9)) == 0.9
    words = Bound("m", "", at_most_of=1.5, at_most=5).in_words
    assert words == "at most 1.5 x the reference's, or 5"


def test_a_small_number_is_no_failure_beside_a_smaller_one() -> None:
    assert number(LOSS, [0.009] * 3, [0.001] * 3).result == HOLDS
    assert number(LOSS, [0.011] * 3, [0.001] * 3).result == FAILS
    assert number(LOSS, [0.011] * 3, [0.006] * 3).result == HOLDS
    assert number(LOSS, [0.0], [0.0]).margin == math.inf


def test_rule_and_reference_are_paired_by_seed() -> None:
    # 0.8 of the reference is below each number by 0.2: the seeds' own spread cancels.
    paired = number(GOODPUT, [1.0, 5.0, 9.0], [1.0, 6.0, 11.0])
    assert paired.result == HOLDS
    assert number(GOODPUT, [9.0, 5.0, 1.0], [1.0, 6.0, 11.0]).result == UNDECIDED


def test_a_bound_on_both_sides_is_a_band() -> None:
    band = GOODPUT[0], Bound("m", "why", at_least=1.0, at_most=2.0)
    assert number(band, [1.4, 1.5, 1.6], []).result == HOLDS
    assert number(band, [2.4, 2.5, 2.6], []).result == FAILS
    assert number(band, [1.6, 1.9, 2.1], []).result == UNDECIDED


def test_what_cannot_be_measured_fails_unless_the_reference_has_nothing_either() -> None:
    nothing = number(GOODPUT, [NAN] * 4, [4.0] * 4)
    assert nothing.result == FAILS
    assert nothing.in_words == "nothing was measured, as where no file ended"
    assert nothing.as_dict()["value"] is None
    assert number(GOODPUT, [1.0] * 4, [NAN] * 4).result == HOLDS
    assert number(GOODPUT, [NAN] * 4, [NAN] * 4).result == UNDECIDED
    some = number(GOODPUT, [9.0, NAN, 9.1, 9.2], [4.0] * 4)
    assert (some.result, some.value) == (UNDECIDED, pytest.approx(9.1))


def test_the_counterexample_is_the_first_and_the_worst_is_named_beside_it() -> None:
    numbers = [
        number(GOODPUT, [5.0] * 3, [5.0] * 3),
        number(GOODPUT, [3.0] * 3, [5.0] * 3, "large"),
        number(GOODPUT, [1.0] * 3, [5.0] * 3, "larger"),
    ]
    verdict = Answer.of("harm", ITEM, "lia", numbers)
    assert verdict.result == FAILS
    assert verdict.counterexample is numbers[1]
    assert verdict.worst is numbers[2]
    assert verdict.says == (
        "large: goodput: 3.00 < 4.00 (0.8 x reno's 5.00); "
        "worst at larger: 1.00 < 4.00 (0.8 x reno's 5.00)"
    )
    held = Answer.of("harm", ITEM, "lia", numbers[:1])
    assert (held.result, held.counterexample) == (HOLDS, None)
    plain = verdict.as_dict()
    assert (plain["result"], plain["rule"]) == ("fails", "lia")
    assert plain["counterexample"]["seeds"] == {"1": 3.0, "2": 3.0, "3": 3.0}
    assert plain["counterexample"]["bound"] == 4.0


def test_an_undecided_answer_says_how_many_seeds_would_decide() -> None:
    # 0.8 of 5 is 4: margins of 0.1, 0.3 and -0.1, mean 0.1, deviation 0.2.
    open_ = number(GOODPUT, [4.1, 4.3, 3.9], [5.0] * 3)
    verdict = Answer.of("harm", ITEM, "lia", [open_])
    assert verdict.result == UNDECIDED
    # t(17; 0.975) x 0.2 / sqrt(18) = 0.0995.
    assert verdict.says == (
        "small: goodput: 4.10 >= 4.00 (0.8 x reno's 5.00); 3 seeds do not decide, about 18 would"
    )


def test_the_margin_of_a_seed_is_that_of_its_own_numbers() -> None:
    one = number(GOODPUT, [3.0, 1.0], [5.0, 6.0])
    assert one.margin_of(1) == pytest.approx(3 / 4)
    assert one.margin_of(2) == pytest.approx(1 / 4.8)
