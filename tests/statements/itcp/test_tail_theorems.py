"""Processor sharing against the theorems of the I-TCP paper."""

import numpy as np
import pytest
from scipy.special import expn

from anabranch import ScenarioError, _core
from anabranch.statements.itcp import tail_theorems
from anabranch.statements.itcp.tail_theorems import PAPER, Traffic

FIRST, SECOND = PAPER


# ---------------------------------------------------------------- the fluid
def test_exponential_files_take_the_mean_service_over_the_idle_share() -> None:
    # M/M/1 processor sharing, rho = 0.5: E[S] = 2 / (1 - 0.5) = 4 s.
    # The standard error of so many is about 1 %.
    files = _core.share([1.0], [(0, 0.5, 2.0, None)], 200_000, 1)
    assert np.mean(files["sojourn_s"]) == pytest.approx(4.0, rel=0.03)


def test_the_sojourn_time_of_a_file_is_insensitive_to_the_other_sizes() -> None:
    # E[S | B = b] = b / (1 - rho) depends on the load of the others alone. Fixed files of 1 s and
    # load 0.1 beside exponential ones of load 0.4: 1 / 0.5 = 2 s.
    for shape in (None, 3.0, np.inf):
        files = _core.share([1.0], [(0, 0.1, 1.0, np.inf), (0, 0.4, 0.3, shape)], 400_000, 2)
        fixed = files["sojourn_s"][files["class"] == 0]
        assert np.mean(fixed) == pytest.approx(2.0, rel=0.02)


def test_the_table_has_a_row_per_file_and_a_column_per_queue() -> None:
    files = _core.share([1.0, 2.0], [(0, 0.2, 1.0, 2.0), (1, 0.3, 1.0, 1.5)], 50, 3)
    assert files["workload_s"].shape == (50, 2)
    assert {len(files[name]) for name in ("class", "arrival_s", "service_s", "sojourn_s")} == {50}
    assert np.all(files["sojourn_s"] >= files["service_s"] * (1 - 1e-9))


# ---------------------------------------------------------------- the theorems
def test_theorem_2_by_hand() -> None:
    # phi1 = 0.5, x = 1: rho2 / (1 - rho) = 1, (phi2 - rho2) / (rho1 - phi1) = 13, smallest = 4 ms:
    # (0.004 / 13)^0.2 / 1.2 = 0.165366.
    assert tail_theorems.theorem2(FIRST, SECOND, 0.5, 1.0) == pytest.approx(0.165366, rel=1e-5)


def test_the_residual_lifetime_of_pareto_sizes_by_hand() -> None:
    # Smallest 1, mean 2: P(B^r > 1) = 1 - 1/2, P(B^r > 0.5) = 1 - 1/4, P(B^r > 4) = 4^-1 / 2.
    sizes = Traffic(0.5, 2.0, 2.0)
    assert tail_theorems.residual_tail(sizes, [0.5, 1.0, 4.0]) == pytest.approx([0.75, 0.5, 0.125])


def test_an_overloaded_queue_of_equal_files_grows_as_by_hand() -> None:
    # alpha = 1.2 (1 - exp(-alpha)) for files of 1 s at the rate 1: 1.2 * 0.313698 = 0.376437.
    # A Pareto shape of 1e6 is as good as equal files.
    alpha = tail_theorems.growth_per_s(Traffic(1.2, 1.0, 1e6), 1.0)
    assert alpha == pytest.approx(0.376437, rel=1e-4)


def test_an_overloaded_queue_grows_by_the_root_of_theorem_5() -> None:
    # For Pareto sizes from b with shape 3, E exp(-s B) = 3 E_4(s b), the exponential integral.
    one = Traffic(0.52, 0.052, 3.0)
    alpha = tail_theorems.growth_per_s(one, 0.4)
    transform = 3 * expn(4, alpha * one.smallest_s / 0.4)
    assert alpha == pytest.approx(10.0 * (1 - transform), rel=1e-9)
    assert alpha > 1.0


def test_a_queue_near_stability_grows_slowly() -> None:
    # Where rate and load are indistinguishable alpha is nearly 0, and the file of theorem 3 gets
    # the whole share: P(B1 > phi1 x).
    share = FIRST.load * (1 - 1e-12)
    busy = SECOND.load * tail_theorems.residual_busy_tail(SECOND, 1.0, 1.0)
    expected = busy * tail_theorems.size_tail(FIRST, share)
    assert tail_theorems.theorem3(FIRST, SECOND, share, 1.0) == pytest.approx(expected, rel=1e-6)


def test_too_little_guaranteed_rate_induces_the_tail_of_the_others() -> None:
    # Files of index 2.5. With 0.6 > rho1 their sojourn times keep it; with 0.4 < rho1 they get
    # 1.2 - 1 in the limit, and about 0.4 in such runs.
    found = tail_theorems.measure(shares=(0.4, 0.6), files=100_000, seeds=11)
    index = found.slopes[found.slopes["quantity"] == "sojourn1"].set_index("case")["index"]
    assert index["phi1 = 0.4"] < 1.0
    assert index["phi1 = 0.6"] > 2.0
    assert index["one queue"] > 2.0

    def row(case: str, quantity: str, x_s: float) -> "np.ndarray":
        rows = found.tails.query("case == @case and quantity == @quantity")
        return rows.iloc[int(np.argmin(np.abs(rows["x_s"].to_numpy() - x_s)))]

    # Theorem 1: subnet 2's tail is a power from the start, and the limit near at 1 s already.
    together = row("one queue", "sojourn2", 1.0)
    assert together["mean"] == pytest.approx(together["theory"], rel=0.1)
    # Theorem 2 in so short a run; the interval over these seeds is a third of the mean.
    workload = row("phi1 = 0.4", "workload1", 1.0)
    assert workload["mean"] == pytest.approx(workload["within"], rel=0.35)
    # Theorem 3 bounds from below.
    for x_s in (1.0, 10.0, 100.0):
        sojourn = row("phi1 = 0.4", "sojourn1", x_s)
        assert sojourn["mean"] > sojourn["theory"] > 0


@pytest.mark.parametrize(
    ("traffic", "message"),
    [
        ((Traffic(0.6, 1.0, 2.5), Traffic(0.4, 1.0, 1.2)), "add up to 1:"),
        ((Traffic(0.6, 1.0, 2.5), Traffic(0.2, 1.0, 1.0)), "shape 1 of class 2"),
        ((Traffic(0.6, 1.0, 2.5), Traffic(0.2, 1.0, float("nan"))), "shape nan"),
        ((Traffic(-0.1, 1.0, 2.5), Traffic(0.2, 1.0, 1.2)), "load -0.1 of class 1"),
    ],
)
def test_a_queue_without_a_steady_state_is_an_error(
    traffic: tuple[Traffic, Traffic], message: str
) -> None:
    with pytest.raises(ScenarioError, match=message):
        tail_theorems.measure(traffic)
