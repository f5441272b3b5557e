"""The rent-seeking game of the RSF paper, by hand, and the commands of this part of theory."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from anabranch import ScenarioError
from anabranch.cli.theory import queueing
from anabranch.statements.rsf import rent, statements
from anabranch.statements.statement import CONDITION, HOLDS, OURS

rates = st.lists(st.floats(0.01, 100.0), min_size=2, max_size=6)
STATEMENTS = cache(rent.statements)


@pytest.fixture(autouse=True)
def _fluid_model_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fluid model's statements, which each study has, take longer than the rest of it."""
    monkeypatch.setattr(rent, "statements", STATEMENTS)


# ---------------------------------------------------------------- equilibria
def test_with_ample_capacity_each_of_two_paths_has_a_quarter_of_the_inverse_price() -> None:
    # d/dx (x / (x + y) - p x) = y / (x + y)^2 - p = 0 with x = y: x = 1 / (4 p) = 2.5.
    found = rent.equilibrium(2, 0.1, 100.0)
    assert found.rates == pytest.approx([2.5, 2.5], rel=1e-6)
    assert found.multiplier <= 0


def test_at_full_capacity_each_of_two_paths_has_half_and_the_multiplier_is_positive() -> None:
    # B = 3: 1.5 / 9 = 1/6 is the marginal share; the multiplier is 1/6 - 0.1.
    found = rent.equilibrium(2, 0.1, 3.0)
    assert found.rates == pytest.approx([1.5, 1.5], rel=1e-6)
    assert found.multiplier == pytest.approx(1 / 6 - 0.1, rel=1e-6)


def test_other_weights_give_another_equilibrium() -> None:
    # (1 - u1) / 3 - 0.1 = L and (1 - u2) / 3 - 0.1 = L / 3 with u1 + u2 = 1: L = 0.1, u1 = 0.4.
    found = rent.equilibrium(2, 0.1, 3.0, (1.0, 3.0))
    assert found.rates == pytest.approx([1.2, 1.8], rel=1e-6)
    assert found.multiplier == pytest.approx(0.1, rel=1e-6)
    assert found.best_gain < 1e-9


def test_a_best_response_gains_off_the_equilibrium() -> None:
    # From (1, 1) at p = 0.1 the best answer to 1 is sqrt(1 / 0.1) - 1 = 2.162, where the utility is
    # 2.162 / 3.162 - 0.2162 = 0.46754 instead of 0.4.
    assert rent.best_gain([1.0, 1.0], 0.1, [10.0, 10.0]) == pytest.approx(0.06754, abs=1e-5)


@given(st.integers(2, 6), st.floats(0.01, 10.0), st.floats(0.1, 3.0))
def test_equilibria_equal_the_closed_form(players: int, price: float, room: float) -> None:
    wanted = (players - 1) / players / price
    found = rent.equilibrium(players, price, room * wanted)
    total = min(1.0, room) * wanted
    assert found.rates == pytest.approx(np.full(players, total / players), rel=1e-5)
    assert found.kkt_residual < 1e-6
    assert found.best_gain < 1e-6


def test_several_connections_have_more_than_one_equilibrium() -> None:
    even, few = rent.splits(2, [1.0, 1.0], 0.1)
    assert even.rates == pytest.approx(np.full((2, 2), 0.5), rel=1e-6)
    assert few.rates == pytest.approx(np.eye(2), rel=1e-6, abs=1e-12)
    for split in (even, few):
        assert split.kkt_residual < 1e-8
        assert split.best_gain < 1e-9


