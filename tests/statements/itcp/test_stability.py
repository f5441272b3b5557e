"""I-TCP's (12), epsilon, the identities of appendix B and theorem 4, by hand."""

import numpy as np
import pytest

from anabranch.statements.itcp import stability
from anabranch.statements.itcp.adjustment import linear
from anabranch.statements.itcp.lemmas import Case
from anabranch.statements.itcp.tail_theorems import Traffic


def test_the_eigenvalues_of_12_hold_and_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [one.holds for one in stability.eigenvalues_of_12(20)] == [True, True]
    # With twice the loads: the leading one is another, and stability with it.
    monkeypatch.setattr(
        stability, "linear", lambda loads, epsilon: linear([2 * load for load in loads], epsilon)
    )
    assert [one.holds for one in stability.eigenvalues_of_12(20)] == [False, False]


def test_a_larger_epsilon_takes_fewer_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    found = stability.larger_epsilon(20)
    assert found.holds
    assert found.numbers["steps_most"] < found.numbers["steps_least"]
    monkeypatch.setattr(stability, "PARTS", stability.PARTS[::-1])
    assert stability.larger_epsilon(20).verdict == "wrong as printed"


def test_surplus_less_deficit_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    # rho = (0.5, 0.3), phi = (0.8, 0.2): 0.3 - 0.1 = 1 - 0.8.
    case = Case(np.array([0.5, 0.3]), np.array([8.0, 2.0]), 0.1, 0.2)
    monkeypatch.setattr(stability, "several", lambda _: case)
    found = stability.surplus_less_deficit(1)
    assert found.holds
    assert case.deficit == pytest.approx(0.1)
    monkeypatch.setattr(Case, "deficit", 0.2)
    assert stability.surplus_less_deficit(1).numbers["off"] == pytest.approx(0.1)


def test_the_least_step_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    # epsilon = 0.1, two connections, M = 10: the bound is 0.05 / 8000. ||B|| from 0.1 to 0.1 less
    # that bound: exactly as much; half of it is less.
    case = Case(np.array([0.5, 0.3]), np.array([8.0, 2.0]), 0.1, 0.2)
    bound = 0.05 / 20**3

    def moved(fall: float) -> Case:
        share = 0.2 + fall
        return Case(case.loads, np.array([10 * (1 - share), 10 * share]), 0.1, 0.2)

    for part, holds in ((1.001, True), (0.5, False)):
        monkeypatch.setattr(stability, "recovery", lambda _, part=part: (case, moved(part * bound)))
        assert stability.least_step(1).holds == holds


def test_a_busy_period_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    # Files of 2, 2, 2 with gaps of 1, 4, 5 behind them: busy periods of 4 and 2. E[(W - 1)^+] =
    # (3 + 1) / 2 over E[W] = 3; at 3: 1/2 over 3.
    class Dice:
        def pareto(self, *_: float) -> np.ndarray:
            return np.zeros(3)

        def exponential(self, *_: float) -> np.ndarray:
            return np.array([1.0, 4.0, 5.0])

    monkeypatch.setattr(np.random, "default_rng", lambda _: Dice())
    monkeypatch.setattr(stability, "LATE", np.array([0.25, 0.75]))
    # The smallest of index 2 and mean 4 is 2.
    found = stability.residual_busy_periods(Traffic(0.5, 4.0, 2.0), 3, 1)
    assert found == pytest.approx([2 / 3, 1 / 6])


def test_theorem_4_is_an_order_of_magnitude_in_short_runs() -> None:
    # Theorem 4 at x = 10: 2 P(B^r > 5) = 2 (0.6 / 5)^1.5 / 2.5 = 0.0333.
    found = stability.theorem_4(2, 300_000)
    assert found.verdict == "measured"
    assert 1 < found.numbers["ratio_at_10"] < 3
