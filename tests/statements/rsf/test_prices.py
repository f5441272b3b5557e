"""Sources that react to the largest price, by hand."""

import numpy as np
import pytest

from anabranch.statements.rsf import prices

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
