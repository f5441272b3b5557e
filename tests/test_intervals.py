"""Paired differences: what may be called better, and what may not."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.intervals import paired_difference, ranking, seeds_to_decide

VALUES = st.lists(st.tuples(st.floats(0.01, 1000), st.floats(0.01, 1000)), min_size=2, max_size=12)


def by_seed(values: list[float] | np.ndarray) -> pd.Series:
    return pd.Series(list(values), index=range(1, len(values) + 1), dtype=float)


def test_the_interval_is_students_of_the_differences() -> None:
    # Differences 1, 1.5, 0.5: mean 1, deviation 0.5; t of 2 degrees of freedom is 4.3027, so half
    # is 4.3027 x 0.5 / sqrt(3) = 1.2421. Unpaired the deviation would be 5 and the half 12 times.
    found = paired_difference(by_seed([21, 31.5, 25.5]), by_seed([20, 30, 25]))
    assert (found.mean, found.n) == (1.0, 3)
    assert found.half == pytest.approx(1.2421, abs=1e-4)
    assert not found.decided


def test_a_seed_that_only_one_has_does_not_count() -> None:
    found = paired_difference({1: 5.0, 2: 6.0, 9: 100.0}, {2: 1.0, 1: 1.0, 7: 0.0})
    assert (found.mean, found.n) == (4.5, 2)


def test_one_seed_decides_nothing() -> None:
    found = paired_difference({1: 5.0}, {1: 1.0})
    assert np.isnan(found.half)
    assert not found.decided
    assert ranking({"a": by_seed([5]), "b": by_seed([1])}).decided == []


@given(VALUES, st.randoms(use_true_random=False))
def test_the_order_of_the_seeds_does_not_matter(pairs: list[tuple[float, float]], dice) -> None:  # type: ignore[no-untyped-def]
    a, b = (by_seed([pair[i] for pair in pairs]) for i in (0, 1))
    order = list(a.index)
    dice.shuffle(order)
    assert paired_difference(a[order], b) == paired_difference(a, b)
    assert paired_difference(a[order], b[order]) == paired_difference(a, b)


@given(VALUES)
def test_equal_samples_are_never_ranked(pairs: list[tuple[float, float]]) -> None:
    a = by_seed([pair[0] for pair in pairs])
    assert not paired_difference(a, a).decided
    # Rounding of the last digit is no difference either.
    assert not paired_difference(a * (1 + 1e-15), a).decided
    assert ranking({"a": a, "b": a.copy(), "c": a.copy()}).decided == []


@given(VALUES, st.integers(-20, 20))
def test_the_unit_of_the_numbers_does_not_matter(
    pairs: list[tuple[float, float]], power: int
) -> None:
    a, b = (by_seed([pair[i] for pair in pairs]) for i in (0, 1))
    scaled = paired_difference(a * 2.0**power, b * 2.0**power)
    assert scaled.decided == paired_difference(a, b).decided
    assert scaled.seeds_to_decide == paired_difference(a, b).seeds_to_decide


@given(st.integers(0, 2**32 - 1))
def test_a_difference_of_its_deviation_is_told_by_40_seeds(seed: int) -> None:
    # Mean 1 and deviation 1: t = sqrt(40) = 6.3, and 2.02 suffices; short by 4.3 deviations.
    dice = np.random.default_rng(seed)
    common = dice.normal(50, 20, 40)
    better = by_seed(common + dice.normal(1, 1, 40))
    found = ranking({"worse": by_seed(common), "better": better})
    assert (found.first, found.decided) == ("better", ["worse"])
    lowest = ranking({"worse": by_seed(common), "better": better}, least=True)
    assert (lowest.first, lowest.decided) == ("worse", ["better"])


@pytest.mark.parametrize("rules", [2, 3, pytest.param(6, marks=pytest.mark.slow)])
def test_rules_that_do_not_differ_are_ranked_in_a_twentieth_of_the_draws_at_most(
    rules: int,
) -> None:
    # 2000 draws of 5 seeds: 5 % are 100, and three deviations of a binomial more are 129.
    dice = np.random.default_rng(20261127)
    names = "abcdef"[:rules]
    told = 0
    for _ in range(2000):
        common = dice.normal(20, 5, 5)
        told += bool(ranking({n: by_seed(common + dice.normal(0, 2, 5)) for n in names}).decided)
    assert told <= 129
    # With all pairs allowed for, the test is not so strict that it says nothing: 1 % at least.
    assert told >= 20


def test_the_best_is_named_with_those_that_cannot_be_told_from_it() -> None:
    steady = {"a": by_seed([10, 11, 12]), "b": by_seed([9.9, 11.1, 12.1])}
    found = ranking({**steady, "c": by_seed([1, 2, 3])})
    # b is 0.03 above a with a deviation of 0.12; c is 9 below both.
    assert (found.best, found.decided) == (["a", "b"], ["c"])
    # The order of the rules changes nothing but the order of the names.
    for order in itertools.permutations([*steady, "c"]):
        again = ranking({name: {**steady, "c": by_seed([1, 2, 3])}[name] for name in order})
        assert sorted(again.best) == ["a", "b"]


def test_the_seeds_that_would_decide_follow_from_the_deviation() -> None:
    # Half is t(n - 1) x 2 / sqrt(n): 2.110 x 2 / 4.243 = 0.995 with 18 and 1.028 with 17 seeds.
    assert seeds_to_decide(1.0, 2.0) == 18
    assert seeds_to_decide(-1.0, 2.0) == 18
    # 0.001 of a deviation of 2 takes 16 million.
    assert seeds_to_decide(0.001, 2.0) == float("inf")
