"""Decisions by seeds: rates of wrong decisions, looks, bands, k of n, and what has no spread."""

import math

import numpy as np
import pytest

from anabranch.experiments.decision import Looks, Margin, Parts, decided, would_decide

FOUR = Looks((4, 8, 16, 32), 4)
APART = [1.0, 1.2, 1.4]
# With three seeds half a 95 % interval is 4.3027 x 0.2 / sqrt(3) = 0.4968.


def margin(values: list[float], looks: Looks | None = None, **more: float) -> Margin:
    return Margin(np.array(values, dtype=float), looks or Looks.one(len(values)), **more)


def below(values: list[float], most: float, **more: float) -> str:
    return decided(margin([most - value for value in values], **more))


@pytest.mark.parametrize(
    ("most", "verdict"),
    [
        (1.71, "holds"),
        (1.69, "undecided"),
        (1.2, "undecided"),
        (0.71, "undecided"),
        (0.69, "fails"),
    ],
)
def test_a_margin_is_undecided_where_the_interval_crosses_the_edge(
    most: float, verdict: str
) -> None:
    # 1.2 + 0.4968 = 1.6968 and 1.2 - 0.4968 = 0.7032
    assert below(APART, most) == verdict


@pytest.mark.parametrize(
    ("shape", "deviation"),
    [("normal", 0.01), ("normal", 0.05), ("normal", 0.2), ("log-normal", 0.05)],
)
def test_at_the_edge_at_most_one_item_in_forty_is_wrong_to_a_side(
    shape: str, deviation: float
) -> None:
    """2000 items whose true margin is 0: each decision is a wrong one, to one side or the other."""
    random = np.random.default_rng(743)
    draws = random.normal(size=(2000, 32))
    if shape == "log-normal":  # mean 0, skewed to one side
        draws = np.exp(0.5 * draws) / math.exp(0.125) - 1
    found = [decided(Margin(deviation * one, FOUR, 1.0)) for one in draws]
    assert found.count("holds") <= 50
    assert found.count("fails") <= 50
    assert found.count("undecided") > 1900


def test_at_the_edge_one_look_decides_one_item_in_twenty() -> None:
    draws = np.random.default_rng(1).normal(size=(2000, 5))
    found = [decided(Margin(one, Looks.one(5))) for one in draws]
    # 2.5 % of 2000 are 50 to a side, with a standard deviation of 7.
    assert 30 < found.count("holds") < 72
    assert 30 < found.count("fails") < 72


@pytest.mark.parametrize(("parts", "edge"), [(3, 0), (5, 2)])
def test_several_margins_at_the_edge_are_no_more_often_wrong(parts: int, edge: int) -> None:
    random = np.random.default_rng(5)
    counts = {"holds": 0, "fails": 0, "undecided": 0}
    for _ in range(1000):
        values = random.normal(size=(parts, 8))
        values[:edge] += 100  # inside beyond doubt
        whole = Parts.all([Margin(one, Looks.one(8)) for one in values])
        counts[decided(whole)] += 1
    assert counts["fails"] <= 35
    assert counts["holds"] <= 35


def test_a_band_needs_both_sides_and_fails_by_one_at_the_full_rate() -> None:
    def band(low: float, high: float) -> str:
        sides = [margin([v - low for v in APART]), margin([high - v for v in APART])]
        return decided(Parts.all(sides, exclusive=True))

    assert band(0.7, 1.7) == "holds"
    assert band(0.8, 1.7) == "undecided"
    assert band(0.1, 0.69) == "fails"


