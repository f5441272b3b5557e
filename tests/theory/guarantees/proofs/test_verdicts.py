"""Requirements of rules are proved or refuted, from the code of the rule."""

import csv
import json
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from anabranch import _core
from anabranch.theory.guarantees.conditions import CONDITIONS
from anabranch.theory.guarantees.proofs import solvers
from anabranch.theory.guarantees.proofs.cases import ProvedRule, pieces
from anabranch.theory.guarantees.proofs.formula import formula, satisfied, value
from anabranch.theory.guarantees.proofs.queries import REQUIREMENTS
from anabranch.theory.guarantees.proofs.solvers import UNKNOWN
from anabranch.theory.guarantees.proofs.symbol import AT_LEAST, POSITIVE, ZERO, StatePath, atom
from anabranch.theory.guarantees.proofs.verdicts import PROVED, REFUTED, prove
from anabranch.theory.law import Law

DOUBLED = """
class Doubled:
    def increase(self, r, paths):
        return 2 / paths[r].window

    def decrease(self, r, paths):
        return paths[r].window / 2
"""

EXPECTED = {
    # Uncoupled: only the common link is shared unfairly.
    ("reno", True): {"harm": REFUTED},
    ("reno", False): {"harm": REFUTED},
    ("lia", True): {"C0": REFUTED},
    # RTTs from 2.92 to 1 apart, as `theory check` finds.
    ("lia", False): {"C0": REFUTED, "C2": REFUTED},
    ("balia", True): {"C0": REFUTED, "C1": REFUTED, "C2": REFUTED, "best": REFUTED},
}
"""Requirements that are not proved, by rule and whether RTTs are equal, with two paths."""


@pytest.mark.parametrize(("rule", "equal"), EXPECTED)
def test_two_paths_are_decided(rule: str, equal: bool) -> None:
    found = prove(rule, paths=[2], rtts=[equal], timeout_s=5)
    results = {one.requirement: one.result for one in found.verdicts}
    assert results == dict.fromkeys(results, PROVED) | EXPECTED[rule, equal]
    for one in found.verdicts:
        assert (one.confirmation is not None and one.confirmation.seen) == (one.result == REFUTED)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["coupled", "semicoupled", "lia", "generalized"])
def test_three_paths_agree_with_the_search(rule: str) -> None:
    found = prove(rule, paths=[3], rtts=[True], requirements=["C0", "C2", "C3", "C4", "C5"])
    # Balia's table I at equal RTTs.
    fails = {"coupled": {"C2", "C3"}}.get(rule, {"C0"})
    assert {one.requirement for one in found.verdicts if one.result == REFUTED} == fails
    assert {one.result for one in found.verdicts} == {PROVED, REFUTED}


@pytest.mark.slow
def test_three_paths_of_olia_are_decided() -> None:
    found = prove("olia", paths=[3], rtts=[True], timeout_s=20)
    results = {one.requirement: one.result for one in found.verdicts}
    # C4 holds where a path is neither largest nor best: its alpha is 0, so that it takes all of a
    # change of the total. With equal losses all are best.
    holds = ["C5", "1/w", "harm"]
    assert results == dict.fromkeys(results, REFUTED) | dict.fromkeys(holds, PROVED)
    assert all(one.confirmation and one.confirmation.seen for one in found.verdicts if one.state)


def test_cases_without_an_inverse_leave_the_others_to_refute() -> None:
    (olia,) = prove("olia", paths=[2], rtts=[True], requirements=["C1"]).verdicts
    assert olia.result == REFUTED
    assert olia.confirmation is not None
    assert olia.confirmation.seen
    (coupled,) = prove("coupled", paths=[2], rtts=[True], requirements=["C1"]).verdicts
    assert (coupled.result, coupled.why) == (UNKNOWN, "in a case the Jacobian has no inverse")


def test_a_refutation_violates_the_condition_in_floating_point() -> None:
    (found,) = prove("balia", paths=[2], rtts=[True], requirements=["C2"]).verdicts
    assert found.state is not None
    assert CONDITIONS["C2"][1][0].violation(Law("balia"), found.state.states())[0] > 0
    # The trajectory leaves the stationary rates, 1.2 to 1, for a ratio of about 1.57.
    assert found.confirmation is not None
    trajectory = found.confirmation.trajectory
    assert trajectory is not None
    first, last = (np.array(trajectory.rate)[i] for i in (0, -1))
    assert max(last) / min(last) > 1.1 * max(first) / min(first)


