"""The optimum: by hand, and by its own conditions."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.papers.folder import FOLDER, open_paper
from anabranch.scenario import Scenario, ScenarioError, load
from anabranch.statements.wvegas.iterations import WITHOUT_HEADERS
from anabranch.theory.errors import NotConverged
from anabranch.theory.optimum import maximise
from anabranch.theory.optimum.maximise import AlphaFair, Solution, certified, solve
from anabranch.theory.optimum.optimum import optima, ranges
from conftest import Anabranch
from theory.optimum.problems import TWO_LINKS, conic, networks, problem

LOG = AlphaFair(1)


def best_of(text: str, utility: AlphaFair = LOG, **words: object):
    """The only interval's optimum."""
    (best,) = optima(Scenario.parse(text), utility, **words)
    return best


def rates(best) -> dict[str, float]:
    """Rates by flow, Mbps."""
    return best.flows().set_index("flow")["rate_mbps"].to_dict()


# ------------------------------------------------------------------ by hand


def test_users_of_two_links_share_them_as_if_they_were_one():
    # 6 and 9 Mbps are 15 for three users, and 5 fits each: 1 + 5 on top, 4 + 5 at the bottom.
    best = best_of(TWO_LINKS)
    assert rates(best) == pytest.approx({"both": 5, "above": 5, "below": 5}, abs=1e-4)
    assert best.rate == pytest.approx([1, 4, 5, 5], abs=1e-4)
    # One Mbps more goes to all three: what it is worth is log's slope, 1/5, on either link.
    assert best.price == pytest.approx([0.2, 0.2], abs=1e-5)
    assert best.used.all()


def test_a_path_with_a_price_above_its_users_marginal_utility_is_not_used():
    # With 3 Mbps the upper user would pay 1/3 per Mbps; the others share 9 Mbps and pay 1/4.5.
    best = best_of(TWO_LINKS.replace("rate_mbps = 6", "rate_mbps = 3"))
    assert best.rate == pytest.approx([0, 4.5, 3, 4.5], abs=1e-4)
    assert best.used.tolist() == [False, True, True, True]
    assert best.path_price == pytest.approx([1 / 3, 1 / 4.5, 1 / 3, 1 / 4.5], abs=1e-5)


def test_probes_are_carried_and_paid_for():
    # 8000 bits per 80 ms are 0.1 Mbps on the upper path of `both`, which is not worth using.
    text = TWO_LINKS.replace("rate_mbps = 6", "rate_mbps = 3")
    best = best_of(text, probing=True, rtt_s=0.08)
    # `above` keeps 2.9; `both` and `below` split 9 so that both have 4.55 in all.
    assert best.rate == pytest.approx([0.1, 4.45, 2.9, 4.55], abs=1e-4)
    assert best.used.tolist() == [False, True, True, True]


def test_by_default_a_path_is_probed_once_per_base_rtt():
    # Base RTT: 20 ms there, 20 ms back, and 8000 bits at 3 Mbps, 8/3 ms.
    best = best_of(TWO_LINKS.replace("rate_mbps = 6", "rate_mbps = 3"), probing=True)
    assert best.floor[0] == pytest.approx(8 / (40 + 8 / 3))


def test_a_user_of_twice_the_weight_gets_twice_the_rate():
    # On one link log utilities share in proportion to their weights.
    text = TWO_LINKS.replace('[["top"], ["bottom"]]', '[["top"]]')
    assert rates(best_of(text, weights={"both": 2})) == pytest.approx(
        {"both": 4, "above": 2, "below": 9}, abs=1e-4
    )


@pytest.mark.parametrize(("alpha", "long"), [(1, 1 / 3), (2, 1 / (1 + 2**0.5)), (0, 0.0)])
def test_fairer_utilities_give_more_to_a_user_of_two_links(alpha, long):
    # Links of 1 Mbps with a user each, and one over both: y^-alpha = 2 (1 - y)^-alpha, so
    # y = 1/(1 + 2^(1/alpha)); the largest total leaves it nothing.
    three = problem([1, 1], [[0, 1], [0], [1]], [1, 1, 1])
    for solver in (solve, conic):
        found = solver(three, AlphaFair(alpha))
        assert found.rate == pytest.approx([long, 1 - long, 1 - long], abs=1e-4)


