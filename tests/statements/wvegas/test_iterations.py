"""The iterations of wVegas' paper beside the solver."""

import json
from dataclasses import replace

import numpy as np
import pytest

from anabranch.papers.folder import open_paper
from anabranch.statements.wvegas import statements as statements
from anabranch.statements.wvegas.iterations import (
    GAMMA,
    PROPORTIONAL,
    THETA,
    Iteration,
    algorithm_1,
    algorithm_2,
    approximate,
    convergence,
    equal_shares,
)
from anabranch.theory.errors import NotConverged
from anabranch.theory.optimum.maximise import AlphaFair, Problem, Solution, solve
from conftest import Anabranch
from theory.optimum.problems import problem

FIGURE_2A = problem([5, 10, 6], [[0], [0], [1, 2], [1], [2]], [1, 2, 1, 1])


def test_the_first_steps_of_algorithm_1_by_hand():
    # Equal shares: 2.5 and 2.5, then 6/2 on S2's second path, 10/2 and 6/2. L1 is full, so it is
    # still free after a step: (21) adds 1 Mbps to its paths. L2 has 2 Mbps left; L3 none.
    assert equal_shares(FIGURE_2A) == pytest.approx([2.5, 2.5, 3, 5, 3])
    run = algorithm_1(FIGURE_2A, 2, 0.01)
    assert run.price[1] == pytest.approx([0, 0, 0])
    assert run.rate[1] == pytest.approx([3.5, 3.5, 4, 6, 4])
    # Now L1 carries 7 of 5 and L3 8 of 6: 0.01 * 2. S2 has 3.5 of its 7.5 above: k / q = 23.3.
    assert run.price[2] == pytest.approx([0.02, 0, 0.02])
    assert run.rate[2] == pytest.approx([1 / 0.02, 3.5 / 7.5 / 0.02, 4 / 7.5 / 0.02, 7, 50])


def test_the_first_step_of_11_and_12_by_hand():
    # All prices are 0, so x + theta / y: 2.5 + 0.1/2.5; S2 has 5.5 in all.
    run = approximate(FIGURE_2A, 1, 0.1, 0.01)
    step = np.array([1 / 2.5, 1 / 5.5, 1 / 5.5, 1 / 5, 1 / 3])
    assert run.rate[1] == pytest.approx(np.array([2.5, 2.5, 3, 5, 3]) + 0.1 * step)
    # The links hear of these rates; only L1 and L3 carry more than they can.
    assert run.price[1][0] == pytest.approx(0.01 * 0.1 * (1 / 2.5 + 1 / 5.5))
    assert run.price[1][1] == 0


def test_algorithm_2_allocates_weights_until_the_prices_of_used_paths_are_equal():
    best = solve(FIGURE_2A, PROPORTIONAL)
    weight = np.array([1, 0.05, 0.95, 1, 1])
    run = algorithm_2(FIGURE_2A, weight, 100)
    # (22) at the first weights is the weighted optimum: S1 and S2-1 share 5 as 1 to 0.05.
    assert run.rate[0][:2] == pytest.approx([5 / 1.05, 0.25 / 1.05], rel=1e-4)
    # "Quite close to the corresponding optimal values after about 20 steps" (V-A).
    assert run.error(best.rate)[20] < 0.05
    assert run.rate[-1] == pytest.approx([3.1028, 1.8972, 1.2056, 8.7944, 4.7944], abs=1e-4)
    q = run.price[-1] @ FIGURE_2A.routes
    assert q[1] == pytest.approx(q[2], rel=1e-4)


@pytest.mark.slow  # in the gate the command below and test_wvegas_statements.py
def test_all_three_end_at_the_optimum_of_both_networks():
    for one in convergence(open_paper("wvegas").folder, steps=1000, seed=2):
        for iteration in one.iterations:
            assert iteration.rate[-1] == pytest.approx(one.optimum, abs=1e-3)
            assert iteration.settled(one.optimum, one.within_mbps) < 300


def test_a_large_step_of_prices_diverges_with_an_error():
    best = solve(FIGURE_2A, PROPORTIONAL).rate
    assert algorithm_1(FIGURE_2A, 1000, GAMMA).settled(best, 0.05) < 100
    with pytest.raises(NotConverged, match=r"algorithm 1: after 1000 steps a path is .* Mbps from"):
        algorithm_1(FIGURE_2A, 1000, 0.03).settled(best, 0.05)
    with pytest.raises(NotConverged, match=r"\(11\) and \(12\): after 1000 steps"):
        approximate(FIGURE_2A, 1000, 10 * THETA, GAMMA).settled(best, 0.05)


