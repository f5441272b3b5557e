"""Rules in intervals: they hold what soft floats give, and find a division by 0."""

import random

import pytest

import rules
from anabranch import _core
from intervals import Case, DivisionByZero, Interval

UNIT = 2.0**-32


def interval(low: float, high: float, name: str = "x") -> Interval:
    return Interval(low, high, name, Case([]))


def test_the_rules_are_those_of_the_kernel_with_an_increase_per_packet():
    # Eleven headers, of which vegas_k and wvegas act once per round trip.
    assert len(rules.names()) == 9
    assert {"lia", "olia", "balia"} < set(rules.names())


@pytest.mark.parametrize("rule", rules.names())
def test_no_rule_divides_by_zero_or_saturates_on_one_path(rule: str):
    found = rules.bounds(rule, 1)
    assert found.failure == ""
    # Over one path a window of 1 to 2^24 has a decrease of half of it, Balia's up to 3/4.
    least, most = found.decrease
    assert most <= 0.75 * 2**24 * (1 + 32 * UNIT)
    assert least > 0
    assert found.increase[0] < found.increase[1]


@pytest.mark.parametrize("rule", rules.names())
def test_the_bounds_hold_the_values_of_the_rule(rule: str):
    found, law, draw = rules.bounds(rule, 1), _core.Law(rule), random.Random(1)
    for _ in range(100):
        window = 2 ** draw.uniform(0, 24)
        fields = {name: draw.choice(ranges)[1] for name, ranges in rules.FIELDS.items()}
        state = rules.State(**{**fields, "window": window, "rtt": 2 ** draw.uniform(-20, 9)})
        ((increase, decrease),) = law.evaluate_in([state])
        assert found.increase[0] <= float(increase) <= found.increase[1]
        assert found.decrease[0] <= float(decrease) <= found.decrease[1]


def test_a_divisor_that_may_be_zero_is_refused():
    with pytest.raises(DivisionByZero, match="1 / x"):
        1 / interval(0, 1)


def test_a_comparison_that_is_open_is_answered_as_the_case_says_and_narrows_both():
    a, b = interval(0, 2, "a"), interval(1, 3, "b")
    a.case = b.case = Case([False])
    assert not a < b
    assert (a.low, b.high) == (1, 2)
    assert a.case.asked == [("a", "b")]


def test_each_result_has_the_rounding_of_a_soft_float_besides():
    third = 1 / interval(3, 3)
    assert third.low <= 1 / 3 * (1 - UNIT)
    assert third.high >= 1 / 3 * (1 + UNIT)
