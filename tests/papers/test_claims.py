"""The checks of claims and their verdicts, with and without seeds, on hand-made numbers."""

import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import ScenarioError
from anabranch.papers.checks import Check
from anabranch.papers.judge import Claim, Spread
from anabranch.papers.judge import judge as judge_claim
from anabranch.papers.suite import Stated
from anabranch.statements.statement import Statement
from anabranch.typed_toml import Where, read

NUMBERS = {
    "rate": {"low": 0.4, "mid": 0.7, "high": 0.94, "goal": 1.0, "zero": 0.0},
    "loss": {"low": 0.05, "mid": 0.02},
}


def judge(check: dict, numbers: dict, statements: list[Statement] | None = None) -> Claim:
    """The judgement of a check as it stands in a `claims.toml`."""
    parsed = read(Check, check, Where("p/claims.toml", "claims[0].check"))
    return judge_claim(Stated("c", "t", "", parsed), numbers, statements or [])


RISING = {"type": "order", "metric": "rate"}
FALLING = {**RISING, "cases": ["high", "mid"]}  # from 0.94 to 0.7 is a decrease of 25.5 %
DOWN = {"type": "order", "metric": "rate", "cases": ["high", "mid", "low"]}
SEVEN = {"type": "ratio", "metric": "rate", "num": "mid", "den": "goal"}  # 0.7 / 1.0
# 0.4 / 0.05 = 8
EIGHT = {"type": "ratio", "metric": "rate", "num": "low", "den": "low", "den_metric": "loss"}
MID = {"type": "range", "metric": "rate", "case": "mid"}
# 0.7 is 6.7 % below 0.75, and 0.05.
NEAR = {"type": "close", "metric": "rate", "case": "mid", "target": 0.75}
# From 1.0: high is 0.06 away, mid 0.3.
TO_GOAL = {"type": "closer", "metric": "rate", "target_case": "goal"}

VERDICTS: dict[str, dict[str, dict]] = {
    "holds": {
        "an order may have equal neighbours": {**RISING, "cases": ["low", "mid", "mid", "high"]},
        "a decrease within the slack": {**FALLING, "slack_rel": 0.26},
        "an order in the given direction": {**DOWN, "direction": "decreasing"},
        "a ratio at both ends of its band": {**SEVEN, "min": 0.7, "max": 0.7},
        "a ratio to another metric": {**EIGHT, "min": 7.9, "max": 8.1},
        "a range": {**MID, "min": 0.6, "max": 0.8},
        "close": {**NEAR, "tol_rel": 0.07},
        "close by the larger tolerance": {**NEAR, "tol_rel": 0.06, "tol_abs": 0.051},
        "closer": {**TO_GOAL, "case": "high", "other": "mid"},
    },
    "fails": {
        "an order ends with a decrease": {**RISING, "cases": ["low", "high", "mid"]},
        "an order begins with a decrease": {**RISING, "cases": ["mid", "low", "high"]},
        "a decrease beyond the slack": {**FALLING, "slack_rel": 0.25},
        "an order in the other direction": {**DOWN, "direction": "increasing"},
        "a ratio above its band": {**SEVEN, "max": 0.69},
        "a ratio below its band": {**SEVEN, "min": 0.71},
        "a ratio to another metric, above": {**EIGHT, "max": 7.9},
        "above a range": {**MID, "max": 0.6},
        "not close": {**NEAR, "tol_rel": 0.06},
        "farther": {**TO_GOAL, "case": "mid", "other": "high"},
        "as near": {**TO_GOAL, "case": "mid", "other": "mid"},
    },
    "not comparable": {
        "a ratio to zero": {**SEVEN, "den": "zero", "min": 1},
        "a ratio to a number that is missing": {**SEVEN, "den_metric": "loss", "min": 0},
        "an order with a number that is missing": {**RISING, "cases": ["low", "absent"]},
        "a range of a metric that is missing": {**MID, "metric": "absent", "min": 0},
    },
}


@pytest.mark.parametrize("verdict", VERDICTS)
def test_a_check_of_hand_made_numbers_has_this_verdict(verdict: str) -> None:
    for name, check in VERDICTS[verdict].items():
        assert judge(check, NUMBERS).verdict == verdict, name