def test_unused_links_have_price_0_and_separate_parts_are_independent():
    apart = problem([4, 10, 7], [[0], [2]], [1, 1])
    for solver in (solve, conic):
        found = solver(apart, LOG)
        assert found.rate == pytest.approx([4, 7], rel=1e-4)
        assert found.price == pytest.approx([1 / 4, 0, 1 / 7], abs=1e-5)


# ------------------------------------------------------------------ by its conditions


@given(network=networks(), alpha=st.sampled_from([0.5, 1, 2, 3]))
def test_rates_and_prices_satisfy_the_optimality_conditions(network, alpha):
    utility = AlphaFair(alpha)
    found = solve(network, utility)
    total = network.sums @ found.rate
    load, slope = network.routes @ found.rate, utility.slope(total)
    paid = slope @ total
    assert (load <= network.capacity * (1 + 1e-9)).all()
    assert (found.rate >= network.floor).all()
    assert (found.price >= 0).all()
    # A link that is not full is free, and what a path carries beyond its floor is worth its price.
    # All against what users pay together, as the gap: a gap of 1e-6 leaves rates, whose worth is
    # flat at the optimum, about sqrt(1e-6) open.
    assert found.price @ (network.capacity - load) <= 1e-4 * paid
    difference = network.routes.T @ found.price - network.sums.T @ slope
    assert (difference * (network.sums.T @ total) >= -5e-3 * paid).all()
    assert np.abs(difference) @ (found.rate - network.floor) <= 5e-3 * paid
    assert found.gap <= 1e-5


@given(network=networks(), alpha=st.sampled_from([1, 2]))
def test_the_oracle_finds_the_same_totals(network, alpha):
    ours, oracle = (solver(network, AlphaFair(alpha)) for solver in (solve, conic))
    assert oracle.accepted
    totals = network.sums @ oracle.rate
    assert network.sums @ ours.rate == pytest.approx(totals, rel=1e-2, abs=1e-3)


def test_a_price_is_the_marginal_utility_of_capacity():
    base = np.array([5.0, 10, 6])

    def worth(capacity: np.ndarray) -> float:
        network = problem(capacity.tolist(), [[0], [1, 2], [0], [1], [2]], [2, 1, 1, 1])
        return float(np.sum(np.log(network.sums @ solve(network, LOG).rate)))

    network = problem(base.tolist(), [[0], [1, 2], [0], [1], [2]], [2, 1, 1, 1])
    for link, price in enumerate(solve(network, LOG).price):
        step = 1e-3 * np.eye(3)[link]
        more, less = worth(base + step), worth(base - step)
        assert price == pytest.approx((more - less) / 2e-3, rel=1e-3)


def test_conjugate_gradients_and_factors_agree(monkeypatch):
    rng = np.random.default_rng(7)
    paths = [rng.choice(40, 2, replace=False).tolist() for _ in range(160)]
    network = problem(rng.uniform(5, 50, 40).tolist(), paths, [2] * 80)
    exact = network.sums @ solve(network, LOG).rate
    monkeypatch.setattr(maximise, "DENSE_LINKS", 0)
    iterated = network.sums @ solve(network, LOG).rate
    assert iterated == pytest.approx(exact, rel=1e-3)


def test_the_gap_bounds_the_missing_utility():
    # One user on 10 Mbps with 9: it could have log(10/9) more, and pays 1 in all.
    one = problem([10], [[0]], [1])
    rough = Solution(np.array([9.0]), np.array([0.1]), "none", 0)
    assert certified(one, LOG, rough).gap == pytest.approx(np.log(10 / 9))
    # At 9 Mbps one more is worth 1/9, where a price of 1/10 is asked.
    assert certified(one, LOG, rough).mismatch == pytest.approx(0.1)
    # Wrong prices prove less: at 0.2 per Mbps the user would want 5, and the link earns 2.
    high = Solution(np.array([10.0]), np.array([0.2]), "none", 0)
    assert certified(one, LOG, high).gap == pytest.approx(np.log(5) - 1 + 2 - np.log(10))


