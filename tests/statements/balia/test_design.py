"""Balia's statements on Coupled, (12) and appendix G, by hand; broken rules are caught."""

import numpy as np
import pytest

from anabranch.statements.balia import design, theorems
from anabranch.theory.guarantees import performance
from anabranch.theory.law import Law, States


def test_real_parts_lie_below_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    assert theorems.below_the_bound(nets=2).holds
    # A bound that is no bound: -1/s.
    monkeypatch.setattr(performance, "bound_of_theorem_3_5", lambda *_: -1.0)
    assert theorems.below_the_bound(nets=2).verdict == "wrong as printed"


def test_the_minimum_of_max_acts_beyond_a_ratio_of_4_alone() -> None:
    # x = (1, 1), tau = (1, 9): max(x / tau) = 1, S = 2. phi_2 = 2 / (9 * 4) without the minimum,
    # with it I_2 = 1 / w_2 = 1/9 and phi_2 = 2 / 9^2, 8 / 18 of that.
    states = States.of_user([1, 9], [1, 9])
    assert design.phi_of_max(states)[1] == pytest.approx(1 / 18)
    assert Law("lia").phi(states)[1] == pytest.approx(2 / 81)
    assert design.minimum_is_ignored(users=40, nets=2).holds


def test_a_rule_that_returns_is_not_neutral(monkeypatch: pytest.MonkeyPatch) -> None:
    found = design.coupled_keeps_any_split(3)
    assert found.verdict == "needs a condition"
    # Semicoupled: phi_r = 2 / (w_r W) differs at an uneven split.
    monkeypatch.setattr(design, "Law", lambda name: Law(name.replace("coupled", "semicoupled")))
    assert design.coupled_keeps_any_split(3).verdict == "wrong as printed"


def test_phi_between_max_and_coupled_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    # (1 - beta) x + beta |x|_inf over |x|_inf at x = 10 of 30: (0.8 * 10 + 0.2 * 30) / 30.
    found = design.phi_in_between(20)
    assert found.holds
    assert found.numbers["ratio_of_slow_path"] == pytest.approx(14 / 30)
    monkeypatch.setattr(design, "BETA", 1.5)
    assert not design.phi_in_between(20).holds


def test_the_elasticities_of_semicoupled_by_hand() -> None:
    # phi_r = 2 / (x_r S), tau = 1, x = (2, 1): J = -[[10/36, 1/9], [2/9, 8/9]], k = (2, 1/2), so
    # K J = -[[5, 2], [1, 4]] / 9 with the modes -1/3 and -2/3. The left and right vectors of -1/3
    # are y = (1, -2) and v = (1, -1): the elasticities are y_r v_r / y'v = (1, 2) / 3. (11): q k
    # is x_r / S.
    states = States.of_user([2, 1], [1, 1])
    modes, lost = design.parts_of_paths(Law("semicoupled"), states)
    assert lost == pytest.approx([2 / 3, 1 / 3])
    assert modes == pytest.approx([1 / 3, 2 / 3], abs=1e-4)
    found = design.small_and_large_paths()
    assert found.verdict == "needs a condition"
    assert found.numbers["small_semicoupled"] == pytest.approx(0.75, abs=1e-3)


def test_the_closed_form_by_hand() -> None:
    # beta = 1, n = 1 is Semicoupled: x_r q_r tau^2 S = 2. Prices of 1 and 2, tau = 1: x = (2/S,
    # 1/S), S^2 = 3.
    rate, curve = design.closed_rates(1.0, 1, np.ones(2), np.array([1.0, 2.0]))
    assert rate == pytest.approx([2 / np.sqrt(3), 1 / np.sqrt(3)])
    assert (np.diff(curve) < 0).all()
    assert design.closed_form(20).holds


def test_the_printed_jacobian_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    # Semicoupled at x = (1, 1), tau = 1: phi_1 = 2 / (x_1^2 + x_1 x_2): -2 (2 + 1) / 4, -2 / 4.
    found = design.jacobian_as_printed(1.0, 1, np.ones(2), 1.0)
    assert found == pytest.approx(np.array([[-1.5, -0.5], [-0.5, -1.5]]))
    assert design.printed_jacobian(20).holds
    monkeypatch.setattr(design, "Law", lambda name: Law(name.replace("norm=1", "norm=2")))
    assert not design.printed_jacobian(20).holds


def test_the_inverse_of_appendix_d() -> None:
    """Errata e10 and e11: the blocks as printed are no inverse, those of the errata are."""
    # dPhi/dx = -[[3, 1], [1, 2]], 2 / x_g^3 = 0.5.
    phi, slope, ones = -np.array([[3.0, 1.0], [1.0, 2.0]]), 0.5, np.ones((2, 1))
    whole = np.block([[phi, slope * ones], [ones.T, np.ones((1, 1))]])
    inverse = np.linalg.inv(phi)
    d = float(1 - slope * inverse.sum())
    a = np.linalg.inv(phi - slope * ones @ ones.T)
    corrected = np.block([[a, -slope / d * inverse @ ones], [-ones.T @ a, np.array([[1 / d]])]])
    printed = np.block([[a, -d * inverse @ ones], [-d * ones.T @ a, np.array([[1 / d]])]])
    assert whole @ corrected == pytest.approx(np.eye(3))
    assert np.abs(whole @ printed - np.eye(3)).max() > 0.1
    # D has the column sums -1/5 and -2/5; Phi^ - Phi~ = (-1, -1): the total rises with mu.
    assert (ones.T @ a @ np.array([-1.0, -1.0])).item() > 0