@pytest.mark.parametrize(
    ("check", "because"),
    [
        ({**RISING, "cases": ["low", "high", "mid"]}, "low 0.4 ≤ high 0.94 > mid 0.7"),
        ({**DOWN, "direction": "decreasing"}, "high 0.94 ≥ mid 0.7 ≥ low 0.4"),
        ({**SEVEN, "min": 0.6}, "mid / goal = 0.7 / 1 = 0.7, expected at least 0.6"),
        ({**MID, "max": 0.6}, "mid = 0.7, expected at most 0.6"),
        ({**MID, "case": "absent", "max": 0.6}, "no number for rate of absent"),
        ({**NEAR, "tol_rel": 0.07}, "mid = 0.7, expected 0.75 ± 7%, -6.7%"),
    ],
)
def test_a_check_shows_the_numbers_that_it_compares(check: dict, because: str) -> None:
    assert judge(check, NUMBERS).because == because


def test_levels_compares_every_printed_number() -> None:
    # a is 10 % above its printed number, b 50 % below; c is not printed.
    numbers = {"rate": {"a": 1.1, "b": 1.0, "c": 3.0, "a.published": 1.0, "b.published": 2.0}}
    check = {"type": "levels", "metric": "rate"}
    half = judge({**check, "tol_rel": 0.2}, numbers)
    assert (half.verdict, half.because) == ("fails", "1 of 2 within 20%: a +10%, b -50%")
    assert judge({**check, "tol_rel": 0.5}, numbers).verdict == "holds"
    assert judge({**check, "tol_rel": 0.2, "cases": ["a"]}, numbers).verdict == "holds"
    assert judge({**check, "tol_rel": 0.2, "cases": ["c"]}, numbers).verdict == "not comparable"
    del numbers["rate"]["b"]
    assert judge({**check, "tol_rel": 0.5}, numbers).verdict == "not comparable"
    assert judge({**check, "metric": "absent", "tol_rel": 0.5}, numbers).verdict == "not comparable"


def test_closer_adds_up_distances_over_several_cases() -> None:
    numbers = {"rate": {"a.ours": 1.0, "a.theirs": 2.0, "a.goal": 1.5, "b.ours": 5.0}}
    numbers["rate"] |= {"b.theirs": 4.5, "b.goal": 4.0}
    check = {"type": "closer", "metric": "rate", "target_case": "*.goal"}
    sides = {"case": "*.theirs", "other": "*.ours"}
    # Theirs are 0.5 and 0.5 away, ours 0.5 and 1.
    judgement = judge({**check, **sides, "over": ["a", "b"]}, numbers)
    assert judgement.verdict == "holds"
    assert judgement.because == "from *.goal: *.theirs 1, *.ours 1.5"
    assert judge({**check, **sides, "over": ["a"]}, numbers).verdict == "fails"
    assert judge({**check, **sides, "over": ["a", "c"]}, numbers).verdict == "not comparable"


STATED = [
    Statement("2, a", "it holds", "holds", "found"),
    Statement("2, b", "it does not", "wrong as printed", "a counterexample"),
    Statement("2, c", "in words", "not a statement that a machine can test", "too vague"),
    Statement("3", "twice", "holds", "once"),
    Statement("3", "twice", "wrong as printed", "twice"),
]


@pytest.mark.parametrize(
    ("place", "verdict", "because"),
    [
        ("2, a", "holds", "found"),
        ("2, b", "fails", "a counterexample"),
        ("2, c", "needs human judgement", "too vague"),
    ],
)
def test_a_statement_gives_a_claim_its_verdict(place: str, verdict: str, because: str) -> None:
    judgement = judge({"type": "statement", "place": place}, {}, STATED)
    assert (judgement.verdict, judgement.because) == (verdict, because)


def test_a_claim_without_its_statement_is_an_error_or_not_comparable() -> None:
    for place in ("4", "3"):  # there is none, and there are two
        with pytest.raises(ScenarioError, match=f"place = '{place}': expected one of '2, a', "):
            judge({"type": "statement", "place": place}, {}, STATED)
    assert judge({"type": "statement", "place": "2, a"}, {}).verdict == "not comparable"


