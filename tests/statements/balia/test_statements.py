"""Statements of Balia's paper on friendliness, responsiveness, oscillation; the design map."""

import json

import matplotlib
import numpy as np
import pytest

from anabranch.cli.main import main
from anabranch.figures import style
from anabranch.statements.balia import conditions_of_rules, design_map, statements
from anabranch.statements.balia import conditions_of_rules as rules
from anabranch.statements.balia import figure as map_figure
from anabranch.theory.guarantees import performance
from anabranch.theory.guarantees.conditions import phi_jacobian
from anabranch.theory.law import Law, States

MBPS = 10 / performance.CAPACITY


# Table III has 2.98/1.01, 2.64/1.32, 2.58/1.35 and 2.22/1.67, measured with queues and losses.
@pytest.mark.parametrize(
    ("spec", "multipath", "single"),
    [("ewtcp", 3.0, 1.0), ("semicoupled", 8 / 3, 4 / 3), ("lia", 2.591, 1.409), ("coupled", 2, 2)],
)
def test_the_network_of_figure_2(spec, multipath, single):
    # x_1 = 2 on the first link. EWTCP: x_2 = x_3 = 1. Semicoupled: x_2 (2 + x_2) = (2 - x_2)^2,
    # so x_2 = 2/3. Max: 2 (2 - x_2)^2 = x_2 (2 + x_2)^2, so x_2 = 0.591. Coupled: x_2 = 0.
    found = performance.sharing(spec)
    assert found.multipath.rate.sum() * MBPS == pytest.approx(multipath, abs=1e-3)
    assert found.reno * MBPS == pytest.approx(single, abs=1e-3)


def test_shares_of_one_bottleneck():
    # At the same price as Reno's x: EWTCP has x on both of two paths; Semicoupled x_r 2 x_r = x^2,
    # in total sqrt(2) x; Max, Coupled and the family with the norm inf have x in total.
    shares = {
        "ewtcp": 2 / 3,
        "semicoupled": np.sqrt(2) / (1 + np.sqrt(2)),
        "lia": 1 / 2,
        "coupled": 1 / 2,
        "generalized": 1 / 2,
    }
    for spec, share in shares.items():
        found = performance.share_of_bottleneck(spec, [0.04, 0.04])
        assert found == pytest.approx(share, abs=1e-4)


def test_reno_halves_its_rate_at_a_loss():
    assert performance.oscillation(Law("reno"), States.of_user([10], [0.1])) == pytest.approx(0.5)


def test_oscillation_stays_below_reno_up_to_eta_1():
    # k_r <= x_r |x|_1 / 2 needs x_r + eta (|x|_inf - x_r) <= |x|_1: true up to eta = 1.
    assert performance.largest_oscillation("generalized:beta=1:eta=1") <= 0.5
    assert performance.largest_oscillation("generalized:beta=1:eta=2") > 0.5
    # (12) by hand, beta = 1: phi_r x_r is the same on both paths, so D_s is the mean of
    # (x_r + 2 (|x|_inf - x_r))/2 over |x|_1: (100/2 + 199/2)/2 / 101.
    states = States.of_user([100, 1], [1, 1])
    found = performance.oscillation(Law("generalized:beta=1:eta=2"), states)
    assert found == pytest.approx((50 + 99.5) / 2 / 101)


def test_the_bound_of_theorem_3_5_is_zero_and_the_jacobians_own_is_not():
    # Reno at x = 100, tau = 0.1: [dPhi/dx]^+ = -4e-4 against 1/k = 2e-4 alone gives -2, and with a
    # price beside it 0.
    states = States.of_user([10], [0.1])
    jacobian, gain = phi_jacobian(Law("reno"), states)[0], performance.gain(Law("reno"), states)
    assert performance.bound_of_theorem_3_5(jacobian, gain, 0) == pytest.approx(-2)
    assert performance.bound_of_theorem_3_5(jacobian, gain, 1) == pytest.approx(0, abs=1e-12)


def test_a_larger_gain_can_make_the_linearised_system_slower():
    states = States.of_user([10, 5], [0.1, 0.1])

    def slowest(eta):
        law = Law(f"generalized:eta={eta}")
        jacobian, gain = phi_jacobian(law, states)[0], performance.gain(law, states)
        return gain, performance.abscissa(
            performance.linearised(jacobian, gain, np.eye(2), gamma=1e-4)
        )

    (small, first), (large, second) = slowest(0), slowest(1)
    assert (large >= small).all()
    assert first < second < 0


