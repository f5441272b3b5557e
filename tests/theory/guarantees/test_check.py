"""Balia's conditions on rules: by hand, table I, and counterexamples as the checker prints them."""

import numpy as np
import pytest

from anabranch.scenario import ScenarioError
from anabranch.statements.balia import conditions_of_rules
from anabranch.theory.guarantees import random_states
from anabranch.theory.guarantees.check import check
from anabranch.theory.guarantees.conditions import (
    CHANGE,
    CONDITIONS,
    column_sums_of_inverse,
    jump,
    kink,
    largest_eigenvalue,
    phi_jacobian,
    rates_at,
    symmetric_part,
)
from anabranch.theory.law import Law, States

# Table I of Balia's paper: which conditions fail at equal RTTs. "No" under "C2, C3" is both.
TABLE_I = {
    "ewtcp": "",
    "coupled": "C2 C3",
    "semicoupled": "C0",
    "lia": "C0",
    "generalized": "C0",
}


def failing(spec, **options):
    found = check(spec, paths=[2, 3, 8], users=200, **options)
    return " ".join(name for name, verdict in found.verdicts.items() if not verdict.holds)


@pytest.mark.parametrize("spec", TABLE_I)
def test_table_i(spec):
    assert failing(spec) == TABLE_I[spec]


# Section III-A takes C4 for granted; theorem 4.1 proves C2 at equal RTTs only.
@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("ewtcp", ""),
        ("coupled", "C0 C2 C3 C4"),
        ("semicoupled", "C0 C1 C2 C4"),
        ("lia", "C0 C2"),
        ("generalized", "C0 C2"),
    ],
)
def test_conditions_at_unequal_rtts(spec, expected):
    assert failing(spec, rtt_ratio=10.0) == expected


def test_reno_by_hand():
    # phi = 2/(tau^2 x^2), so dphi/dx = -4/(tau^2 x^3): -4/(0.01 * 1e6) and -4/(0.04 * 1e6),
    # and the inverse is diagonal too, with the reciprocals.
    states = States.of_user([10, 20], [0.1, 0.2])
    jacobian = phi_jacobian(Law("reno"), states)
    assert jacobian[0] == pytest.approx(np.diag([-4e-4, -1e-4]))
    sums, missed = column_sums_of_inverse(jacobian)
    assert sums[0] == pytest.approx([-2500, -10000])
    assert missed == pytest.approx([0])
    assert failing("reno", rtt_ratio=10.0) == ""


@pytest.mark.parametrize("spec", ["coupled", "semicoupled", "lia", "balia", "olia", "rsf-db"])
def test_a_counterexample_violates_its_condition_when_pasted(spec):
    found = check(spec, paths=[2, 3], rtt_ratio=10.0, users=200)
    for condition, verdict in found.verdicts.items():
        if example := verdict.counterexample:
            pasted = eval(example.code, {"States": States})
            tests = CONDITIONS[condition][1]
            assert any(test.violation(Law(spec), pasted)[0] > 0 for test in tests), condition


def test_coupled_is_singular():
    # J is -4/(tau^2 |x|^3) times a matrix of ones: eigenvalues 2 * that and 0.
    jacobian = phi_jacobian(Law("coupled"), States.of_user([600, 3], [0.2, 0.2]))
    size = 4 * 0.2 / 603**3
    assert np.linalg.eigvalsh(jacobian[0]) == pytest.approx([-2 * size, 0], abs=1e-15)


def test_semicoupled_sends_more_at_a_higher_price():
    # III-A: "C4 is satisfied by all the algorithms". phi_r = 2/(w_r W) with W = w_1 + w_2, so a
    # price q_1 raised by dq gives dW = -w_1/2 dq/q_1, dw_2 = w_1 w_2/(2 W) dq/q_1 and
    # dw_1 = -w_1 (1 - w_1/(2 W)) dq/q_1. With w = (30, 7), tau = (2, 0.2) and q_1 = 2/(30 37)
    # dw_1/tau_1 + dw_2/tau_2 = 555 * 30 * (7/(74 * 0.2) - 44/(74 * 2)) dq = 2925 dq.
    states = States.of_user([30, 7], [2, 0.2])
    law = Law("semicoupled")
    sums, _ = column_sums_of_inverse(phi_jacobian(law, states))
    assert sums[0] == pytest.approx([2925, -3920])
    price = law.phi(states)
    before, after = (
        rates_at(law, States.of_user([30, 7], [2, 0.2], loss_probability=price * factor))[0].sum()
        for factor in ([1, 1], [1.01, 1])
    )
    assert after > before