def test_a_number_that_is_nan_is_not_comparable() -> None:
    check = {"type": "range", "metric": "rtt", "case": "a", "max": 1}
    assert judge(check, {"rtt": {"a": float("nan")}}).verdict == "not comparable"


LOW = {"type": "range", "metric": "rate", "case": "low"}


@pytest.mark.parametrize(
    ("check", "says"),
    [
        (LOW, "min: missing: a band needs min or"),
        ({**LOW, "min": 2, "max": 1}, "min: expected at most max, 1, got 2"),
        ({**RISING, "cases": ["low"]}, "cases: expected at least two cases, got 1"),
    ],
)
def test_a_wrong_check_is_refused_with_its_file_and_key(check: dict, says: str) -> None:
    with pytest.raises(ScenarioError) as error:
        judge(check, NUMBERS)
    assert str(error.value).startswith(f"p/claims.toml: claims[0].check.{says}")
    assert "\n" not in str(error.value)


FINITE = st.floats(1e-6, 1e6)


@given(st.dictionaries(st.text(min_size=1), FINITE, min_size=2))
def test_sorted_cases_are_in_order_and_reversed_ones_decrease(values: dict[str, float]) -> None:
    cases = sorted(values, key=values.__getitem__)
    numbers = {"m": values}
    up = {"type": "order", "metric": "m", "cases": cases}
    down = {"type": "order", "metric": "m", "cases": cases[::-1], "direction": "decreasing"}
    assert judge(up, numbers).verdict == judge(down, numbers).verdict == "holds"


@given(FINITE, st.floats(0, 0.5), st.floats(-1, 1))
def test_close_and_range_agree(target: float, tolerance: float, off: float) -> None:
    numbers = {"m": {"a": target * (1 + off)}}
    ends = {"min": target - tolerance * target, "max": target + tolerance * target}
    close = {"type": "close", "metric": "m", "case": "a", "target": target, "tol_rel": tolerance}
    if abs(abs(off) - tolerance) > 1e-9:  # at the very edge rounding decides
        within = judge({"type": "range", "metric": "m", "case": "a", **ends}, numbers)
        assert judge(close, numbers).verdict == within.verdict


# With three seeds half a 95 % interval is 4.3027 standard deviations over the root of 3: 2.4841.
APART = [1.0, 1.2, 1.4]  # mean 1.2, standard deviation 0.2, half the interval 0.4968


def claim(check: dict, average: str = "mean", reason: str = "", **cases: list[float]) -> Claim:
    """The claim of a check of these cases of the metric `m`, a value per seed from seed 1 on."""
    rows = [
        {"metric": "m", "case": case, "seed": seed, "value": value}
        for case, values in cases.items()
        for seed, value in enumerate(values, 1)
    ]
    table = pd.DataFrame(rows)
    numbers = {"m": dict(table.groupby("case")["value"].agg(average))}
    parsed = read(Check, {"metric": "m", **check}, Where())
    stated = Stated("c", "t", "", parsed, not_reproduced=reason)
    return judge_claim(stated, numbers, spread=Spread.of(table, average))


def test_an_interval_is_that_of_the_mean_over_the_seeds() -> None:
    # b is the same with every seed.
    check = {"type": "interval", "cases": ["a", "b"], "max": 0.497}
    wide = claim(check, a=APART, b=[1.0, 1.0, 1.0])
    assert wide.because == "a ± 0.5, b ± 0, expected at most 0.497"
    assert wide.verdict == "holds"
    assert claim({**check, "max": 0.496}, a=APART, b=[1.0, 1.0, 1.0]).verdict == "fails"


def at_most(most: float) -> dict:
    return {"type": "range", "case": "a", "max": most}