@pytest.mark.parametrize(
    ("steps", "tries"), [(300, 5), pytest.param(1000, None, marks=pytest.mark.slow)]
)
def test_the_command_writes_its_figure_and_prints_the_end(
    steps, tries, tmp_path, monkeypatch, anabranch: Anabranch
):
    # All iterations settle in 300 steps; the statements are tried on few flows and networks.
    if tries:
        few = [statements.cheapest_paths_only(tries), statements.congestion_equality(tries)]
        monkeypatch.setattr(statements, "statements", lambda _folder: few)
    done = anabranch("theory", "wvegas", "--steps", steps, "--out", tmp_path / "out", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    first, second = document["iterations"]
    classes = [one["verdict"] for one in document["statements"]]
    every = ["holds", "needs a condition", *["holds"] * 3, "not stated (ours)", *["holds"] * 5]
    assert classes == (["holds", "holds"] if tries else every)
    assert first["optimum_mbps"] == pytest.approx(
        [3.1028, 1.8972, 1.2056, 8.7944, 4.7944], abs=1e-4
    )
    assert second["optimum_mbps"] == pytest.approx([9, 0, 9, 0, 9, 0], abs=1e-4)
    names = sorted(file.name for file in (tmp_path / "out").iterdir())
    assert names == ["wvegas_iterations.png", "wvegas_iterations.svg"]


def test_too_few_steps_are_an_error_of_one_line(tmp_path, anabranch: Anabranch):
    done = anabranch("theory", "wvegas", "--steps", "5", "--out", tmp_path / "out")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "algorithm 2: after 5 steps a path is" in done.stderr
    assert not (tmp_path / "out").exists()


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
    assert [one.verdict for one in found] == ["holds"] * 2
    assert found[1].numbers["off"] < 1e-12


def test_algorithm_2_is_tested_by_rates_and_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = open_paper("wvegas").folder
    found = statements.algorithm_2_in_20_steps(folder, starts=1)
    assert found.holds
    assert found.numbers["least_mbps"] == pytest.approx(9, abs=1e-3)
    # Rates alone do not decide: with the prices of the first step flow 2's are 48 % apart.
    run = statements.wvegas.algorithm_2

    def priced_once(problem: Problem, weight: np.ndarray, steps: int) -> Iteration:
        made = run(problem, weight, steps)
        return replace(made, price=np.tile(made.price[0], (len(made.price), 1)))

    monkeypatch.setattr(statements.wvegas, "algorithm_2", priced_once)
    found = statements.algorithm_2_in_20_steps(folder, starts=1)
    assert found.verdict == "wrong as printed"
    assert found.numbers["off_at_20_mbps"] < 0.05


def test_small_first_weights_take_longer() -> None:
    # A path whose weight is a million times too small: its part of the flow grows in each step by
    # the ratio of the two prices, which is at most 2 on figure 2(a).
    found = statements.first_weights(open_paper("wvegas").folder, starts=2)
    assert found.holds
    assert found.numbers["most_steps"] > found.numbers["least_steps"]


def test_the_ring_has_no_single_equilibrium(monkeypatch: pytest.MonkeyPatch) -> None:
    found = statements.position_of_the_equilibrium(starts=3)
    assert found.holds
    assert found.numbers["apart_mbps"] > 1
    # A step of prices that is too large: no flow gets its 10 Mbps.
    monkeypatch.setattr(statements, "RING_STEP", 0.1)
    assert not statements.position_of_the_equilibrium(starts=3).holds


def test_any_share_is_fair_on_the_triangle_alone() -> None:
    # x + 2 (9 - x)/2 = 9 on every link; a link of 6 Mbps has too much.
    triangle = problem([9, 9, 9], [[0], [1, 2], [1], [2, 0], [2], [0, 1]], [2, 2, 2])
    found = statements.fair_at_any_share(triangle)
    assert found.holds
    assert found.numbers["most_mbps"] == 9
    narrow = replace(triangle, capacity=np.array([9.0, 6.0, 9.0]))
    assert statements.fair_at_any_share(narrow).verdict == "wrong as printed"


def test_best_responses_flip_between_equal_prices() -> None:
    # One flow over two links of 10 Mbps: prices of 0.1 each, so 10 Mbps over the first; the second,
    # idle, gets cheaper by 0.01 * 10 in the next step, and then all goes over it at 1/q.
    run = statements.wvegas.best_responses(problem([10, 10], [[0], [1]], [2]), 1, 0.001)
    assert run.rate[0] == pytest.approx([10, 0])
    assert run.price[1] == pytest.approx([0.1, 0.09])
    assert run.rate[1] == pytest.approx([0, 1 / 0.09])
    converges, turns_off = statements.cycle_of_6(open_paper("wvegas").folder, steps=8000)
    assert converges.verdict == "needs a condition"
    assert converges.numbers["mean_off_mbps"] < 0.05 < 1 < converges.numbers["rate_off_mbps"]
    assert turns_off.holds
