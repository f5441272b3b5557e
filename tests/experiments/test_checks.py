"""Items that are no runs: operations counted by hand, proofs read."""

from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.experiments import checks
from anabranch.experiments.folder import open_judge
from anabranch.experiments.numbers import Answer
from anabranch.experiments.subject import Subject
from anabranch.experiments.suite import Item
from anabranch.scenario import rules

ITEMS = open_judge().entries.items
ITEM = ITEMS["operations"]

LINKED = """
import anabranch

class Linked(anabranch.Rule):
    def increase(self, r, paths):
        total = sum(path.window for path in paths)
        return min(1 / total, 1 / paths[r].window)
"""


def counted(rule: str, item: Item = ITEM) -> Answer:
    return checks.operations(Subject.of(rule), "operations", item)


def test_operations_are_counted_as_by_hand(tmp_path: Path) -> None:
    # Reno: 1 / w and w / 2.
    assert counted("reno").says.startswith("2 <= 160 operations")
    # 8 additions of `sum`, two divisions, a comparison of `min`, and w / 2.
    (tmp_path / "linked.py").write_text(LINKED)
    assert counted(f"{tmp_path / 'linked.py'}:Linked").says.startswith("12 <= 160 operations")


def test_the_operations_of_every_rule_per_packet_are_counted() -> None:
    for row in rules():
        found = counted(row["name"])
        assert (found.result == "not tested") == row["delay_based"], found.says


def test_more_operations_than_the_bound_fail() -> None:
    assert counted("reno", replace(ITEM, at_most=2.0)).result == "holds"
    assert counted("reno", replace(ITEM, at_most=1.0)).result == "fails"


def test_proofs_become_verdicts_with_the_state_of_a_refutation() -> None:
    items = {name: ITEMS[name] for name in ("C0", "C1", "goal-1")}
    found = {one.name: one for one in checks.proofs(Subject.of("lia"), items, quick=True)}
    # LIA's phi is not symmetric (Balia, table II); its fixed points keep goal 1.
    assert found["C0"].result == "fails"
    assert "rates" in found["C0"].state
    assert found["C1"].result == found["goal-1"].result == "holds"
    assert found["C1"].says == "proved for 2 paths, equal RTTs"


def test_without_the_solvers_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "find_spec", lambda name: None if name == "cvc5" else name)
    (found,) = checks.proofs(Subject.of("lia"), {"C0": ITEMS["C0"]}, quick=True)
    assert found.result == "not tested"
    assert found.says == 'needs cvc5: pip install "anabranch[prove]"'


@pytest.mark.parametrize(
    ("rule", "why"), [("wvegas", "no phi"), ("cubic", "time since the last loss")]
)
def test_a_rule_without_phi_is_not_tested(rule: str, why: str) -> None:
    (found,) = checks.proofs(Subject.of(rule), {"C0": ITEMS["C0"]}, quick=True)
    assert found.result == "not tested"
    assert why in found.says


def test_an_error_of_the_prover_is_not_taken_for_a_rule_that_is_no_formula(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise StopIteration

    monkeypatch.setattr("anabranch.theory.guarantees.proofs.verdicts.prove", broken)
    with pytest.raises(StopIteration):
        checks.proofs(Subject.of("lia"), {"C0": ITEMS["C0"]}, quick=True)
