"""The OLIA draft's family of rules, and its statement on responsiveness, by hand."""

import numpy as np
import pytest

from anabranch.statements import olia as statements
from anabranch.theory.law import Law

TWO_LINKS = statements.Net(np.eye(2)[:, [0, 1, 1]], np.array([90.0, 60.0]), np.array([0, 2, 3]),
                           np.full(3, 0.1))  # fmt: skip
"""A user of both links, and one of the second."""


def test_a_pareto_optimum_by_hand() -> None:
    # Full links: nobody gets more. With 80 of the first link in use 10 can move there, and
    # the other user have 50 instead of 40. NewReno's fixed point has 90, 30 and 30.
    assert statements.most_gain(TWO_LINKS, np.array([90.0, 20.0, 40.0])) == pytest.approx(0)
    assert statements.most_gain(TWO_LINKS, np.array([80.0, 20.0, 40.0])) == pytest.approx(0.25)
    found = statements.fixed_rates(Law("reno"), TWO_LINKS)
    assert found == pytest.approx([90, 30, 30], rel=1e-6)


def test_regular_tcp_wastes_nothing_and_lia_does(monkeypatch: pytest.MonkeyPatch) -> None:
    found = statements.regular_tcp_is_optimal(12)
    assert found.holds
    assert found.numbers["wasteful_lia"] > 0 == found.numbers["wasteful_olia"]
    monkeypatch.setattr(statements, "fixed_rates", lambda law, net: 0.5 * net.capacity.min()
                        / net.routes.sum() * np.ones(len(net.rtt)))  # fmt: skip
    assert statements.regular_tcp_is_optimal(3).verdict == "wrong as printed"


def test_rates_are_as_1_over_rtt(monkeypatch: pytest.MonkeyPatch) -> None:
    found = statements.lower_rtts_get_more(nets=5)
    assert found.holds
    assert found.numbers["off"] < 1e-6
    monkeypatch.setattr(statements, "fixed_rates", lambda law, net: net.rtt)
    assert statements.lower_rtts_get_more(nets=5).verdict == "wrong as printed"


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
