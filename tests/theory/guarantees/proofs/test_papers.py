"""The papers' finite statements as formulas."""

import csv
from fractions import Fraction

import pytest

from anabranch.theory.guarantees.proofs.papers.all import PAPERS, prove_papers, record
from anabranch.theory.guarantees.proofs.papers.claim import (
    Claim,
    Exists,
    Implication,
    above,
    equal,
    proof,
    reals,
)
from anabranch.theory.guarantees.proofs.papers.itcp import decreased, increased
from anabranch.theory.queueing.adjustment import Rule
from anabranch.theory.quotes import QUOTES


@pytest.mark.parametrize("paper", ["wvegas", "rsf"])
def test_every_formula_is_proved(paper: str) -> None:
    found = prove_papers([paper], 5)
    for one in found.proofs:
        assert [part.result for part in one.parts] == ["proved"] * len(one.parts), one.place
    rows = list(csv.DictReader(record(found).splitlines()))
    assert [row["place"] for row in rows] == [one.place for one in found.proofs]
    assert all(row["formulas"] == row["proved"] for row in rows)
    shown = "".join(row["negations"] for row in rows)
    negated = [part for one in found.proofs for part in one.parts if part.says[:4] == "NOT "]
    assert shown
    assert all(part.says in shown for part in negated)


@pytest.mark.slow
def test_the_longer_ones_are_proved_too() -> None:
    results = {
        (one.place, part.says): part.result
        for one in prove_papers(["balia", "itcp"], 20).proofs
        for part in one.parts
    }
    assert set(results.values()) == {"proved"}


@pytest.mark.parametrize("paper", PAPERS)
def test_every_statement_is_one_that_the_paper_prints(paper: str) -> None:
    places = [claim.place for claim in PAPERS[paper]()]
    assert set(places) <= set(QUOTES[paper])
    assert len(set(places)) == len(places)


def test_what_is_false_is_refuted_with_numbers() -> None:
    x, y = reals("x y")
    false = Implication("false", [above(x, y)], [above(x, 2 * y)])
    impossible = Exists("impossible", [equal(x * x, 2 * y * y), equal(x, y)])
    found = proof("rsf", Claim("3, before (8)", [false, impossible]), 5)
    assert [part.result for part in found.parts] == ["refuted", "refuted"]
    x_value, y_value = (Fraction(found.parts[0].example[name]) for name in ("x", "y"))
    assert y_value < x_value <= 2 * y_value


def test_the_moves_of_itcp_are_those_of_its_rule() -> None:
    """(10) and the decrease, beside the controller that runs, at kappas 2 and 3."""
    k1, k2, rho, e, g = reals("kappa1 kappa2 rho epsilon gamma")
    numbers = {"kappa1": 2.0, "kappa2": 3.0, "rho": 0.5, "epsilon": 0.1, "gamma": 0.2}
    rule = Rule(epsilon=0.1, gamma=0.2, max_kappa=100.0)
    up = increased([k1, k2], 0, rho, e)[0]
    down = decreased([k1, k2], 0, g)[0]
    names = ["kappa1", "kappa2", "rho", "epsilon", "gamma"]
    at = [numbers[name] for name in names]
    # The share is 2/5: below the load 1/2 an increase, above the load 1/10 a decrease.
    for formula, load in ((up, 0.5), (down, 0.1)):
        value = float(formula.as_expr().subs(dict(zip(names, at, strict=True))))
        assert value == pytest.approx(rule.after(2.0, 0.4, load), rel=1e-12)