def test_the_linearised_system_of_one_reno_flow():
    # lambda^2 + a k lambda + k gamma = 0 with k = x^2/2 and a = 4/(tau^2 x^3): here x = 100,
    # tau = 0.1, so a k = 4e-4 * 5000 = 2 and k gamma = 0.75: lambda = -0.5 and -1.5.
    states = States.of_user([10], [0.1])
    jacobian, gain = phi_jacobian(Law("reno"), states)[0], performance.gain(Law("reno"), states)
    system = performance.linearised(jacobian, gain, np.eye(1), gamma=1.5e-4)
    assert performance.abscissa(system) == pytest.approx(-0.5)


def test_phi_is_ordered_at_equal_rtts_and_not_otherwise():
    for one, other in zip(statements.PRINTED, statements.PRINTED[1:], strict=False):
        test = conditions_of_rules.phi_at_least(one, other)
        assert conditions_of_rules.compare(test, one, users=100)[1] is None
    # Two paths of the same rate 20: 2/(w_r W) is 2/(40 * 45); LIA has 2 max(x/tau)/(w_r 40^2)
    # or, where that is less, 2/w_r^2.
    states = States.of_user([40, 5], [2, 0.2])
    phi = [Law(spec).phi(states) for spec in ("semicoupled", "lia")]
    assert (phi[0] < phi[1]).any()


def test_only_ewtcp_has_the_more_negative_jacobian():
    assert (
        conditions_of_rules.compare(
            conditions_of_rules.jacobian_at_most("ewtcp", "semicoupled"), "ewtcp"
        )[1]
        is None
    )
    for one, other in [("semicoupled", "lia"), ("lia", "coupled")]:
        assert (
            conditions_of_rules.compare(conditions_of_rules.jacobian_at_most(one, other), one)[1]
            is not None
        )


def test_max_minus_coupled_by_hand():
    # x_1 > x_2, tau = 1: the first row of J_max - J_coupled is 0 and the entry (2, 1) is
    # 2 (3 x_2 - x_1)/(x_2 |x|^3), so the symmetric part is indefinite unless x_1 = 3 x_2.
    states = States.of_user([5, 1], [1, 1])
    difference = (phi_jacobian(Law("generalized:beta=1:eta=0"), states)
                  - phi_jacobian(Law("coupled"), states))[0]  # fmt: skip
    assert difference[0] == pytest.approx([0, 0], abs=1e-15)
    assert difference[1, 0] == pytest.approx(2 * (3 - 5) / 6**3)
    assert np.linalg.eigvalsh((difference + difference.T) / 2)[-1] > 0


def test_one_path_is_reno_and_the_increase_of_12_is_1(monkeypatch: pytest.MonkeyPatch):
    assert rules.one_path_is_reno(20).holds
    assert rules.increase_of_section_i(20).holds
    # EWTCP with a weight of 1/2 and (12) with another beta are other rules.
    monkeypatch.setattr(rules, "TABLE_I", {"ewtcp:a=0.5": {}})
    assert not rules.one_path_is_reno(20).holds
    monkeypatch.setattr(rules, "Law", lambda name: Law(name.replace("beta=0.2", "beta=0.3")))
    assert not rules.increase_of_section_i(20).holds


def test_the_classes_of_statements_that_take_no_time():
    cheap = [
        rules.equilibrium_without_gain,
        rules.rule_of_section_i,
        statements.jacobians_in_order,
        statements.faster_by_its_bound,
        statements.phi_in_order,
        statements.responsiveness_in_order,
        statements.oscillation_below_reno,
    ]
    verdicts = [judge().verdict for judge in cheap]
    assert verdicts == ["holds"] + ["wrong as printed"] * 3 + ["holds"] * 3


def test_a_larger_gain_has_no_smaller_bound(monkeypatch):
    # EWTCP, each path alone: lambda^2 + 4 / (tau^2 x^3) k lambda + k gamma = 0 with k = x^2 / 2.
    # x = 50: k = 1250, lambda = -2 + sqrt(4 - 0.125) = -0.0315.
    found = statements.faster_by_its_bound()
    assert found.numbers["real_part_ewtcp"] == pytest.approx(-2 + np.sqrt(3.875))
    # With smaller gamma eta = 1 is faster than 0, and EWTCP at equal windows than Semicoupled.
    monkeypatch.setattr(statements, "FASTER", {"Jacobian": ("ewtcp", "semicoupled")})
    assert statements.faster_by_its_bound((10, 10)).holds