def test_a_record_has_a_row_per_requirement_and_the_first_refutation(
    tmp_path: Path, anabranch
) -> None:
    file = tmp_path / "proofs.csv"
    anabranch("theory", "prove", "reno", "--paths", "2", "--rtts", "equal", "--record", str(file))
    found = list(csv.DictReader(file.read_text().splitlines()))
    assert [row["requirement"] for row in found] == list(REQUIREMENTS)
    assert {row["any RTTs"] for row in found} == {""}
    results = {row["requirement"]: row["equal RTTs"] for row in found}
    assert results == dict.fromkeys(REQUIREMENTS, PROVED) | {"harm": REFUTED}
    # Two Renos on one link have twice a TCP's rate: one path with sqrt(2/0.02)/0.1 = 100 is a TCP.
    (example,) = (row["counterexample"] for row in found if row["counterexample"])
    assert example.startswith("2 paths, equal RTTs: rates [")


def test_a_broken_rule_in_python_is_refuted(tmp_path: Path, anabranch) -> None:
    (tmp_path / "doubled.py").write_text(DOUBLED)
    options = ["--paths", "2", "--rtts", "equal", "--only", "1/w,best", "--json"]
    done = anabranch("theory", "prove", f"{tmp_path / 'doubled.py'}:Doubled", *options)
    found = json.loads(done.stdout)["verdicts"]
    assert [one["result"] for one in found] == [REFUTED, PROVED]
    assert found[0]["confirmation"]["seen"]


@pytest.mark.parametrize("rule", ["lia", "balia", "generalized", "olia", "rsf-lb"])
def test_the_cases_are_the_rule(rule: str) -> None:
    """At fractions the case that applies gives exactly what the rule computes in fractions."""
    own = pieces(ProvedRule.of(rule), 2, equal_rtts=False)
    law = _core.Law(rule)
    numbers = [Fraction(1, 3), Fraction(2), Fraction(7, 2)]
    for x1, x2, t2, l2 in product(numbers, numbers, numbers, numbers):
        at = {"x1": x1, "x2": x2, "t1": Fraction(1), "t2": t2, "l1": Fraction(5), "l2": l2}
        paths = [
            StatePath(at[f"x{r}"] * at[f"t{r}"], at[f"t{r}"], Fraction(0), at[f"l{r}"], at[f"t{r}"])
            for r in (1, 2)
        ]
        (here,) = [one for one in own if satisfied(one.region, at)]
        for r, pair in enumerate(law.evaluate_in(paths)):
            functions = (here.increase[r], here.decrease[r])
            assert pair == tuple(value(f.numer, at) / value(f.denom, at) for f in functions)


def test_solvers_decide_what_simplification_leaves_open() -> None:
    own = pieces(ProvedRule.of("reno"), 2, equal_rtts=True)[0]
    x, y = own.variables.rate
    # x^2 + y^2 < 2 x y nowhere; x^2 - 2 y^2 = 0 somewhere, and never beside x = y.
    assert formula([atom(2 * x * y - x**2 - y**2, POSITIVE)]).never
    for atoms, result in (
        ([atom(2 * x * y - x**2 - y**2 - 1, AT_LEAST)], "unsat"),
        ([atom(x**2 - 2 * y**2, ZERO)], "sat"),
        ([atom(x**2 - 2 * y**2, ZERO), atom(x - y, ZERO)], "unsat"),
    ):
        answer = solvers.decide(formula(atoms), 5)
        assert answer.by == {"z3": result, "cvc5": result}


def test_a_missing_solver_is_named_with_the_extra(monkeypatch, anabranch) -> None:
    monkeypatch.setattr("anabranch.cli.theory.proofs.find_spec", lambda name: None)
    done = anabranch("theory", "prove", "lia", "--paths", "2", "--only", "A")
    assert done.returncode == 2
    assert 'pip install "anabranch[prove]"' in done.stderr


@pytest.mark.parametrize("rule", ["cubic", "vegas", "bbr3"])
def test_a_rule_without_phi_is_refused_with_the_reason(rule: str, anabranch) -> None:
    done = anabranch("theory", "prove", rule)
    assert done.returncode == 2
    assert "no phi" in done.stderr


def test_an_operation_that_fails_ends_the_evaluation() -> None:
    path = StatePath("ten", Fraction(1), Fraction(0), Fraction(100), Fraction(1))
    with pytest.raises(TypeError, match="unsupported operand"):
        _core.Law("reno").evaluate_in([path])


def test_every_refutation_is_json(anabranch) -> None:
    """OLIA's phi jumps, so that some trajectories fail."""
    options = ["--paths", "2", "--rtts", "equal", "--only", "A,C4,best", "--json"]
    found = json.loads(anabranch("theory", "prove", "olia", *options).stdout)["verdicts"]
    assert [one["result"] for one in found] == [REFUTED] * 3
