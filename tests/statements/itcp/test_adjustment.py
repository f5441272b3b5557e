"""The adjustment of I-TCP's kappas: equations (11) and (12), and proposition 1."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import ScenarioError
from anabranch.statements.itcp import adjustment, lemmas
from anabranch.statements.itcp.adjustment import Rule, Start, play


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