def test_a_user_that_pays_a_negligible_part_gets_its_rate():
    # At alpha = 2 a user of 10 Gbps pays 1e-4 and three of 33 kbps 30 each: a gap of 1e-6 would
    # leave the first anywhere.
    wide = problem([0.1, 10_000], [[0], [1], [0], [0], [0]], [2, 1, 1, 1])
    found = solve(wide, AlphaFair(2))
    assert wide.sums @ found.rate == pytest.approx([10_000, *[0.1 / 3] * 3], rel=1e-4)
    assert not conic(wide, AlphaFair(2)).accepted
    with pytest.raises(NotConverged, match="off its marginal utility"):
        solve(wide, AlphaFair(8))


def test_rates_above_a_capacity_are_reduced_on_its_paths_only():
    apart = problem([10, 4], [[0], [1]], [1, 1])
    rough = Solution(np.array([11.0, 4.0]), np.array([0.1, 0.25]), "none", 0)
    found = certified(apart, LOG, rough)
    assert found.rate == pytest.approx([10, 4])
    assert found.gap == pytest.approx(0, abs=1e-12)


# ------------------------------------------------------------------ what comes and goes


def test_a_path_that_opens_later_counts_from_then():
    text = TWO_LINKS.replace(
        '["bottom"]]\n[[flows]]', '{ links = ["bottom"], start_s = 15 }]\n[[flows]]', 1
    )
    alone, both = optima(Scenario.parse(text))
    assert str(alone.interval) == "0 to 15 s"
    assert rates(alone) == pytest.approx({"both": 3, "above": 3, "below": 9}, abs=1e-4)
    assert rates(both) == pytest.approx({"both": 5, "above": 5, "below": 5}, abs=1e-4)


def test_a_failed_link_removes_its_paths_and_a_user_without_a_path_has_no_rate():
    text = TWO_LINKS.replace("rate_mbps = 6", "rate_mbps = 6\ndown = [{ from_s = 20, to_s = 40 }]")
    before, failed, after = optima(Scenario.parse(text))
    assert [str(best.interval) for best in (before, failed, after)] == [
        "0 to 20 s",
        "20 to 40 s",
        "40 to 60 s",
    ]
    assert rates(failed) == pytest.approx({"both": 4.5, "below": 4.5}, abs=1e-4)
    assert rates(after) == pytest.approx(rates(before))
    assert not failed.sending[1]


def test_an_interval_without_users_has_an_empty_optimum():
    text = TWO_LINKS.replace('name = "both"', 'name = "both"\nstart_s = 10')
    text = text.replace('name = "above"', 'name = "above"\nstart_s = 10')
    text = text.replace('name = "below"', 'name = "below"\nstart_s = 10')
    empty, all_three = optima(Scenario.parse(text))
    assert empty.flows().empty
    assert empty.solution.gap == 0
    assert len(all_three.flows()) == 3


def test_ranges_of_rates_that_are_not_unique():
    # Two users with the same two paths: any split that fills both links will do.
    text = TWO_LINKS.replace('name = "above"\npaths = [["top"]]', 'name = "above"\n' + BOTH)
    text = text.replace('name = "below"\npaths = [["bottom"]]', 'name = "below"\n' + BOTH)
    best = best_of(text)
    least, most = ranges(best)
    # Each has 5 in all; the other two have 10 and can fill top's 6 or leave it at 1.
    assert least == pytest.approx([0, 0, 0, 0, 0, 0], abs=1e-4)
    assert most == pytest.approx([5, 5, 5, 5, 5, 5], abs=1e-4)


