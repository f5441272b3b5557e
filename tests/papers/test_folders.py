"""Every folder of papers/ is consistent, and its claims hold on the numbers printed; the page of
their files has every key with its meaning, every check and every quantity."""

import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.experiments.case import Case
from anabranch.papers import folder
from anabranch.papers.checks import ByStatement, Close, Closer, Order, needed
from anabranch.papers.judge import Verdict, judge
from anabranch.papers.suite import Item, Stated, repeated
from anabranch.quantities import QUANTITIES
from anabranch.runner import plan
from anabranch.scenario import load

sys.path.append(str(Path(__file__).parents[2] / "docs" / "site"))

import paper_files

PAPERS = folder.known_papers()


@pytest.mark.parametrize("name", PAPERS)
def test_every_case_of_a_paper_is_a_scenario_that_can_run(name: str) -> None:
    paper = folder.open_paper(name)
    for group in paper.groups.values():
        for setup in group.setups():
            scenario = load(paper.folder / group.scenario, setup.overrides)
            assert plan(scenario, setup.algorithm, [1])


@pytest.mark.parametrize("name", PAPERS)
def test_every_metric_and_printed_number_of_a_paper_has_a_label(name: str) -> None:
    paper = folder.open_paper(name)
    assert paper.name != name
    for item in paper.items.values():
        for metric, printed in item.printed.items():
            assert metric in paper.labels
            for case in printed.published:
                assert set(Case(case).parts) <= set(paper.labels)


@pytest.mark.parametrize("name", PAPERS)
def test_every_claim_with_a_band_has_a_reason_for_it(name: str) -> None:
    for claim in folder.open_paper(name).claims.values():
        compared = not isinstance(claim.check, ByStatement)
        assert bool(claim.band) == compared, claim.id


@pytest.mark.parametrize("name", PAPERS)
def test_some_claim_rests_on_every_choice(name: str) -> None:
    paper = folder.open_paper(name)
    named = {choice for claim in paper.claims.values() for choice in claim.rests_on}
    assert named == set(paper.choices)


@pytest.mark.parametrize("name", PAPERS)
def test_every_printed_number_is_judged(name: str) -> None:
    # A number printed in two tables is judged in one of them: metrics and cases identify it.
    paper = folder.open_paper(name)
    items = paper.items.values()
    claims = [(item, claim) for item in items for claim in paper.claims_of(item)]
    judged = {number for item, claim in claims for number in banded(item, claim)}
    printed = {
        (metric, case)
        for item in items
        for metric, facts in item.printed.items()
        if not facts.repeats
        for case in facts.published
    }
    assert printed <= judged, sorted(printed - judged)


def on_print(item: Item) -> dict[str, dict[str, float]]:
    """An item's numbers as if those printed had been measured."""
    return {
        metric: {**printed.named(), **printed.published} for metric, printed in item.printed.items()
    }


def banded(item: Item, claim: Stated) -> Iterator[tuple[str, str]]:
    """The metric and case of each number to which a claim gives a band."""
    if not isinstance(claim.check, ByStatement | Order | Closer):
        yield from needed(claim.check, on_print(item))


@pytest.mark.parametrize("name", PAPERS)
def test_no_claim_fails_on_the_paper_s_own_numbers(name: str) -> None:
    verdicts, paper = [], folder.open_paper(name)
    for item in paper.items.values():
        printed = any(facts.published for facts in item.printed.values())
        for claim in paper.claims_of(item):
            judgement = judge(replace(claim, not_reproduced=""), on_print(item))
            assert judgement.verdict is not Verdict.FAILS, f"{claim.id}: {judgement.because}"
            if printed and not claim.own:
                verdicts.append(judgement.verdict)
    assert verdicts.count(Verdict.HOLDS) > len(verdicts) / 2


def test_a_reference_to_the_reason_of_another_claim_is_followed_by_that_reason() -> None:
    check = Close("m", Case("a"), 1.0)
    claims = [
        *repeated(
            [
                Stated("a1", "t", "", check, band="A tenth."),
                Stated("a2", "t", "", check, band="As a1."),
                Stated("a3", "t", "", check, band="As a2; printed 1.5."),
                Stated("a4", "t", "", check, band="As expected.", not_reproduced="As a1."),
            ]
        ).values()
    ]
    assert [claim.band for claim in claims] == [
        "A tenth.",
        "As a1: A tenth.",
        "As a2: As a1: A tenth. Here: printed 1.5.",
        "As expected.",  # no claim
    ]
    assert claims[3].not_reproduced == "As a1."  # a1 has no reason of this kind


@pytest.mark.parametrize("name", PAPERS)
def test_no_reason_of_a_paper_is_a_mere_reference(name: str) -> None:
    for claim in folder.open_paper(name).claims.values():
        for reason in (claim.band, claim.not_reproduced):
            assert not re.fullmatch(r"As \w+\.", reason), claim.id


@pytest.mark.parametrize("place", paper_files.TABLES)
def test_every_key_of_a_table_has_a_meaning(place: str) -> None:
    found = list(paper_files.keys(paper_files.TABLES[place]))
    assert found
    assert [name for name, _, meaning in found if not meaning] == []


def test_a_required_key_is_in_bold_and_a_reserved_word_has_no_underscore() -> None:
    page = paper_files.page()
    assert "| **`from`** | The case with the first value. |" in page
    assert "| `labels` | The text for each part of the names of metrics and cases. |" in page
    assert "| `every other key` | The parameters of the quantity. |" in page
    assert "`where`" not in page


@pytest.mark.parametrize("union", [paper_files.Figure, paper_files.Check], ids=["figure", "check"])
def test_every_key_of_a_figure_and_of_a_check_is_in_its_line(union: object) -> None:
    page = paper_files.page()
    kinds = paper_files.kinds(union)
    assert len(kinds) >= 4
    for kind in kinds:
        (line,) = [line for line in page.splitlines() if line.startswith(f"**`{kind.kind}`**: ")]
        text, _, named = line.partition(" Keys: ")
        assert len(text) > len(kind.kind) + 20
        assert all(f"`{name}`" in named for name, _, _ in paper_files.keys(kind) if name != "title")


def test_every_quantity_has_a_row_with_its_parameters() -> None:
    rows = {line.split("`")[1]: line for line in paper_files.page().splitlines() if "| `" in line}
    for name, function in QUANTITIES.items():
        parameters = list(inspect.signature(function).parameters)[1:]
        assert all(f"`{one}`" in rows[name].split(" | ")[1] for one in parameters), name
