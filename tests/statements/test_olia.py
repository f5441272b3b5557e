"""The OLIA draft's family of rules, and its statement on responsiveness, by hand."""

import numpy as np
import pytest

from anabranch.statements import olia as statements
from anabranch.theory.law import Law


def test_the_exponents_of_the_family() -> None:
    # Coupled: p = 2 / W^2 on both paths; LIA: p_r w_r is the same; NewReno: p_r = 2 / w_r^2.
    for name, phi in statements.FAMILY.items():
        assert statements.exponents(Law(name), 20, 1) == pytest.approx((phi, phi), abs=1e-9)
    assert statements.family(20).holds


def test_another_rule_is_not_of_the_family(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "FAMILY", {"balia": 1.0})
    assert not statements.family(20).holds


def test_every_phi_has_a_rule() -> None:
    assert statements.every_phi(20).holds


def test_red_thresholds_in_proportion_to_capacity(monkeypatch: pytest.MonkeyPatch) -> None:
    # 2.5, 5 and 10 packets per Mbps.
    assert statements.red_thresholds().holds
    monkeypatch.setattr(statements, "THRESHOLDS", {30: (75, 150, 301)})
    assert not statements.red_thresholds().holds


def test_the_restoring_rate_by_hand() -> None:
    # tcp = sqrt(2 / 0.02) = 10, even windows of 5. NewReno: d ln w = 1/w - w p / 2 with p = 2/25,
    # the even split's: at 5.25 and 4.75 1/4.75 - 1/5.25 + 0.04 (5.25 - 4.75) = 0.0400501.
    expected = (1 / 4.75 - 1 / 5.25 + 0.04 * 0.5) / np.log(1.05 / 0.95)
    assert statements.response(Law("reno"), 0.02, 10).restoring == pytest.approx(expected)
    # Coupled: d ln w = w / 10^2 - w p / 2 with p = 2 / 10^2: 0.
    assert statements.response(Law("coupled"), 0.02, 10).restoring == pytest.approx(0, abs=1e-12)


def test_newreno_gains_a_packet_per_round_trip() -> None:
    # From 1 to 0.45 sqrt(2 / 0.0002) = 45: 44 round trips.
    assert statements.response(Law("reno"), 0.0002, 10).rounds == 44


def test_olia_waits_until_a_path_counts_as_best() -> None:
    # One TCP has 100 packets, the other path 5000 between losses. As long as the idle one has sent
    # less, it grows by w / W^2 < 1/2500 per packet near 1: after 2500 round trips it is below 2.
    found = statements.response(Law("olia"), 0.0002, 10)
    assert found.rounds > 2000
    assert statements.response(Law("olia"), 0.0002, 5000).rounds < 100
    found = statements.as_responsive_as_lia()
    assert found.named_class.startswith("needs a condition: a path that counts as best")
    assert statements.compromise().holds
