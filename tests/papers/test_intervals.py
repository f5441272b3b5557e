"""Whether the seeds decide a check, on hand-made numbers."""

import math

import numpy as np
import pandas as pd
import pytest

from anabranch.papers.entries.checks import Check
from anabranch.papers.entries.claims import Stated
from anabranch.papers.judge import Claim, Decision, Spread, judge_claim
from anabranch.typed_toml import Where, read

# With three seeds half a 95 % interval is 4.3027 standard deviations over the root of 3: 2.4841.
APART = [1.0, 1.2, 1.4]  # mean 1.2, standard deviation 0.2, half the interval 0.4968


def frame(average: str = "mean", **cases: list[float]) -> tuple[Spread, dict]:
    """The spread and the averages of cases of the metric `m`, a value per seed from seed 1 on."""
    rows = [
        {"metric": "m", "case": case, "seed": seed, "value": value}
        for case, values in cases.items()
        for seed, value in enumerate(values, 1)
    ]
    table = pd.DataFrame(rows)
    means = table.groupby("case")["value"].agg(average)
    return Spread.of(table, average), {"m": dict(means)}


def claim(check: dict, average: str = "mean", reason: str = "", **cases: list[float]) -> Claim:
    """The claim of a check of these cases, judged."""
    spread, numbers = frame(average, **cases)
    parsed = read(Check, {"metric": "m", **check}, Where())
    stated = Stated("c", "t", "", parsed, not_reproduced=reason)
    return judge_claim(stated, numbers, spread=spread)


def at_most(most: float) -> dict:
    return {"type": "range", "case": "a", "max": most}


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
def test_a_claim_is_undecided_where_the_interval_crosses_the_edge(
    most: float, verdict: str
) -> None:
    # 1.2 + 0.4968 = 1.6968 and 1.2 - 0.4968 = 0.7032
    assert claim(at_most(most), a=APART).verdict == verdict


def test_an_undecided_claim_says_how_many_seeds_would_decide() -> None:
    # A margin of 0.4: with four seeds half the interval is 3.1824 * 0.2 / 2 = 0.318.
    undecided = claim(at_most(1.6), a=APART)
    assert undecided.seeds_to_decide == 4
    assert undecided.because == (
        "a = 1.2, expected at most 1.6; "
        "the 95 % interval over 3 seeds crosses the edge, about 4 would decide"
    )
    # A margin of 0.05 needs 1.96 * 0.2 / 0.05 squared, 61.5, and a little for Student's t.
    assert claim(at_most(1.15), a=APART).seeds_to_decide == 64
    hopeless = claim(at_most(1.2001), a=APART)
    assert hopeless.seeds_to_decide == math.inf
    assert hopeless.because.endswith("crosses the edge, more than 1000 would decide")
    assert claim(at_most(2), a=APART).seeds_to_decide is None


def test_numbers_that_do_not_vary_and_single_seeds_are_never_undecided() -> None:
    for values in ([1.2, 1.2, 1.2], [1.2]):
        assert claim(at_most(1.2), a=values).verdict == "holds"
        assert claim(at_most(1.1999), a=values).verdict == "fails"


def test_what_a_seed_does_to_both_cases_cancels() -> None:
    ratio = {"type": "ratio", "num": "a", "den": "b", "min": 1.9, "max": 2.1}
    b = [1.0, 2.0, 3.0]
    assert claim(ratio, a=[2.0, 4.0, 6.0], b=b).verdict == "holds"
    assert claim(ratio, a=[6.0, 2.0, 4.0], b=b).verdict == "undecided"


def test_every_check_may_be_undecided() -> None:
    near = {"a": APART, "b": [1.4, 1.25, 1.3], "c": [2.0, 2.2, 2.3]}
    checks = [
        {"type": "order", "cases": ["a", "b", "c"]},
        {"type": "monotone", "cases": ["c", "b", "a"], "direction": "decreasing"},
        {"type": "ratio", "num": "b", "den": "a", "min": 1.0},
        {"type": "range", "case": "a", "min": 1.1},
        {"type": "close", "case": "a", "target": 1.3, "tol_rel": 0.1},
        {"type": "closer", "case": "b", "other": "a", "target_case": "c"},
    ]
    assert {check["type"]: claim(check, **near).verdict for check in checks} == {
        check["type"]: "undecided" for check in checks
    }
    apart = {"type": "order", "cases": ["a", "c"]}
    assert claim(apart, **near).verdict == "holds"
    assert claim({**apart, "cases": ["c", "a"]}, **near).verdict == "fails"


