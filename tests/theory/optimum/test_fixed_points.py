"""Fixed points by loss: closed forms by hand, and the predictions of the OLIA draft."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from scipy.optimize import brentq

from anabranch.papers import predictions as predictions_module
from anabranch.papers.folder import FOLDER, open_paper
from anabranch.papers.predictions import (
    FIXED_POINT,
    KINDS,
    OPTIMUM,
    PROBING,
    predicted,
    predictions,
)
from anabranch.scenario import Scenario, ScenarioError, load, rules
from anabranch.theory.errors import NotConverged
from anabranch.theory.law import Law, States
from anabranch.theory.network import Network, Queues
from anabranch.theory.optimum import fixed_points
from anabranch.theory.optimum.fixed_points import fixed_point
from anabranch.theory.optimum.maximise import AlphaFair, Problem, solve
from conftest import Anabranch
from theory.optimum.problems import TWO_LINKS, networks


def point(text: str, algorithm: str, **words: float):
    return fixed_point(Network.of(Scenario.parse(text), algorithm), **words)


def olia_scenario(name: str, algorithm: str, **values: object):
    overrides = {key.replace("__", ".").replace("_0", "[0]"): v for key, v in values.items()}
    file = FOLDER / "olia" / f"scenario_{name}.toml"
    return fixed_point(Network.of(load(file, overrides), algorithm), rtt_s=0.15)


# ------------------------------------------------------------------ by hand


def test_the_fixed_point_of_one_path_is_the_square_root_formula():
    # 1 / w = p w / 2: w = sqrt(2 / p). `above` has half of 6 Mbps, 750 packets/s in 0.1 s: 37.5.
    text = TWO_LINKS.replace('[["top"], ["bottom"]]', '[["top"]]')
    found = point(text, "reno", rtt_s=0.1)
    assert found.window == pytest.approx([37.5, 37.5, 112.5])
    assert found.loss == pytest.approx([2 / 37.5**2, 2 / 112.5**2])


def test_lias_windows_are_inverse_to_losses_and_as_large_as_one_tcp_on_the_best_path():
    found = point(TWO_LINKS, "lia", rtt_s=0.1)
    window, loss = found.window[:2], found.path_loss[:2]
    assert window[0] * loss[0] == pytest.approx(window[1] * loss[1])
    assert window.sum() == pytest.approx(np.sqrt(2 / loss.min()))


def test_olia_uses_its_best_paths_only_and_is_as_large_as_one_tcp_there():
    # With 6 and 9 Mbps both paths of `both` can be best: all three users get 5.
    both = point(TWO_LINKS, "olia", rtt_s=0.1)
    assert both.user_mbps() == pytest.approx({"both": 5, "above": 5, "below": 5})
    assert both.path_loss == pytest.approx(np.full(4, both.loss[0]))
    # With 3 above it stays below.
    best = point(TWO_LINKS.replace("rate_mbps = 6", "rate_mbps = 3"), "olia", rtt_s=0.1)
    assert best.rate_mbps == pytest.approx([0, 4.5, 3, 4.5], abs=1e-6)
    assert best.window[1] == pytest.approx(np.sqrt(2 / best.loss[1]))


@given(problem=networks())
def test_olia_at_equal_rtts_is_the_optimum_for_alpha_2(problem):
    # A TCP's total is sqrt(2 / p) per RTT: p = 2 / (tau y)^2 is U' of alpha 2. Two searches that
    # share no code: one through the rule itself, one through the solver.
    problem, network = replace(problem, floor=np.zeros_like(problem.floor)), network_of(problem)
    found = fixed_point(network, rtt_s=0.1)
    totals = network.sums @ solve(problem, AlphaFair(2)).rate
    assert list(found.user_mbps().values()) == pytest.approx(totals, rel=2e-3)


def network_of(problem: Problem) -> Network:
    """The same links, paths and users, who run OLIA; a packet is a megabit."""
    links, paths = problem.routes.shape
    queues = Queues([None] * links, np.full(links, np.inf), np.zeros(links))
    users = [str(user) for user in range(problem.sums.shape[0])]
    return Network(
        links=problem.links,
        capacity=problem.capacity,
        queues=queues,
        routes=problem.routes,
        base_rtt=np.full(paths, 0.1),
        service=np.zeros(paths),
        starts=problem.sums.indptr.astype(np.int64),
        algorithms=["olia"] * len(users),
        flows=users,
        packet_bits=1e6,
        payload_bits=1e6,
    )


def test_an_unused_path_keeps_the_least_window():
    # One packet of 8000 bits per 80 ms: 0.1 Mbps above, and the rest as at the optimum.
    text = TWO_LINKS.replace("rate_mbps = 6", "rate_mbps = 3")
    found = point(text, "olia", rtt_s=0.08, least_window=1)
    assert found.rate_mbps == pytest.approx([0.1, 4.45, 2.9, 4.55])


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["name"])
def test_every_rule_by_loss_has_a_fixed_point_on_full_links_and_the_others_an_error(rule):
    if not rule["equilibrium_by_loss"]:
        with pytest.raises(ScenarioError, match=f"{rule['name']} has no fixed point by losses"):
            point(TWO_LINKS, rule["name"])
        return
    found = point(TWO_LINKS, rule["name"])
    loads = found.links()
    assert loads["load_mbps"].tolist() == pytest.approx([6, 9], rel=1e-6)
    assert (found.loss > 0).all()


@pytest.mark.parametrize("rule", [r for r in rules() if r["fluid"]], ids=lambda rule: rule["name"])
def test_phi_depends_on_windows_and_rtts_alone_where_the_table_says_so(rule):
    law, dice = Law(rule["name"]), np.random.default_rng(1)
    depends = False
    for _ in range(20):
        window, rtt = dice.uniform(2, 100, 3), dice.uniform(0.05, 0.3, 3)
        delay, loss = rtt * dice.uniform(0.1, 0.9, 3), 10 ** dice.uniform(-5, -1, 3)
        states = States.of_user(window, rtt, delay, loss)
        # OLIA's alpha is 0 where the best paths have the largest windows; see `fixed_points`.
        same = replace(states, loss_interval=window * rtt**2, queue_delay=np.full(3, 0.01))
        in_order = replace(states, loss_interval=states.loss_interval[0] * window * rtt**2)
        depends |= law.phi(in_order) != pytest.approx(law.phi(same), rel=1e-9)
    assert depends != (rule["equilibrium_by_loss"] or rule["variant_of"] == "olia")


def test_the_table_of_rules_says_which_rules_have_a_fixed_point(monkeypatch):
    other = {"vegas": True, "lia": False}
    table = [r | {"equilibrium_by_loss": other.get(r["name"], True)} for r in rules()]
    monkeypatch.setattr("anabranch.theory.law.rules", lambda: table)
    assert not fixed_points.is_by_loss("lia")
    assert fixed_points.is_by_loss("rsf-lb:mu=1")
    with pytest.raises(ScenarioError, match="lia has no fixed point by losses"):
        point(TWO_LINKS, "lia")


def test_a_link_that_is_not_full_loses_nothing():
    text = TWO_LINKS.replace('[["bottom"]]', '[["top", "bottom"]]')
    found = point(text.replace('[["top"], ["bottom"]]', '[["top"]]'), "reno", rtt_s=0.1)
    # Three users share the upper link, 250 packets/s each: windows of 25. One goes on below.
    assert found.loss == pytest.approx([2 / 25**2, 0], abs=1e-10)
    assert found.links()["load_mbps"].tolist() == pytest.approx([6, 2])


# ------------------------------------------------------------------ the OLIA draft


@pytest.mark.parametrize(("n", "printed"), [(10, 0.74), (30, 0.50)])
def test_lia_in_scenario_a(n, printed):
    # p2 is z p1. Type 1: x11 = 1 - x12, x12/x11 = p1/(p1 + p2), so x12 = 1/(2 + z); type 2 is a
    # TCP at p2, 1/sqrt(z); and R2 is full: 1/sqrt(z) + (N1/N2)/(2 + z) = 1.
    z = brentq(lambda z: z**-0.5 + n / 10 / (2 + z) - 1, 1, 100)
    found = olia_scenario("a", "lia", flows_0__count=n, links__R1__rate_mbps=n)
    rates = found.user_mbps()
    assert rates == pytest.approx({"type1": 1, "type2": z**-0.5})
    assert rates["type2"] == pytest.approx(printed, abs=0.005)
    assert found.loss[1] / found.loss[0] == pytest.approx(z)


@pytest.mark.parametrize(("n", "multipath", "singlepath"), [(10, 1.3, 0.7), (30, 1.17, 0.48)])
def test_lia_in_scenario_c(n, multipath, singlepath):
    # p2 is z p1: x1 = 1, x2 = 1/z, and a TCP on AP1 would have 1 + 1/z, on AP2 that over sqrt(z).
    z = brentq(lambda z: n / 10 / z + (1 + 1 / z) * z**-0.5 - 1, 1, 100)
    rates = olia_scenario("c", "lia", flows_0__count=n, links__AP1__rate_mbps=n).user_mbps()
    assert rates == pytest.approx({"multipath": 1 + 1 / z, "singlepath": (1 + 1 / z) * z**-0.5})
    # 0.4853 rounds to 0.49, where the draft prints 0.48 (erratum e11).
    assert rates["multipath"] == pytest.approx(multipath, abs=0.005)
    assert rates["singlepath"] == pytest.approx(singlepath, abs=0.006)


@pytest.fixture(scope="module")
def found():
    return predictions(open_paper("olia"))


@pytest.fixture
def olia(found):
    return {(p.item, p.metric, p.case, p.kind): p.value for p in found}


def test_lias_drops_in_scenario_b(olia):
    # Printed are 21 and 14 %; with more digits they are 22.3 and 14.4 (erratum e14).
    assert olia["table2", "drop_percent", "blue.lia", FIXED_POINT] == pytest.approx(22.3, abs=0.05)
    lost = olia["table2", "drop_percent", "aggregate.lia", FIXED_POINT]
    assert lost == pytest.approx(14.4, abs=0.05)


def test_olia_is_at_the_optimum_in_every_scenario(olia):
    rates = {
        key: v
        for key, v in olia.items()
        if key[2].endswith("olia") and "mbps" in key[1] and not key[0].startswith("congested")
    }
    assert len(rates) > 20
    for (item, metric, case, kind), value in rates.items():
        if kind == FIXED_POINT:
            assert value == pytest.approx(olia[item, metric, case, OPTIMUM], rel=1e-4)


def test_a_path_has_a_prediction_of_its_own(olia):
    # Red users send nothing over the path through both bottlenecks at the optimum and with OLIA,
    # one packet of 12000 bits per 150 ms with probing; LIA's 0.61 of 1.61 Mbps.
    at = {kind: olia["congested_b", "red2_mbps", "after.lia", kind] for kind in KINDS}
    assert at[OPTIMUM] == pytest.approx(0, abs=1e-6)
    assert at[PROBING] == pytest.approx(0.08, abs=1e-4)
    assert at[FIXED_POINT] == pytest.approx(0.606, abs=1e-3)
    with_olia = olia["congested_b", "red2_mbps", "after.olia", FIXED_POINT]
    assert with_olia == pytest.approx(0, abs=1e-6)


def test_the_predicted_drops_with_other_capacities_are_similar(olia):
    # 14.4 % with 27 and 36 Mbps: the claims cap1 to cap3.
    for case in ("x18_t36.lia", "x36_t36.lia", "x27_t48.lia"):
        drop = olia["other_capacities", "drop_percent", case, FIXED_POINT]
        assert drop == pytest.approx(14, abs=0.5), case


def test_the_cost_of_probing_is_as_described_in_the_draft(olia):
    # One packet of 12000 bits per 150 ms is 0.08 Mbps: type 2 loses N1/N2 of them, a multipath
    # user gains one, and in B each pair of users loses one.
    assert olia["table1", "type2_mbps", "n1_10.lia", PROBING] == pytest.approx(0.92, abs=1e-4)
    assert olia["table1", "type2_mbps", "n1_30.lia", PROBING] == pytest.approx(0.76, abs=1e-4)
    assert olia["table3", "multipath_mbps", "n1_10.lia", PROBING] == pytest.approx(1.08, abs=1e-4)
    assert olia["table2", "red_mbps", "after.lia", PROBING] == pytest.approx(2.06, abs=1e-4)


def test_a_report_has_the_predictions_among_its_theory_values(found, monkeypatch):
    assert predictions(open_paper("wvegas")) == []
    monkeypatch.setattr(predictions_module, "predictions", lambda _: found)
    paper = predicted(open_paper("olia"))
    facts = paper.items["table1"].metric("type2_mbps").theory
    assert facts["fixed_point"]["n1_10.lia"] == 0.74
    assert facts[FIXED_POINT]["n1_10.lia"] == 0.739
    assert facts[PROBING]["n1_10.lia"] == 0.92
    # The optimum that we compute is the printed one: a column of it would say nothing.
    assert OPTIMUM not in facts


# ------------------------------------------------------------------ what has none


def test_a_fixed_point_that_is_not_found_names_the_residual(monkeypatch):
    monkeypatch.setattr(fixed_points, "MOST_STEPS", 2)
    with pytest.raises(NotConverged, match="no fixed point found from 10 starts: the least resid"):
        point(TWO_LINKS, "balia")


def test_the_command_prints_a_papers_predictions_beside_its_own(anabranch: Anabranch):
    done = anabranch("theory", "fixed-points", "olia")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    (line,) = (words for words in lines if words[:3] == ["table3", "singlepath_mbps", "n1_30.lia"])
    assert line[3:] == ["0.4853", "0.4800", "1.0000", "1.0000", "0.7600", "0.8000"]


def test_the_command_prints_json_of_a_file(small, anabranch: Anabranch):
    done = anabranch("theory", "fixed-points", small, "--algorithm", "lia", "--json")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["fixed_points"]
    assert found["algorithm"] == "lia"
    assert found["links"][0]["load_mbps"] == pytest.approx(found["links"][0]["capacity_mbps"])


@pytest.mark.parametrize("what", ["nothing", "wvegas", "nowhere.toml"])
def test_the_command_names_a_missing_file_or_paper(what, anabranch: Anabranch):
    done = anabranch("theory", "fixed-points", what)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert what in done.stderr