# ---------------------------------------------------------------- Rosen's condition
@given(st.lists(st.floats(0.5, 5.0), min_size=2, max_size=6), st.floats(0.01, 1.0))
def test_marginals_and_jacobian_are_the_derivatives(x: list[float], price: float) -> None:
    def utilities(points: np.ndarray) -> np.ndarray:
        return points / points.sum(axis=0) - price * points

    def marginals(points: np.ndarray) -> np.ndarray:
        total = points.sum(axis=0)
        return (total - points) / total**2

    def derivatives(f: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        # Derivative of a rational function, to rounding: f(x + ih) = f(x) + ih f'(x) + O(h^2).
        return f(at[:, None] + 1e-30j * np.eye(len(at))).imag / 1e-30

    at = np.array(x)
    slopes = np.diag(derivatives(utilities))
    assert rent.marginals(at, price) == pytest.approx(slopes, rel=1e-6, abs=1e-9)
    weights = np.arange(1.0, len(x) + 1)
    expected = weights[:, None] * derivatives(marginals)
    assert rent.jacobian(at, weights) == pytest.approx(expected, rel=1e-6, abs=1e-9)


@given(rates)
def test_even_weights_meet_the_condition_wherever_all_rates_are_above_0(x: list[float]) -> None:
    # The eigenvalues are those of w 1' + 1 w' - 2 I with w = 2 u - 1, halved with S: the largest is
    # below 0 just where the sum of squared shares is below 1.
    assert rent.leading_eigenvalue(x, np.ones(len(x))) < 0


def test_uneven_weights_violate_it_beyond_the_means_of_the_weights() -> None:
    # z = (1, 4): geometric 2 over arithmetic 2.5 is 0.8, that is shares of 0.9 and 0.1.
    assert rent.two_player_edge([1.0, 4.0]) == pytest.approx(0.8)
    assert rent.leading_eigenvalue([0.899, 0.101], [1.0, 4.0]) < 0
    assert rent.leading_eigenvalue([0.901, 0.099], [1.0, 4.0]) > 0
    assert rent.leading_eigenvalue([0.9, 0.1], [1.0, 4.0]) == pytest.approx(0, abs=1e-12)


@given(rates, st.floats(1.1, 5.0))
def test_two_states_of_even_weights_meet_11(x: list[float], factor: float) -> None:
    other = [factor * x[0], *x[1:]]
    assert rent.condition(x, other, np.ones(len(x))) > 0


def test_two_states_with_one_path_in_use_do_not() -> None:
    assert rent.condition([1.0, 0.0], [2.0, 0.0], [1.0, 1.0]) == 0


def test_the_papers_rules_are_newreno_per_path_where_queues_are_empty_and_losses_few() -> None:
    # sqrt(2 / p) / tau with p = 0.001: 894.43 at 50 ms, 298.14 at 150 ms.
    for rule in ("rsf-db", "rsf-lb", "reno"):
        found = rent.rule_rates(rule, (0.05, 0.15), (0.001, 0.001))
        assert found == pytest.approx([894.427, 298.142], rel=1e-4)


def test_first_order_points_by_hand() -> None:
    # Two players, p = 0.1: 2.5 each without (7); half of 3 each with it, and one multiplier.
    found = rent.first_order_points(2, 0.1, 10.0, 3, 1)
    assert found == pytest.approx(np.full((3, 2), 2.5), rel=1e-6)
    found = rent.first_order_points(2, 0.1, 3.0, 3, 1)
    assert found == pytest.approx(np.full((3, 2), 1.5), rel=1e-6)


def test_uniqueness_is_tested_apart_from_concavity(monkeypatch: pytest.MonkeyPatch) -> None:
    assert statements.unique(2).holds
    # A multiplier for each player: several points, which the normalised equilibrium is not.
    points = rent.first_order_points
    monkeypatch.setattr(rent, "first_order_points", lambda *call, shared=True: points(*call, False))
    found = statements.unique(3)
    assert found.verdict == "wrong as printed"
    assert found.numbers["apart"] > 0.01


def test_a_definite_matrix_implies_11(monkeypatch: pytest.MonkeyPatch) -> None:
    # z = (1, 4), beyond the edge of 0.8: m is (0.01, 0.99) at (0.99, 0.01), S = 1, and (0.00458,
    # 0.95236) at (1.04, 0.005), S = 1.045: 0.05 * 0.00542 - 0.005 * 4 * 0.03764 = -0.00048.
    assert statements.condition_c0(100).holds
    found = rent.condition([0.99, 0.01], [1.04, 0.005], [1.0, 4.0])
    assert found == pytest.approx(-0.000482, abs=1e-5)
    monkeypatch.setattr(rent, "condition", lambda *_: -1.0)
    assert statements.condition_c0(100).verdict == "wrong as printed"


def test_the_verdicts_on_the_paper() -> None:
    found = statements.study(states=200)
    of_4 = [HOLDS, CONDITION, CONDITION, OURS]
    of_the_game = [HOLDS, HOLDS, HOLDS, CONDITION, *[OURS] * 6]
    assert [s.verdict for s in found.statements] == of_4 + of_the_game


def test_what_the_paper_does_not_print_has_no_quote() -> None:
    for one in statements.study(states=20).statements:
        assert bool(one.printed) == (one.verdict != OURS)


def test_an_equilibrium_that_were_unique_would_not_need_normalised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Both are then the one for z = 1, so that nothing contradicts condition C1.
    alike = rent.equilibrium
    monkeypatch.setattr(rent, "equilibrium", lambda n, p, c, z=None: alike(n, p, c))
    found = {one.place: one.verdict for one in statements.study(states=20).statements}
    assert found["3, condition C1"] == HOLDS


@pytest.mark.parametrize(
    ("game", "message"),
    [
        ((1, 0.1, 1.0), "no equilibrium"),
        ((2, 0.0, 1.0), "price 0"),
        ((2, 0.1, -1.0), "capacity -1"),
        ((2, 0.1, 1.0, (1.0, 0.0)), "expected 2 numbers above 0"),
    ],
)
def test_a_game_without_equilibrium_is_an_error(game: tuple[object, ...], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        rent.equilibrium(*game)


# ---------------------------------------------------------------- the commands
APP = typer.Typer()
queueing.register(APP)

SMALL = {
    "queueing": ["--files", "2000", "--seeds", "2", "--share", "0.5"],
    "adjustment": ["--starts", "20"],
    "rent": ["--states", "50"],
}


@pytest.mark.parametrize("command", SMALL)
def test_a_command_prints_words_or_json_and_writes_its_figure(command: str, tmp_path: Path) -> None:
    out = [] if command == "adjustment" else ["--out", str(tmp_path)]
    words = CliRunner().invoke(APP, [command, *SMALL[command], *out], catch_exceptions=False)
    assert words.exit_code == 0
    call = [command, *SMALL[command], "--json"]
    document = json.loads(CliRunner().invoke(APP, call, catch_exceptions=False).stdout)
    assert {"queueing": "slopes", "adjustment": "eigenvalues", "rent": "rosen"}[command] in document
    if out:
        names = {file.name for file in tmp_path.iterdir()}
        assert names == {f"{command}.{kind}" for kind in ("json", "svg", "png")}
        assert json.loads((tmp_path / f"{command}.json").read_text()) == document


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (["queueing", "--load", "0.6,0.5"], "add up to 1.1"),
        (["queueing", "--load", "0.6"], "--load 0.6: expected two numbers"),
        (["queueing", "--shape", "2,x"], "--shape 2,x: expected numbers"),
        (["queueing", "--share", "1"], "share 1: expected"),
        (["queueing", "--load", "0.5,1e-9", "--files", "1000"], "none is of class 2"),
        (["adjustment", "--load", "0.6,0.5"], "add up to 1.1"),
        (["rent", "--paths", "1"], "no equilibrium"),
        (["rent", "--price", "0"], "price 0"),
    ],
)
def test_an_invalid_call_is_an_error_of_one_line(call: list[str], message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        CliRunner().invoke(APP, call, catch_exceptions=False)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