def test_margins_fail_by_an_interval_that_is_widened_for_their_number() -> None:
    # 0.573 below the edge is more than half an interval of 95 %, 0.4968, and less than one of
    # 97.5 %, 6.2053 x 0.2 / sqrt(3) = 0.7165.
    beyond, inside = margin([0.627 - v for v in APART]), margin([1.0, 1.1, 1.2])
    assert decided(Parts.all([beyond])) == "fails"
    assert decided(Parts.all([beyond, inside])) == "undecided"
    # One of any has to be inside at half the rate: 0.573 to the other side is not.
    assert decided(Parts([margin([v - 0.627 for v in APART]), beyond], 1)) == "undecided"
    assert decided(Parts([beyond, margin([9.0, 9.1, 9.2])], 1)) == "holds"
    assert decided(Parts([beyond, margin([-9.0, -9.1, -9.2])], 1)) == "fails"


def test_few_seeds_have_at_least_the_floor_s_deviation_and_the_last_look_its_own() -> None:
    close = [0.004, 0.005, 0.006, 0.005]
    # The floor is 0.05: t(3; 1 - 0.025 / 4) x 0.05 / 2 = 0.13, far more than the mean.
    assert decided(margin(close, FOUR, scale=1.0)) == "undecided"
    assert decided(margin(close * 8, FOUR, scale=1.0)) == "holds"
    assert decided(margin([5.0, 5.1, 4.9, 5.0], FOUR, scale=1.0)) == "holds"


def test_a_decision_of_an_early_look_stays() -> None:
    early = [5.0, 5.1, 4.9, 5.0]
    assert decided(margin([*early, -9.0, 9.0, -9.0, 9.0], FOUR, scale=1.0)) == "holds"


def test_a_margin_gives_up_where_four_times_the_last_look_would_not_decide() -> None:
    # z(1 - 0.025 / 4) = 2.498: (2.498 s / m)^2 > 128 where s / m > 4.53.
    def eight(mean: float) -> Margin:
        return margin([mean + one for one in (-1.0, 1.0) * 4], FOUR, scale=1.0)

    assert eight(0.2).hopeless, "s is 1.07, 5.3 times the mean"
    assert not eight(0.3).hopeless
    assert not margin([0.2, 1.2, -0.8, 0.2], FOUR, scale=1.0).hopeless, "not at the first look"


def test_how_many_seeds_would_decide() -> None:
    # A margin of 0.4: with four seeds half the interval is 3.1824 * 0.2 / 2 = 0.318.
    assert would_decide(margin([1.6 - v for v in APART])) == 4
    # A margin of 0.05 needs 1.96 * 0.2 / 0.05 squared, 61.5, and a little for Student's t.
    assert would_decide(margin([1.15 - v for v in APART])) == 64
    assert would_decide(margin([1.2001 - v for v in APART])) == math.inf


def test_a_single_seed_decides_only_what_nothing_varies() -> None:
    assert below([1.0], 2.0) == "undecided"
    assert below([1.0], 2.0, certain=True) == "holds"
    assert below([2.0], 2.0, certain=True) == "holds", "the edge is inside"
    assert below([1.2, 1.2, 1.2], 1.2) == "holds"
    assert below([1.2, 1.2, 1.2], 1.1999) == "fails"


def test_medians_are_decided_by_the_signs_of_the_seeds() -> None:
    # Nine of ten: (1 + 10) / 1024 = 0.0107; eight: 56 / 1024 = 0.055.
    assert decided(margin([1.0] * 9 + [-60.0], median=True)) == "holds"
    assert decided(margin([1.0] * 8 + [-1.0] * 2, median=True)) == "undecided"
    assert decided(margin([-1.0] * 10, median=True)) == "fails"
    # All of five: 1 / 32. All of six: 1 / 64.
    assert would_decide(margin([1.0] * 5, median=True)) == 6


def test_what_one_side_alone_has_measured_decides_and_in_some_seeds_counts_as_a_sign() -> None:
    inf, nan = math.inf, math.nan
    assert decided(margin([-inf] * 4, FOUR)) == "fails"
    assert decided(margin([inf] * 4, FOUR)) == "holds"
    assert decided(margin([1.0, 1.1, -inf, 1.2], FOUR)) == "undecided"
    assert decided(margin([nan, nan], FOUR)) == "undecided"
