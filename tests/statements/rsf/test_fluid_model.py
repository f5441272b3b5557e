"""The RSF paper's fluid model (4), and sources that react to the largest price, by hand."""

import numpy as np
import pytest

from anabranch.statements.rsf import prices, rent
from anabranch.statements.statement import CONDITION, HOLDS, OURS, WRONG


def test_with_capacities_the_rates_are_the_capacities() -> None:
    capacity = np.array(rent.CAPACITY)
    found = rent.of_rule("rsf-db", lambda _: capacity, 2, 1)
    assert found.off(capacity) < 1e-6


def test_with_the_throughput_of_5_only_the_total_is_determined() -> None:
    # lambda_i = B lambda_i / S for both means S = B, at any split.
    found = rent.of_rule("rsf-db", lambda x: 1000 * x / x.sum(), 4, 1)
    assert found.rates.sum(axis=1) == pytest.approx(np.full(4, 1000.0), rel=1e-4)
    assert found.spread > 0.1


def test_the_marginal_share_leads_to_the_game() -> None:
    # Two players at p = 0.1: 1 / (4 p) = 2.5 each; with a capacity of 3 half of it each.
    assert rent.of_game(2, 10.0, 2, 1).off(np.array([2.5, 2.5])) < 1e-6
    assert rent.of_game(2, 3.0, 2, 1).off(np.array([1.5, 1.5])) < 1e-6


def test_the_verdicts_and_a_broken_game_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = [one.verdict for one in rent.statements(starts=2)]
    assert verdicts == [HOLDS, CONDITION, CONDITION, OURS]
    monkeypatch.setattr(rent, "marginals", lambda rate, _: 1 / rate - 0.2)
    assert rent.statements(starts=2)[2].verdict == WRONG


def test_a_strictly_concave_throughput_has_one_stationary_point() -> None:
    # V = 1000 sqrt(u): V(1/2) = 707.1 on both paths, from any start. V = 1000 u: any split.
    found = rent.statements(starts=2)[1]
    assert found.numbers["spread_strictly_concave"] < 1e-6 < found.numbers["spread"]


ROUTES = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])
"""A long user over two links, each with a short one."""


def test_max_min_by_hand() -> None:
    # Links of 2 and 10: 1 each on the first, and 9 for the third. With a weight of 3 for the first
    # user 2 is shared as 3 to 1.
    capacity = np.array([2.0, 10.0])
    assert prices.max_min(ROUTES, capacity, np.ones(3)) == pytest.approx([1, 1, 9])
    found = prices.max_min(ROUTES, capacity, np.array([3.0, 1, 1]))
    assert found == pytest.approx([1.5, 0.5, 9.5])


def test_the_largest_price_is_max_min_fair_and_the_sum_is_not() -> None:
    # Equal links of 1000: a half each by the largest price. By the sum, p on each link, the long
    # user has sqrt(2 / 2p), the short ones sqrt(2 / p): 1 to sqrt(2).
    capacity, rtt = np.full(2, 1e3), np.full(3, 0.1)
    largest = prices.stationary_rates(ROUTES, capacity, rtt, prices._largest)
    assert largest == pytest.approx([500, 500, 500])
    added = prices.stationary_rates(ROUTES, capacity, rtt, prices._sum)
    assert added[0] / added[1] == pytest.approx(np.sqrt(2))


def test_rtts_are_the_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    found = prices.largest_price(4)
    assert found.verdict == "needs a condition"
    assert found.numbers["equal"] < 1e-6 < 0.1 < found.numbers["unequal"]
    monkeypatch.setattr(prices, "_largest", prices._sum)
    assert prices.largest_price(4).verdict == "wrong as printed"