def test_levels_fail_by_an_interval_that_is_widened_for_their_number() -> None:
    spread, numbers = frame(a=APART, b=[1.0, 1.0, 1.0])
    check = read(Check, {"type": "levels", "metric": "m", "tol_rel": 0.1}, Where())
    stated = Stated("c", "t", "", check)
    # At most 1.1 * 0.57 = 0.627 is 0.573 below the mean of a: more than half its interval, 0.4968.
    # With two cases the interval is of 97.5 %, 6.2053 * 0.2 over the root of 3: 0.7165.
    numbers["m"] |= {"a.published": 0.57}
    assert judge_claim(stated, numbers, spread=spread).verdict == "fails"
    numbers["m"] |= {"b.published": 1.0}
    assert judge_claim(stated, numbers, spread=spread).verdict == "undecided"


def test_a_reason_is_shown_with_an_undecided_claim_as_it_stands() -> None:
    undecided = claim(at_most(1.1), reason="The queue.", a=APART)
    assert (undecided.verdict, undecided.reason) == ("undecided", "The queue.")
    assert claim(at_most(0.5), reason="The queue.", a=APART).verdict == "not reproduced"
    held = claim(at_most(2), reason="The queue.", a=APART)
    assert held.reason == "Marked as not reproduced, but these runs do not show that: The queue."


def test_the_standard_error_of_a_median_is_the_bootstraps() -> None:
    # In 27 draws of 0, 1 and 2 the median is 0 in 7 and 2 in 7: the deviation is sqrt(14 / 27).
    spread, numbers = frame("median", a=[0.0, 1.0, 2.0])
    decision = spread.decide(read(Check, {**at_most(2), "metric": "m"}, Where()), numbers)
    assert decision.errors == [pytest.approx((14 / 27) ** 0.5, rel=0.03)]
    # One run that lasts long moves the mean and not the median.
    long = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 60.0]
    assert claim(at_most(5), "median", a=long).verdict == "holds"
    assert claim(at_most(8), "mean", a=long).verdict == "undecided"


def test_cases_with_unequal_numbers_of_seeds_count_as_the_smaller() -> None:
    order = {"type": "order", "cases": ["a", "b"]}
    more = [2.0, 2.1, 2.2, 2.0, 2.1, 2.2]
    assert "over 3 seeds" in claim({**order, "slack_rel": -0.6}, a=APART, b=more).because


def test_a_missing_seed_and_a_case_with_a_single_value_have_no_part_in_the_spread() -> None:
    nan = float("nan")
    spread, _ = frame(a=[*APART, nan], b=[nan, 5.0, nan, nan], c=[1.0, 2.0, 3.0, 4.0])
    assert spread.seeds == {("m", "a"): 3, ("m", "c"): 4}
    # Without each of the three seeds: 1.3, 1.2 and 1.1; without the fourth nothing changes.
    assert spread.numbers["m"]["a"] == pytest.approx([1.3, 1.2, 1.1, 1.2])


def test_at_the_edge_itself_one_claim_in_twenty_is_decided() -> None:
    draws = np.random.default_rng(1).normal(1.0, 0.3, size=(2000, 5))
    check = read(Check, {**at_most(1.0), "metric": "m"}, Where())
    decided = 0
    for values in draws:
        left = (values.sum() - values) / 4
        spread = Spread({"m": {"a": left}}, {("m", "a"): 5}, jackknife=True)
        decided += not spread.decide(check, {"m": {"a": values.mean()}}).undecided
    # 5 % of 2000 are 100, with a standard deviation of 9.7.
    assert 70 < decided < 130


def test_a_check_fails_as_soon_as_one_margin_is_beyond_its_edge() -> None:
    # Half an interval is 6.2 standard errors for the two margins to fail, 4.3 for each to hold.
    assert not Decision([1.0, -9.0], [3.0, 1.0], 3).undecided
    assert Decision([1.0, 9.0], [3.0, 1.0], 3).undecided  # to hold, every margin counts
    assert Decision([1.0, 9.0], [0.2, 1.0], 3).seeds_to_decide() <= 3
