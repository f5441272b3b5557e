"""I-TCP's figure 2 and lemmas 1 to 7, by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import ScenarioError
from anabranch.statements.itcp import adjustment, lemmas, tail_theorems
from anabranch.statements.itcp.adjustment import Rule, Start, play, trial
from anabranch.statements.itcp.lemmas import Case
from anabranch.statements.itcp.tail_theorems import PAPER
from anabranch.statements.statement import CONDITION, HOLDS, WRONG


def test_an_increase_of_the_short_one_by_hand() -> None:
    # rho = (0.5, 0.3), kappa = (8, 2), epsilon 0.1: phi2 = 0.2, L' = 0.5, so (10) adds
    # 0.5 (0.5 + 0.1) 2 = 0.6: phi2 = 2.6 / 10.6 = 0.245 < 0.4, phi1 = 0.755 > 0.5.
    case = Case(np.array([0.5, 0.3]), np.array([8.0, 2.0]), 0.1, 0.2)
    assert case.after(1).kappas == pytest.approx([8, 2.6])
    assert case.deficit == pytest.approx(0.1)
    assert lemmas.lemma_2(case)


def test_a_step_beyond_the_margin_violates_lemma_2() -> None:
    # epsilon = 0.9 > 1 - rho = 0.05: phi2 = 0.4, L' = 0.05 / 0.4; (10) adds
    # 0.5 (0.125 + 0.9) 4 = 2.05, so phi1 = 6 / 12.05 = 0.498 < 0.5.
    case = Case(np.array([0.5, 0.45]), np.array([6.0, 4.0]), 0.9, 0.2)
    assert case.after(1).shares[0] == pytest.approx(6 / 12.05)
    assert not lemmas.lemma_2(case)


def test_lemma_6_fails_for_three_connections_by_hand() -> None:
    # rho = 0.2 each, shares 0.1995, 0.201 and 0.5995, kappa in proportion with the largest 10.
    # phi1 rises: L' = 0.0025, so kappa1 by 0.5 (0.0025 + 0.1) = 5.1 %: phi1 = 0.2075, and phi2
    # falls to 0.201 / 1.01022 = 0.19897: it leaves A, and ||B|| rises from 0.0005 to 0.0010.
    shares = np.array([0.1995, 0.201, 0.5995])
    case = Case(np.full(3, 0.2), shares * 10 / shares.max(), 0.1, 0.2)
    after = case.after(0)
    assert list(case.short) == [True, False, False]
    assert list(after.short) == [False, True, False]
    assert case.deficit == pytest.approx(0.0005)
    assert after.deficit == pytest.approx(
        0.2 - 0.201 / (1 + 0.1995 * 0.5 * (0.0005 / 0.1995 + 0.1))
    )
    assert not lemmas.lemma_6(case, 0)


@pytest.mark.parametrize("starts", [lemmas.QUICK_STARTS, pytest.param(300, marks=pytest.mark.slow)])
def test_the_verdicts_on_the_appendix(starts: int) -> None:
    found = {one.place: one.verdict for one in lemmas.lemmas(starts)}
    others = {place: verdict for place, verdict in found.items() if verdict != HOLDS}
    assert others == {"appendix B, lemma 4": CONDITION, "appendix B, lemma 6": WRONG}
    assert len(found) == 7


def test_lemma_4_does_not_hold_for_all_later_updates() -> None:
    # Loads (0.4, 0.54), kappa (9, 10): phi = (0.474, 0.526), the second short at M. Half of 9 is
    # 4.5 / 14.5 = 0.31 < 0.4. The first then rises to 6.72: phi = (0.402, 0.598), both enough; the
    # second has 0.598 > 0.54 + 0.05, may shrink, to 5, and is short: 5 / 11.72 = 0.427.
    case = Case(np.array([0.4, 0.54]), np.array([9.0, 10.0]), 0.05, 0.5)
    assert list(case.short) == [False, True]
    assert list(case.after(0).short) == [True, False]
    assert lemmas.goes_on(case)


def test_proposition_1_counts_the_trials_with_its_own_assumptions() -> None:
    stated = [trial(name, 30, 1) for name in lemmas.AS_STATED]
    beyond = trial("epsilon above that", 200, 1)
    assert beyond.reached < beyond.kept
    found = lemmas.proposition_1([*stated, beyond])
    assert found.holds
    assert found.numbers["kept"] == sum(one.kept for one in stated)
    short = replace(stated[0], reached=stated[0].kept - 1)
    assert lemmas.proposition_1([short, stated[1]]).verdict == WRONG


def test_a_queue_with_too_much_load_grows_as_theorem_5_says() -> None:
    # Measured at 20 000 arrivals; the theorem's limit is within 10 % of all five runs.
    found = tail_theorems.theorem_5(PAPER[0])
    for name in ("least", "most"):
        assert found.numbers[name] == pytest.approx(found.numbers["alpha"], rel=0.1)
    # Twice the server serves it all: nobody is left who came early.
    assert tail_theorems._customers_per_s(PAPER[0], 2 * PAPER[0].load, 1) < 0.05


def test_lemma_1_holds_file_by_file_with_kappas_6_and_4() -> None:
    found = tail_theorems.lemma_1(PAPER, 5000)
    assert found.holds
    assert "kappas (6, 4)" in found.found


def test_lemma_1_is_violated_by_a_share_below_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    # (5, 5): phi1 = 0.5 < 0.52. Alone at that rate the queue has no steady state.
    monkeypatch.setattr(tail_theorems, "KAPPAS", (5.0, 5.0))
    with pytest.raises(ValueError, match="no steady state"):
        tail_theorems.lemma_1(PAPER, 5000)
    # A file that leaves sooner than alone at rate 1 is caught.
    monkeypatch.setattr(tail_theorems, "KAPPAS", (6.0, 4.0))
    alone = tail_theorems._alone
    monkeypatch.setattr(tail_theorems, "_alone", lambda *call: 1.1 * alone(*call))
    assert not tail_theorems.lemma_1(PAPER, 5000).holds


# ---------------------------------------------------------------- (11) and (12)
def test_the_eigenvalues_of_the_linear_system_by_hand() -> None:
    # 0.5 (0.76 + 0.1 - 1) along rho, 0.5 (0.1 - 1) across it.
    found = adjustment.linear((0.52, 0.24), 0.1)
    assert found.eigenvalues == pytest.approx([-0.07, -0.45])
    assert found.shares == pytest.approx([0.52 / 0.76, 0.24 / 0.76])
    assert found.is_stable
    assert not adjustment.linear((0.52, 0.24), 0.25).is_stable  # 0.76 + 0.25 > 1


loads = st.lists(st.floats(0.01, 0.3), min_size=2, max_size=3)
kappas = st.lists(st.floats(1.0, 9.0), min_size=3, max_size=3)
epsilons = st.floats(0.001, 0.5)


@given(loads, epsilons)
def test_the_leading_eigenvector_is_that_of_the_loads_for_any_epsilon(
    rho: list[float], epsilon: float
) -> None:
    found = adjustment.linear(rho, epsilon)
    assert found.shares == pytest.approx(np.array(rho) / sum(rho), rel=1e-6)
    assert found.gap == pytest.approx(sum(rho) / 2)


@given(loads, kappas, epsilons)
def test_the_linear_system_is_the_rules_own_step_where_a_share_is_short(
    rho: list[float], kappa: list[float], epsilon: float
) -> None:
    kappa = kappa[: len(rho)]
    rule = Rule(epsilon, 0.2, 1e9)
    step = adjustment.matrix(rho, epsilon) @ kappa
    for i, (k, load) in enumerate(zip(kappa, rho, strict=True)):
        share = k / sum(kappa)
        if share < load * (1 - 1e-9):
            assert rule.after(k, share, load) - k == pytest.approx(step[i], rel=1e-6, abs=1e-9)


@given(loads, kappas, epsilons)
def test_an_increase_stays_below_load_plus_epsilon(
    rho: list[float], kappa: list[float], epsilon: float
) -> None:
    # Lemma 2.
    total, share = sum(kappa), kappa[0] / sum(kappa)
    if share < rho[0]:
        after = Rule(epsilon, 0.2, 1e9).after(kappa[0], share, rho[0])
        assert after / (total - kappa[0] + after) < rho[0] + epsilon


def test_the_flow_of_11_ends_where_a_share_equals_its_load() -> None:
    # kappa2 comes to its floor of 1; kappa1 slides along phi1 = rho1: 0.52 / 0.48 = 1.0833.
    moved = adjustment.flow((0.52, 0.24), Rule(0.1, 0.2, 10.0), [10.0, 10.0], 200.0)
    assert moved.kappa[-1] == pytest.approx([0.52 / 0.48, 1.0], rel=1e-3)


# ---------------------------------------------------------------- proposition 1
@pytest.mark.parametrize(
    "name",
    ["as stated", "epsilon up to (1 - rho) / (N - 1)", "our guard for (iii), nearest first"],
)
def test_all_shares_come_to_exceed_the_loads(name: str) -> None:
    found = adjustment.trial(name, 200, 7)
    assert found.kept > 150
    assert found.reached == found.kept


def test_with_a_large_epsilon_a_connection_is_short_and_none_may_decrease() -> None:
    # kappa1 is at its largest and phi1 = 10 / 18 < 0.6; phi2 = 0.444 < 0.28 + 0.2 may not shrink.
    start = Start((0.6, 0.28), (10.0, 8.0), epsilon=0.2, gamma=0.5, order_seed=1)
    end = play(start, "band", "random")
    assert (end.outcome, end.steps) == ("stuck", 0)
    assert play(Start(*vars(start).values()), "none", "random").outcome == "reached"


def test_without_assumption_iii_a_run_may_cycle() -> None:
    # kappa1 is at its largest and stays short by 0.05. phi3 is always nearer to its load than phi2,
    # which alone could make room: 3 shrinks below its load, grows back, and so on.
    start = Start((0.41, 0.07, 0.35), (10.0, 8.2, 9.9), epsilon=0.0137, gamma=0.7, order_seed=1)
    end = play(start, "none", "nearest")
    assert end.outcome == "endless"
    assert end.kappas[0] == 10.0
    assert end.kappas[1] == 8.2
    assert play(start, "band", "nearest").outcome == "reached"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"loads": (0.6, 0.5)}, "add up to 1.1"),
        ({"loads": (0.6,)}, "1 loads"),
        ({"loads": (0.6, -0.1)}, "load -0.1 of connection 2"),
        ({"epsilon": 0.0}, "epsilon 0"),
        ({"gamma": 1.0}, "gamma 1"),
    ],
)
def test_values_out_of_range_are_errors(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        lemmas.study(**{"starts": 1, **wrong})