@pytest.mark.parametrize(
    ("spec", "states"),
    [
        ("semicoupled", States.of_user([6000, 2], [2, 0.2])),
        ("lia", States.of_user([40, 3000], [0.2, 2])),
        ("generalized", States.of_user([100, 900], [0.2, 2])),
        ("balia", States.of_user([90, 100], [0.2, 0.2])),
        ("balia:cap=inf", States.of_user([90, 100], [0.2, 0.2])),
    ],
)
def test_c2_fails_here(spec, states):
    symmetric = symmetric_part(phi_jacobian(Law(spec), states))[0]
    assert np.linalg.eigvalsh(symmetric)[-1] > 0


@pytest.mark.parametrize(("spec", "ratio"), [("balia:cap=inf", 4.0), ("balia", 1.653)])
def test_balia_as_printed_leaves_the_even_split_of_equal_paths(spec, ratio):
    # (1) and (2) at equal RTTs: phi_r = 2/(tau^2 |x|^2) (1 + a)(4 + a)/(10 min(a, cap)), a >= 1.
    # It equals phi of the fastest path (a = 1) where (1 + a)(4 + a) = 10 min(a, cap): at a = 1,
    # with no cap at a = 4, with the cap of 1.5 at a = (sqrt(69) - 5)/2 = 1.653.
    # In between a path that is a bit slower has the smaller phi and falls further behind.
    law = Law(spec)
    behind = law.phi(States.of_user([10, 9.9], [0.1, 0.1]))
    assert behind[1] < behind[0]
    rates, found = rates_at(law, States.of_user([1, 1], [0.1, 0.1], loss_probability=0.005))
    assert found.all()
    assert max(rates) / min(rates) == pytest.approx(ratio, abs=1e-3)


def test_the_family_of_theorem_4_1_keeps_the_even_split():
    states = States.of_user([1, 1], [0.1, 0.1], loss_probability=0.005)
    rates, _ = rates_at(Law("generalized"), states)
    assert rates[0] == pytest.approx(rates[1], rel=1e-4)


def test_theorem_4_1_fails_first_with_ten_paths():
    # At the vertex the scaled matrix is -1 on the diagonal and -1/sqrt(8) between the fast path
    # and each of the others: its largest eigenvalue is sqrt((n - 1)/8) - 1, which is 0 at n = 9
    # and only reached where the rates of the slow paths tend to 0.
    for paths, violation in conditions_of_rules.margins("semicoupled", [8, 9, 10]).items():
        assert violation == pytest.approx(np.sqrt((paths - 1) / 8) - 1, abs=3e-3)
        assert (violation > 0) == (paths >= 10)


def test_the_jacobian_at_ten_paths_is_not_definite():
    jacobian = phi_jacobian(Law("semicoupled"), States.of_user([1e4] + [1.0] * 9, [0.2] * 10))
    assert largest_eigenvalue(jacobian)[0] == pytest.approx(0.06, abs=0.002)


@pytest.mark.parametrize(
    ("condition", "paths", "ratio"),
    # C2 where path 1 is far faster: scaled by the windows J is -tau_k ([r = k] + [k = 1]), whose
    # symmetric part is definite while 8 tau_r > (n - 1) tau_1. C4: by the derivatives above the
    # total rate rises with q_1 from tau_1/tau_2 = 2 + w_1/w_2 on.
    [("C2", 2, 8.0), ("C2", 3, 4.0), ("C4", 2, 2.0)],
)
def test_rtt_ratio_from_which_semicoupled_fails(condition, paths, ratio):
    found, states = conditions_of_rules.ratio_limit("semicoupled", condition, paths)
    assert found == pytest.approx(ratio, rel=0.005)
    test = CONDITIONS[condition][1][0]
    assert test.violation(Law("semicoupled"), states)[0] > 0


def test_lia_keeps_c4_at_any_ratio():
    # phi = q gives x_r = c/(tau_r q_r), and |x|_1 = sqrt(2 max_k 1/(tau_k^2 q_k)): never rising.
    assert conditions_of_rules.ratio_limit("lia", "C4", 2)[0] == np.inf


def test_jumps_and_kinks():
    states = random_states.draw(2, 100, 1.0, np.random.default_rng(1))
    assert (jump(Law("olia"), states)[0] > CHANGE).any()
    for spec in ("lia", "semicoupled"):
        assert not (jump(Law(spec), states)[0] > CHANGE).any()
    assert (kink(Law("lia"), states) > CHANGE).any()
    assert not (kink(Law("semicoupled"), states) > CHANGE).any()


@pytest.mark.parametrize("spec", ["vegas", "wvegas", "cubic", "bbr3"])
def test_rules_without_a_phi_are_not_judged(spec):
    found = check(spec, paths=[2], users=20)
    assert found.verdicts == {}
    assert len(found.notes) == 1


def test_the_same_seed_gives_the_same_verdicts():
    first, second = (check("balia", paths=[2, 3], users=50).as_dict() for _ in range(2))
    assert first == second


def test_an_unknown_rule_is_an_error():
    with pytest.raises(ScenarioError, match="unknown algorithm"):
        check("nonsense")