BOTH = 'paths = [["top"], ["bottom"]]'


# ------------------------------------------------------------------ what can't be solved


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        (TWO_LINKS, {"probing": True, "rtt_s": 1e-3}, "infeasible: .* over link top"),
        (TWO_LINKS, {"weights": {"all": 1.0}}, "weight all=1: .* both, above, below"),
        (TWO_LINKS, {"weights": {"both": -1.0}}, "expected a number above 0"),
        (
            TWO_LINKS + "workload.on_off = { on_s = 1, off_s = 1 }",
            {},
            "flow below: a workload 'on_off' has no optimum",
        ),
    ],
)
def test_a_problem_without_an_optimum_is_an_error(text, words, message):
    with pytest.raises(ScenarioError, match=message):
        optima(Scenario.parse(text), **words)


def test_a_path_over_no_link_is_unbounded():
    with pytest.raises(ScenarioError, match="unbounded: a path of flow 1 crosses no link"):
        solve(problem([1], [[0], []], [1, 1]), LOG)


@pytest.mark.parametrize("text", ["", "logarithm", "alpha=", "alpha=-1", "alpha=nan", "beta=1"])
def test_an_unknown_utility_is_an_error(text):
    with pytest.raises(ScenarioError, match="expected log, or alpha=A"):
        AlphaFair.parse(text)


def test_not_converged_names_the_residual(monkeypatch):
    monkeypatch.setattr(maximise, "MOST_STEPS", 2)
    network = problem([5, 10, 6], [[0], [1, 2], [0], [1], [2]], [2, 1, 1, 1])
    with pytest.raises(NotConverged, match=r"after 2 iterations with a relative duality gap of"):
        solve(network, LOG)


def interval_rates(
    name: str, overrides: Mapping[str, object] = WITHOUT_HEADERS
) -> dict[str, dict[str, float]]:
    """Rates by interval, named as in the papers (`0_100`), of each path (`flow2_1`) and flow.

    The printed optima add up to the links' capacities, so headers are left out.
    """
    found = {}
    for best in optima(load(FOLDER / "wvegas" / f"scenario_{name}.toml", overrides)):
        by_path = {f"{r.flow}_{r.path + 1}": r.rate_mbps for r in best.paths().itertuples()}
        label = f"{best.interval.from_s:g}_{best.interval.to_s:g}"
        found[label] = by_path | {r.flow: r.rate_mbps for r in best.flows().itertuples()}
    return found


@pytest.fixture(scope="module")
def printed():
    return open_paper("wvegas").items


def test_figure_3_of_wvegas(printed):
    (found,) = interval_rates("fig2a").values()
    optimum = printed["fig3"].printed["rate_mbps"].theory["optimum"]
    assert {key: found[key] for key in optimum} == pytest.approx(optimum, abs=5e-5)


def test_headers_take_their_part_of_every_printed_rate(printed):
    # 54 of 1054 bytes are headers. With log utility the optimum is proportional to the capacities.
    (found,) = interval_rates("fig2a", {}).values()
    optimum = printed["fig3"].printed["rate_mbps"].theory["optimum"]
    goodput = {key: rate * 1000 / 1054 for key, rate in optimum.items()}
    assert {key: found[key] for key in optimum} == pytest.approx(goodput, abs=5e-5)


def test_the_triangle_of_wvegas(printed):
    (found,) = interval_rates("fig1b").values()
    optimum = printed["fig4"].printed["rate_mbps"].theory["optimum"]
    for flow in ("flow1", "flow2", "flow3"):
        assert found[f"{flow}_1"] == pytest.approx(optimum["one_hop"], abs=5e-5)
        assert found[f"{flow}_2"] == pytest.approx(optimum["two_hop"], abs=5e-5)


@pytest.mark.parametrize("path", [1, 2])
def test_table_2_of_wvegas(printed, path):
    found = interval_rates("fig1a")
    optimum = printed["table2"].printed[f"rate_2_{path}"].theory["optimum"]
    rate = {key: found[key][f"flow2_{path}"] for key in optimum}
    assert rate == pytest.approx(optimum, abs=5e-5)