def test_an_undecided_claim_says_how_many_seeds_would_decide() -> None:
    undecided = claim(at_most(1.6), a=APART)
    assert undecided.seeds_to_decide == 4
    assert undecided.because == (
        "a = 1.2, expected at most 1.6; 3 seeds do not decide, about 4 would"
    )
    hopeless = claim(at_most(1.2001), a=APART)
    assert hopeless.seeds_to_decide == math.inf
    assert hopeless.because.endswith("3 seeds do not decide, more than 1000 would")
    assert claim(at_most(2), a=APART).seeds_to_decide is None


def test_what_a_seed_does_to_both_cases_cancels() -> None:
    ratio = {"type": "ratio", "num": "a", "den": "b", "min": 1.9, "max": 2.1}
    b = [2.0, 2.5, 3.0]  # twice b is 0.1 b from each edge: 0.25, half the interval 0.124
    assert claim(ratio, a=[4.0, 5.0, 6.0], b=b).verdict == "holds"
    assert claim(ratio, a=[6.0, 4.0, 5.0], b=b).verdict == "undecided"


def test_a_ratio_is_tested_without_a_quotient() -> None:
    # b - a has the mean 0.5 and the deviation 0.05: half the interval is 0.1242, so that the ratio
    # is above 1, though b / a would vary by a half where a is near 0.
    ratio = {"type": "ratio", "num": "b", "den": "a", "min": 1.0}
    assert claim(ratio, a=[0.1, 1.0, 2.0], b=[0.65, 1.5, 2.45]).verdict == "holds"


def test_every_check_may_be_undecided() -> None:
    near = {"a": APART, "b": [1.4, 1.25, 1.3], "c": [2.0, 2.2, 2.3]}
    checks = [
        {"type": "order", "cases": ["a", "b", "c"]},
        {"type": "order", "cases": ["c", "b", "a"], "direction": "decreasing"},
        {"type": "ratio", "num": "b", "den": "a", "min": 1.0},
        {"type": "range", "case": "a", "min": 1.1},
        {"type": "close", "case": "a", "target": 1.3, "tol_rel": 0.1},
        {"type": "closer", "case": "b", "other": "a", "target_case": "c"},
    ]
    assert {claim(check, **near).verdict for check in checks} == {"undecided"}
    apart = {"type": "order", "cases": ["a", "c"]}
    assert claim(apart, **near).verdict == "holds"
    assert claim({**apart, "cases": ["c", "a"]}, **near).verdict == "fails"


def test_a_reason_is_shown_with_an_undecided_claim_as_it_stands() -> None:
    undecided = claim(at_most(1.1), reason="The queue.", a=APART)
    assert (undecided.verdict, undecided.reason) == ("undecided", "The queue.")
    assert claim(at_most(0.5), reason="The queue.", a=APART).verdict == "not reproduced"
    held = claim(at_most(2), reason="The queue.", a=APART)
    assert held.reason == "Marked as not reproduced, but these runs do not show that: The queue."
    # A mark does not make up for a missing number.
    lost = claim({**at_most(2), "case": "b"}, reason="The queue.", a=APART)
    assert (lost.verdict, lost.reason) == ("not comparable", held.reason)


def test_a_median_is_decided_by_the_signs_of_its_seeds() -> None:
    long = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 60.0]
    assert claim(at_most(5), "median", a=long).verdict == "holds"
    assert claim(at_most(8), "mean", a=long).verdict == "undecided"
    assert claim(at_most(1.75), "median", a=long).verdict == "undecided", "8 of 10"


@pytest.mark.parametrize("b", [[2.0, 2.1, 2.2, 2.0, 2.1, 2.2], [float("nan"), 2.1, 2.2, 2.0]])
def test_the_seeds_that_all_numbers_have_count(b: list[float]) -> None:
    order = {"type": "order", "cases": ["a", "b"]}
    n = 3 if len(b) == 6 else 2
    assert f"; {n} seeds do not" in claim({**order, "slack_rel": -0.6}, a=APART, b=b).because


def test_a_case_with_a_single_value_has_no_part_in_the_spread() -> None:
    nan = float("nan")
    # The value of b is that of seed 2 alone: a counts with its three seeds.
    order = {"type": "order", "cases": ["a", "b"]}
    assert claim(order, a=[*APART, nan], b=[nan, 5.0, nan, nan]).verdict == "holds"
