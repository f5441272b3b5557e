"""Every folder of papers/ is consistent, and its claims hold on the numbers printed."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from anabranch.papers import curves, folder, reproduce
from anabranch.papers.claims import CHECKS
from anabranch.papers.judge import Verdict, judge
from anabranch.papers.quantities import QUANTITIES
from anabranch.papers.report import named_numbers
from anabranch.runner import plan
from anabranch.scenario import load

PAPERS = folder.known_papers()


@pytest.mark.parametrize("name", PAPERS)
def test_every_case_of_a_paper_is_a_scenario_that_can_run(name: str) -> None:
    paper = folder.open_paper(name)
    for group in paper.experiments["groups"].values():
        for case in folder.cases(group):
            scenario = load(paper.folder / group["scenario"], case.overrides)
            assert plan(scenario, case.algorithm, [1])


@pytest.mark.parametrize("name", PAPERS)
def test_every_number_of_a_paper_has_a_place_and_a_label(name: str) -> None:
    paper = folder.open_paper(name)
    assert "name" in paper.published["paper"]
    items, labels = paper.published["items"], paper.experiments["labels"]
    for item in paper.experiments["items"]:
        assert item["id"] in items
        assert {entry["quantity"] for entry in item.get("measures", [])} <= set(QUANTITIES)
        groups = {entry.get("group", item.get("group")) for entry in item.get("measures", [])}
        assert groups <= set(paper.experiments["groups"])
    for facts in items.values():
        for metric, entry in facts.items():
            if isinstance(entry, dict):
                assert metric in labels
                assert set(entry) <= {"published", "theory", "repeats"}
                assert set(entry.get("theory", {})) <= set(paper.published["theory"])
                for case in entry.get("published", {}):
                    assert set(case.split(".")) <= set(labels)


@pytest.mark.parametrize("name", PAPERS)
def test_every_figure_of_a_paper_is_of_a_known_kind_and_group(name: str) -> None:
    paper = folder.open_paper(name)
    for item in paper.experiments["items"]:
        for spec in item.get("figures", []):
            curves.check(spec, item["id"])
            if spec["kind"] in reproduce.DRAW:
                assert spec.get("group", item.get("group")) in paper.experiments["groups"]


@pytest.mark.parametrize("name", PAPERS)
def test_every_claim_has_an_item_a_check_and_a_reason_for_its_band(name: str) -> None:
    paper = folder.open_paper(name)
    assert len({claim["id"] for claim in paper.claims}) == len(paper.claims)
    for claim in paper.claims:
        assert claim["item"] in paper.published["items"]
        kind = claim["check"]["type"]
        assert kind in {*CHECKS, "statement", "text"}
        assert ("band" in claim) == (kind in CHECKS), claim["id"]


@pytest.mark.parametrize("name", PAPERS)
def test_every_choice_is_described_and_some_claim_rests_on_it(name: str) -> None:
    paper = folder.open_paper(name)
    for choice in paper.choices.values():
        assert set(choice) == {"text", "when", "otherwise"}
    named = {choice for claim in paper.claims for choice in claim.get("rests_on", ())}
    assert named == set(paper.choices)


@pytest.mark.parametrize("name", PAPERS)
def test_every_printed_number_is_judged(name: str) -> None:
    # A number printed in two tables is judged in one of them: metrics and cases identify it.
    paper = folder.open_paper(name)
    judged = {number for claim in paper.claims for number in numbers_of(paper, claim)}
    printed = {
        (metric, case)
        for facts in paper.published["items"].values()
        for metric, entry in facts.items()
        if isinstance(entry, dict) and not entry.get("repeats", False)
        for case in entry.get("published", {})
    }
    assert printed <= judged, sorted(printed - judged)


def numbers_of(paper: folder.Paper, claim: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The metric and case of each number to which a claim gives a band."""
    match claim["check"]:
        case {"type": "close" | "range", "metric": metric, "case": case}:
            yield metric, case
        case {"type": "ratio", "metric": metric, "num": num, "den": den, **more}:
            yield from ((metric, num), (more.get("den_metric", metric), den))
        case {"type": "levels", "metric": metric, **more}:
            printed = paper.published["items"][claim["item"]][metric]["published"]
            yield from ((metric, case) for case in more.get("cases", printed))


@pytest.mark.parametrize("name", PAPERS)
def test_no_claim_fails_on_the_paper_s_own_numbers(name: str) -> None:
    paper = folder.open_paper(name)
    verdicts = []
    for claim in paper.claims:
        metrics = paper.published["items"][claim["item"]]
        numbers = {
            metric: named_numbers(facts, facts.get("published", {}))
            for metric, facts in metrics.items()
            if isinstance(facts, dict)
        }
        judgement = judge(claim["check"], numbers)
        assert judgement.verdict is not Verdict.FAILS, f"{claim['id']}: {judgement.because}"
        printed = any("published" in facts for facts in metrics.values() if isinstance(facts, dict))
        if printed and not claim.get("own", False):
            verdicts.append(judgement.verdict)
    assert verdicts.count(Verdict.HOLDS) > len(verdicts) / 2


def test_a_reference_to_the_reason_of_another_claim_is_followed_by_that_reason() -> None:
    claims = folder.repeated(
        [
            {"id": "a1", "band": "A tenth."},
            {"id": "a2", "band": "As a1."},
            {"id": "a3", "band": "As a2; printed 1.5."},
            {"id": "a4", "band": "As expected.", "not_reproduced": "As a1."},
        ]
    )
    assert [claim["band"] for claim in claims] == [
        "A tenth.",
        "As a1: A tenth.",
        "As a2: As a1: A tenth. Here: printed 1.5.",
        "As expected.",  # no claim
    ]
    assert claims[3]["not_reproduced"] == "As a1."  # a1 has no reason of this kind


@pytest.mark.parametrize("name", PAPERS)
def test_no_reason_of_a_paper_is_a_mere_reference(name: str) -> None:
    for claim in folder.open_paper(name).claims:
        for key in ("band", "not_reproduced"):
            assert not re.fullmatch(r"As \w+\.", claim.get(key, "")), claim["id"]
