"""Numbers with bounds hold what soft floats give, and find what must not happen."""

import math
import operator
import random
from fractions import Fraction

import pytest

from bounds.monomial import OutOfRange
from bounds.number import UNIT, Case, DivisionByZero, Infeasible, Number

INPUTS = {"x": (1.0, 2.0**24), "y": (2.0**-20, 100.0), "z": (2.0, 3.0)}

OPERATIONS = [
    (operator.add, operator.add),
    (operator.sub, operator.sub),
    (operator.mul, operator.mul),
    (operator.truediv, operator.truediv),
    (Number.maximum, max),
    (Number.minimum, min),
]
"""Operations of numbers with bounds, and of fractions."""


def soft(exact: Fraction) -> Fraction:
    """The nearest number with a mantissa of 32 bits."""
    if not exact:
        return exact
    unit = Fraction(2) ** (math.frexp(float(exact))[1] - 32)
    return round(exact / unit) * unit


@pytest.fixture
def case() -> Case:
    return Case()


def test_a_part_of_a_sum_is_at_most_the_sum(case: Case):
    x, y = (case.input(name, *INPUTS[name]) for name in "xy")
    # Five operations, of which two squares count twice: the bound is 1 and some units.
    low, high = (x * x / ((x + y) * (x + y))).best
    assert 0 < low < 1e-3
    assert 1 <= high < 1 + 8 * UNIT


def test_the_largest_is_at_most_the_sum_and_at_least_each(case: Case):
    x, y = (case.input(name, *INPUTS[name]) for name in "xy")
    largest = x.maximum(y)
    assert (largest / (x + y)).best[1] < 1 + 4 * UNIT
    assert (largest / y).best[0] > 1 - 4 * UNIT
    assert (x.minimum(y) / x).best[1] < 1 + 4 * UNIT


def test_a_difference_from_a_larger_number_is_not_negative(case: Case):
    x, y = (case.input(name, *INPUTS[name]) for name in "xy")
    assert (x.maximum(y) - y).bounds[0] == 0
    assert (x - y).bounds[0] == pytest.approx(1 - 100)


def test_a_comparison_bounds_the_quotient_and_both_numbers(case: Case):
    x, y = (case.input(name, *INPUTS[name]) for name in "xy")
    assert x < y  # open, and the first answer is yes
    assert x.bounds[1] <= 100
    assert y.bounds[0] >= 1
    assert 1 <= (x / y).best[1] < 1 + 4 * UNIT
    assert case.asked == [(x.key, y.key)]


def test_the_other_answer_is_the_other_case():
    case = Case([False])
    x, y = (case.input(name, *INPUTS[name]) for name in "xy")
    assert not x < y
    assert 1 <= (y / x).best[1] < 1 + 4 * UNIT


def test_answers_that_exclude_each_other_are_noticed():
    case = Case([True, True])
    x, z = case.input("x", 0, 10), case.input("z", 2, 3)
    assert x * 1 < z - 1  # hence x < 2
    with pytest.raises(Infeasible):
        x.narrow(5, 6)


def test_a_difference_that_is_not_0_has_a_smallest_magnitude(case: Case):
    x, y = case.input("x", 1, 4), case.input("y", 1, 4)
    rest = x.maximum(y) - y
    assert rest > 0
    # Two numbers of 32 bits of at least 1 differ by 2^-32 of that or more.
    assert UNIT / 4 < rest.bounds[0] <= UNIT


@pytest.mark.parametrize("seed", range(20))
def test_the_bounds_hold_every_result_of_soft_floats(seed: int):
    draw = random.Random(seed)
    answers: list[bool] = []
    case = Case(answers)
    pairs = []
    for name, (low, high) in INPUTS.items():
        value = soft(Fraction(low * (high / low) ** draw.random()))
        pairs.append((case.input(name, low, high), value))
    for _ in range(30):
        (a, p), (b, q) = draw.choice(pairs), draw.choice(pairs)
        of_numbers, of_fractions = draw.choice(OPERATIONS)
        try:
            pairs.append((of_numbers(a, b), soft(of_fractions(p, q))))
        except (DivisionByZero, OutOfRange):
            continue
        if draw.random() < 0.3:
            answers[len(case.asked) :] = [p < q]
            assert (a < b) == (p < q)
    for number, value in pairs:
        for low, high in (number.bounds, number.best):
            assert low <= value <= high


def test_what_must_not_happen_is_found(case: Case):
    x, y = case.input("x", 1, 2.0**40), case.input("y", 1, 2.0**40)
    with pytest.raises(DivisionByZero, match=r"sum\(1 x, -1 y\) may be 0"):
        1 / (x - y)
    with pytest.raises(OutOfRange, match=r"x\^25 may be above 2\^1000"):
        x**32
    with pytest.raises(OutOfRange, match=r"x\^-24 y\^-1 may be below 2\^-1000"):
        1 / (x**24) / y / y
    with pytest.raises(TypeError, match="whole powers only"):
        x**0.5