def test_friendliness_is_tested_in_many_networks(monkeypatch):
    found = statements.friendliness_in_order(nets=3)
    assert found.holds
    assert found.numbers["least_step"] > -statements.SHARE_ROUNDING
    # In the reverse order; two equal paths of EWTCP have 2/3, of Semicoupled 0.5858.
    assert statements._least_step(["semicoupled", "ewtcp"], [0.04] * 2, 0.04) == pytest.approx(
        np.sqrt(2) / (1 + np.sqrt(2)) - 2 / 3, abs=1e-4
    )
    monkeypatch.setattr(statements, "PRINTED", ["ewtcp", "coupled", "lia", "semicoupled"])
    assert statements.friendliness_in_order(nets=2).verdict == "wrong as printed"


def test_what_needs_a_condition_holds_under_it():
    # Max, tau = 0.1: phi_2 = 200 max(x) / (x_2 S^2), S = x_1 + x_2, at (100, 100). Where x_2 is the
    # largest it is 200 / S^2: the slope in x_1 is -400 / S^3 = -5e-5. Where x_1 is, it is
    # 200 x_1 / (x_2 S^2): 200 / (100 * 4e4) - 400 / 8e6 = 0.
    found = rules.kinks_of_max()
    assert found.verdict == "needs a condition"
    assert found.numbers["below"] == pytest.approx(-5e-5)
    assert found.numbers["above"] == pytest.approx(0, abs=1e-9)


def test_ewtcp_with_a_small_weight_gets_less_than_newreno():
    # Two paths with sqrt(a) of NewReno's rate each: 2 sqrt(0.2) / (1 + 2 sqrt(0.2)) = 0.4721.
    found = statements.weight_below_one()
    assert found.holds
    assert found.numbers["share_0.2"] == pytest.approx(0.4721, abs=1e-4)
    assert found.numbers["share_0.25"] == pytest.approx(0.5, abs=1e-4)


def test_the_gain_is_in_no_equilibrium(monkeypatch):
    assert rules.equilibrium_without_gain(20).holds
    # norm=1 is another Phi.
    monkeypatch.setattr(rules, "Law", lambda name: Law(name.replace("eta=2", "norm=1")))
    assert rules.equilibrium_without_gain(20).verdict == "wrong as printed"


@pytest.fixture
def small_map(monkeypatch):
    monkeypatch.setattr(design_map, "BETAS", np.array([0.0, 0.2, 1.0]))
    monkeypatch.setattr(design_map, "ETAS", np.array([0.0, 0.5, 2.0]))
    for name in ("BETAS", "ETAS"):
        monkeypatch.setattr(map_figure, name, getattr(design_map, name))
    return design_map.design_map()


def test_the_map_has_the_rules_where_the_family_contains_them(small_map):
    for rule, places in design_map.MEMBERS.items():
        for norm, beta, eta in places:
            i = design_map.NORMS.index(norm)
            j = int(np.flatnonzero(beta == design_map.BETAS)[0])
            k = int(np.flatnonzero(eta == design_map.ETAS)[0])
            for name, values in small_map.measures.items():
                measured = getattr(small_map.rules[rule], name)
                assert values[i, j, k] == pytest.approx(measured, abs=1e-6)


def test_no_design_dominates_one_on_the_front(small_map):
    points = np.stack([values.ravel() for values in design_map.gains(small_map.measures)], axis=1)
    front = small_map.front.ravel()
    for point in points[front]:
        better = (points >= point + 1e-6).all(axis=1)
        assert not better.any()
    assert 0 < front.sum() < len(front)


def test_the_map_is_drawn(small_map, tmp_path):
    style.save(map_figure.draw(small_map), tmp_path / "map")
    assert (tmp_path / "map.svg").exists()
    assert (tmp_path / "map.png").stat().st_size > 10_000
    json.dumps(small_map.as_dict(), allow_nan=False)
    assert matplotlib.rcParams["font.size"] == 10  # its settings are its own


@pytest.mark.parametrize("arguments", [["check"], ["check", "lia", "--all"], ["check", "nonsense"]])
def test_invalid_input_is_an_error_of_one_line(arguments, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["anabranch", "theory", *arguments])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_check_prints_a_counterexample(monkeypatch, capsys):
    command = ["anabranch", "theory", "check", "coupled", "--paths", "2"]
    for more in ([], ["--json"]):
        monkeypatch.setattr("sys.argv", command + more)
        with pytest.raises(SystemExit) as left:
            main()
        assert not left.value.code
        out = capsys.readouterr().out
        assert "States.of_user([" in out
    assert json.loads(out)["conditions"]["C2"]["holds"] is False
