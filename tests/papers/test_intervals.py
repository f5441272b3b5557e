"""Whether the seeds decide a claim, on hand-made numbers."""

import math

import pandas as pd
import pytest

from anabranch.papers.entries.checks import Check
from anabranch.papers.entries.claims import Stated
from anabranch.papers.judge import Claim, Spread, judge_claim
from anabranch.typed_toml import Where, read

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


def test_a_reason_is_shown_with_an_undecided_claim_as_it_stands() -> None:
    undecided = claim(at_most(1.1), reason="The queue.", a=APART)
    assert (undecided.verdict, undecided.reason) == ("undecided", "The queue.")
    assert claim(at_most(0.5), reason="The queue.", a=APART).verdict == "not reproduced"
    held = claim(at_most(2), reason="The queue.", a=APART)
    assert held.reason == "Marked as not reproduced, but these runs do not show that: The queue."


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
