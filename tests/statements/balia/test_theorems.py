"""Balia's theorems 3.1 to 3.4 and its lemmas, by hand; broken rules are caught."""

import numpy as np
import pytest

from anabranch.statements.balia import theorems
from anabranch.statements.balia.theorems import Net, Point
from anabranch.theory.law import Law, States


def dice(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


ONE_PATH = Net(np.array([[1.0]]), np.array([100.0]), np.array([0, 1]), np.array([0.1]))
TWO_PATHS = Net(
    np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([100.0, 100.0]), np.array([0, 2]), np.full(2, 0.1)
)
SHARED = Net(np.array([[1.0, 1.0]]), np.array([100.0]), np.array([0, 2]), np.full(2, 0.1))


# ---------------------------------------------------------------- theorem 3.1
def test_coupled_has_no_circulation_and_semicoupled_has_one() -> None:
    # tau = 1. Semicoupled: phi_1 = 2 / (x_1 (x_1 + x_2)); its integral over x_1 from a to b is
    # (2 / x_2) ln(b (a + x_2) / (a (b + x_2))). From (1, 2): below, x_2 = 2, ln(3/2); right,
    # x_1 = 2 and x_2 from 2 to 4, ln(4/3); above, x_2 = 4, ln(5/3) / 2; left 2 ln(6/5).
    states = States.of_user([1, 2], [1, 1])
    below, right, above, left = np.log([3 / 2, 4 / 3, 5 / 3, 6 / 5]) * [1, 1, 0.5, 2]
    expected = (below + right - above - left) / (below + right + above + left)
    assert theorems.circulation(Law("semicoupled"), states) == pytest.approx(expected, rel=1e-9)
    assert theorems.circulation(Law("coupled"), states) == pytest.approx(0, abs=1e-14)


def test_a_symmetric_jacobian_gives_no_concave_utility() -> None:
    # phi(3) = 1/3 - 3.3/9 + 3/27 = 0.0778; phi' = -1/9 + 6.6/27 - 9/81 = 0.0222 > 0.
    assert theorems.rising_marginal(3.0) == pytest.approx(1 / 3 - 3.3 / 9 + 1 / 9)
    assert theorems.rising_marginal(3.1) > theorems.rising_marginal(3.0)
    assert all(theorems.rising_marginal(x) > 0 for x in np.geomspace(0.01, 1e4, 1000))
    found = theorems.utility_maximisation(users=20, nets=2)
    assert found.verdict == "needs a condition"
    assert found.numbers["exceptions"] == found.numbers["better"] == 0


# ---------------------------------------------------------------- theorem 3.2
def test_the_equilibrium_of_one_reno_flow() -> None:
    # x = c = 100, so p = 2 / (tau x)^2 = 2 / 10^2.
    at = theorems.equilibrium(ONE_PATH, Law("reno"), dice())
    assert at is not None
    assert at.rate == pytest.approx([100])
    assert at.price == pytest.approx([0.02])


def test_a_rule_without_c2_has_several_equilibria_in_one_network() -> None:
    # Two paths of balia:cap=inf through one link: even, and 4:1 (test_check).
    law = Law("balia:cap=inf")
    found = [theorems.equilibrium(SHARED, law, dice(seed)) for seed in range(30)]
    ratios = {round(max(at.rate) / min(at.rate), 1) for at in found if at is not None}
    assert {1.0, 4.0} <= ratios
    assert theorems.spread_of_equilibria(law, 4, 4, 1)[2] > 0
    assert theorems.spread_of_equilibria(Law("lia"), 4, 4, 1)[2] == 0


# ---------------------------------------------------------------- theorem 3.3
def test_the_lyapunov_function_of_one_reno_flow_falls() -> None:
    # At x = 50, p = 0.03, where phi = 2/25 = 0.08: (x - 100) (0.08 - 0.03) = -2.5 and
    # (0.03 - 0.02) (50 - 100) = -0.5: all terms negative.
    at, here = Point(np.array([100.0]), np.array([0.02])), Point(np.array([50.0]), np.array([0.03]))
    assert theorems.lyapunov_rate(ONE_PATH, Law("reno"), here, at) == pytest.approx(-1)
    # With p = 0.01 the second is + 0.5 and the first -3.5: -3 of 4.
    here = Point(np.array([50.0]), np.array([0.01]))
    assert theorems.lyapunov_rate(ONE_PATH, Law("reno"), here, at) == pytest.approx(-0.75)


def test_trajectories_reach_the_equilibrium_and_a_wrong_one_is_not_reached() -> None:
    law = Law("lia")
    at = theorems.equilibrium(TWO_PATHS, law, dice())
    assert at is not None
    start = theorems.random_point(TWO_PATHS, law, dice(2))
    end = theorems.trajectory_end(TWO_PATHS, law, start, at, 0.3)
    assert theorems.distance(TWO_PATHS, law, end, at) < 1.01 * theorems.NEAR
    wrong = Point(at.rate * 1.1, at.price)
    end = theorems.trajectory_end(TWO_PATHS, law, start, wrong, 0.3)
    assert theorems.distance(TWO_PATHS, law, end, wrong) > 0.05


def test_the_slowest_mode_of_one_reno_flow_and_of_an_unstable_split() -> None:
    # k = x^2 / 2 = 5000, dphi/dx = -4 / (tau^2 x^3) = -4e-4, gamma = 1.5e-4:
    # lambda^2 + 2 lambda + 0.75 = 0, so -0.5 and -1.5.
    at = Point(np.array([100.0]), np.array([0.02]))
    found = theorems.slowest_mode(ONE_PATH, Law("reno"), at, 1.5e-4)
    assert found == pytest.approx(-0.5 / 1.5)
    # Two equal paths over one link: the printed rule, which violates C2, leaves the even split.
    at = Point(np.array([50.0, 50.0]), np.array([0.02]))
    assert theorems.slowest_mode(SHARED, Law("balia:cap=inf"), at, 1e-5) > 0
    assert theorems.slowest_mode(SHARED, Law("generalized"), at, 1e-5) < 0


def test_local_stability_is_refuted_by_a_rule_without_c2(monkeypatch: pytest.MonkeyPatch) -> None:
    assert theorems.local_stability(nets=3).holds
    monkeypatch.setattr(theorems, "UNIQUE", ("balia:cap=inf",))
    assert theorems.local_stability(nets=12).verdict == "wrong as printed"


# ---------------------------------------------------------------- theorem 3.4
def test_friendliness_is_checked_on_pairs_and_caught_where_the_order_is_reversed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert theorems.friendliness(pairs=3).holds
    monkeypatch.setattr(theorems, "FAMILY", ("inf", "2", "1"))
    assert not theorems.friendliness(pairs=3).holds


# ---------------------------------------------------------------- lemmas
def test_the_remainder_of_lemma_3_1_by_hand() -> None:
    # Two sets of one packet, d = 1, q = 0.1: P(hit) = 0.1 each, P(anywhere) = 0.19, so 2/1.9; the
    # leading term is 1.
    exact, leading = theorems.reduction(np.ones(2), np.full(2, 0.1), np.ones(2))
    assert (exact, leading) == (pytest.approx(0.2 / 0.19), pytest.approx(1.0))
    assert theorems.losses_are_rare(50).verdict == "wrong as printed"


def test_a_rule_without_c2_violates_lemma_b_1() -> None:
    assert theorems.largest_product(Law("generalized"), [2, 5], 200, 1) < 0
    assert theorems.largest_product(Law("balia"), [2, 5], 200, 1) > 0


def test_a_rule_without_c3_leaves_paths_idle() -> None:
    assert theorems.smallest_share(Law("semicoupled"), 5, 1) > 1e-3
    assert theorems.smallest_share(Law("coupled"), 20, 1) < 1e-4


def test_lemma_g_1_by_hand() -> None:
    # x = (3, 1), p = 2: (6/4 - 9/10, 2/4 - 1/10) = (0.6, 0.4).
    assert theorems.weights_of_lemma_g1(np.array([[3.0, 1.0]]), 2) == pytest.approx(
        np.array([[0.6, 0.4]])
    )
    assert theorems.weights_are_short(50).holds


def test_lemma_g_2_by_hand() -> None:
    # I + [1 a']^+ has the least eigenvalue 1 + (1 - sqrt(m) |a|)/2: a = (1, 0) gives
    # 1 + (1 - sqrt(2))/2 = 0.7929; of 9 entries 0 and of 10 -0.0811.
    for m, least in ((2, 0.792893), (9, 0.0), (10, -0.081139)):
        a = np.eye(m)[:1]
        assert theorems.least_form(a) == pytest.approx([least], abs=1e-6)
    assert theorems.form_is_positive(50).holds