def test_the_domino_effect_of_wvegas_and_the_ranges_of_its_optima(printed):
    network, facts = "scenario_domino.toml", printed["fig8"].printed
    for best in optima(load(FOLDER / "wvegas" / network, WITHOUT_HEADERS)):
        label = f"{best.interval.from_s:g}_{best.interval.to_s:g}"
        ours = {f"{label}.{r.flow}": r.rate_mbps for r in best.flows().itertuples()}
        theirs = facts["flow_mbps"].theory["optimum"]
        known = ours.keys() & theirs.keys()
        assert {k: ours[k] for k in known} == pytest.approx({k: theirs[k] for k in known}, abs=6e-3)
        frame = best.paths(split=True)
        for column in ("least", "most"):
            theirs = facts["rate_mbps"].theory[f"optimum_{column}"]
            for row in frame.itertuples():
                key = f"{label}.{row.flow}_{row.path + 1}"
                if key in theirs:
                    assert getattr(row, f"{column}_mbps") == pytest.approx(theirs[key], abs=6e-3)


def test_the_optima_of_the_olia_draft():
    # Proportional fairness: 1 Mbps for everybody in A and C, 2.1 in B, 63 in all (table 2).
    for name, expected in (("a", 1.0), ("b", 2.1), ("c", 1.0)):
        (best,) = optima(load(FOLDER / "olia" / f"scenario_{name}.toml"))
        assert best.user_rate == pytest.approx(expected, abs=1e-4)
    (best,) = optima(load(FOLDER / "olia" / "scenario_b.toml"))
    assert best.user_rate.sum() == pytest.approx(63, abs=1e-3)


@pytest.fixture
def two_links(tmp_path: Path) -> Path:
    file = tmp_path / "two.toml"
    file.write_text(TWO_LINKS)
    return file


def test_the_command_prints_json_and_fixed_points_beside(two_links: Path, anabranch: Anabranch):
    done = anabranch("theory", "optimum", two_links, "-a", "reno,lia", "--split", "--json")
    assert done.returncode == 0, done.stderr
    (interval,) = json.loads(done.stdout)["intervals"]
    assert [flow["rate_mbps"] for flow in interval["flows"]] == pytest.approx([5] * 3, abs=1e-3)
    assert interval["relative_gap"] < 1e-5
    assert interval["paths"][0]["most_mbps"] == pytest.approx(1, abs=1e-3)
    # Uncoupled, `both` is one of two users on each link: 3 and 4.5.
    assert interval["fixed_points_mbps"]["reno"]["both"] == pytest.approx(7.5, abs=1e-3)


def test_the_command_prints_tables(two_links: Path, anabranch: Anabranch):
    done = anabranch("theory", "optimum", two_links, "--utility", "alpha=2")
    assert done.returncode == 0, done.stderr
    assert "both    1       5.0000" in done.stdout
    assert "yes" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--utility", "sum"], "expected log"),
        (["--weight", "both"], "expected FLOW=W"),
        (["--probing", "--rtt-ms", "1"], "infeasible"),
        (["-a", "vegas"], "vegas has no fixed point by losses alone"),
        (["-a", "olla"], "olla"),
    ],
)
def test_the_command_reports_invalid_input_in_one_line(
    two_links: Path, anabranch: Anabranch, arguments: list[str], message: str
):
    done = anabranch("theory", "optimum", two_links, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


def test_paths_of_many_links_take_few_steps() -> None:
    # Users of two random stretches of 100 links in a row: 50 steps from prices in proportion to
    # the room of the links alone.
    dice = np.random.default_rng(1)
    ends = [sorted(dice.choice(101, 2, replace=False).tolist()) for _ in range(2000)]
    asked = problem([100.0] * 100, [list(range(*pair)) for pair in ends], [2] * 1000)
    assert solve(asked, LOG).iterations <= 30
