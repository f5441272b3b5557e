"""wVegas' proposition 1, corollary 1 and iterations, by hand."""

from dataclasses import replace

import numpy as np
import pytest

from anabranch.papers.folder import open_paper
from anabranch.statements.wvegas import statements as statements
from anabranch.theory.optimum.maximise import AlphaFair, Problem, Solution, solve
from theory.optimum.problems import problem


def test_the_best_rates_of_one_flow_by_hand() -> None:
    # log y - 0.5 x_1 - 0.5 x_2 - x_3: 1/y = 0.5, so 2 in all on the first two.
    rate = statements.best_rates(AlphaFair(1.0), np.array([0.5, 0.5, 1.0]), np.array([1.0, 3, 2]))
    assert rate[:2].sum() == pytest.approx(2)
    assert rate[2] == pytest.approx(0, abs=1e-9)


def test_a_search_that_misses_the_best_rates_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    assert statements.cheapest_paths_only(10).holds
    monkeypatch.setattr(statements, "best_rates", lambda _, price, start: start)
    assert not statements.cheapest_paths_only(10).holds


def test_the_spread_of_prices_by_hand() -> None:
    # One user over two links with prices 1 and 1.5: the dearer is 0.5 above, if it is used.
    network = problem([1, 1], [[0], [1]], [2])
    price = np.array([1.0, 1.5])
    assert statements.spread(network, np.array([1.0, 1.0]), price) == pytest.approx(0.5)
    assert statements.spread(network, np.array([1.0, 0.0]), price) == 0


def test_equal_prices_do_not_make_a_fair_split() -> None:
    # 10 split 9:1 instead of 5:5: (ln(5/9) + ln(5/1)) / 2 = 0.5108.
    assert statements.two_users_of_one_link() == pytest.approx(0.5108, abs=1e-4)
    found = statements.equality_alone(10)
    assert found.verdict == "not stated (ours)"
    assert found.numbers["spread_with_weights"] < 1e-6
    assert found.numbers["largest_apart"] > 0.1


def test_corollary_1_holds_in_its_model() -> None:
    assert statements.congestion_equality(10).holds


def test_an_optimum_without_7_is_no_optimum_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    # One user has twice the weight: prices are equal and links full, and 2 U'(y) = q_1.
    def uneven(problem: Problem, utility: AlphaFair) -> Solution:
        weight = np.where(np.arange(len(problem.users)) == 0, 2.0, 1.0)
        return solve(replace(problem, weight=weight), utility)

    monkeypatch.setattr(statements, "solve", uneven)
    found = statements.congestion_equality(10)
    assert found.verdict == "wrong as printed"
    assert found.numbers["spread"] < 1e-6 < found.numbers["off_by_7"]


def test_the_iterations_end_at_the_optimum_and_keep_the_sum_of_alpha() -> None:
    found = statements.convergence(open_paper("wvegas").folder, starts=1, steps=300)
    assert [one.verdict for one in found] == ["holds"] * 3
    assert found[1].numbers["off"] < 1e-12
    assert found[2].numbers["least_mbps"] == pytest.approx(9, abs=1e-3)
