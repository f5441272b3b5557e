"""A rule is judged with the endpoint that it needs, and what `run` warns of is not swallowed."""

import json

import pytest

from anabranch.judge import checks
from anabranch.judge.entries import open_items
from anabranch.judge.networks import networks
from anabranch.judge.outcome import judge, suited
from anabranch.judge.subject import Subject


@pytest.mark.parametrize(("rule", "accurate"), [("dctcp", True), ("reno", False)])
def test_a_scalable_rule_has_accurate_ecn_in_each_item(rule: str, accurate: bool) -> None:
    entries = suited(open_items(), Subject.of(rule))
    for name in ("shared", "ecn"):
        item = entries.items[name]
        for network in networks(entries, name, item, quick=True):
            for scenario in (network.scenario, *network.references.values()):
                assert ('ecn = "accurate"' in scenario.to_folder()[0]) == accurate


def test_dctcp_does_not_run_as_reno_and_the_warnings_are_told(anabranch) -> None:
    # Beside Reno in one queue that marks, DCTCP has several times as much: its alpha is the share
    # of marks, Reno halves at each. With tcp.ecn = true both have the same.
    done = anabranch("judge", "dctcp", "--quick", "--items", "ecn", "--json")
    assert 'anabranch: warning: dctcp needs tcp.ecn = "accurate"' in done.stderr
    found = {one["item"]: one["result"] for one in json.loads(done.stdout)["items"]}
    assert found["ecn"] == "fails"


def test_a_warning_of_run_names_the_items_that_it_concerns() -> None:
    found = judge("bbr3", ["shared", "ecn"], quick=True)
    for warning in found.warnings:
        names, _, text = warning.partition(": ")
        assert set(names.split(", ")) <= {"shared", "ecn"}
        assert text
    assert len(set(found.warnings)) == len(found.warnings)


def test_an_error_of_the_prover_is_not_taken_for_a_rule_that_is_no_formula(monkeypatch) -> None:
    def broken(*_: object) -> None:
        raise StopIteration

    monkeypatch.setattr("anabranch.theory.guarantees.proofs.verdicts.prove", broken)
    item = open_items().items
    proofs = {name: one for name, one in item.items() if one.check == "proof"}
    with pytest.raises(StopIteration):
        checks.proofs(Subject.of("lia"), proofs, quick=True)
