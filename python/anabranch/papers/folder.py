"""Open a paper's folder, `papers/<paper>/`: read its files once, and check their names.

`papers/README.md` documents the files; the types in `suite.py` say what each may contain.
"""

from dataclasses import replace
from pathlib import Path

from anabranch.experiments.case import Case
from anabranch.experiments.drawings import Bars, FromRuns, Sweep
from anabranch.papers.checks import ByStatement, Check, Known, Missing, needed
from anabranch.papers.suite import Item, Paper, repeated
from anabranch.scenario import ScenarioError, expected_one_of
from anabranch.typed_toml import Where, read_files

FOLDER = Path(__file__).parents[1] / "_papers"
FILES = ("published", "experiments", "claims", "errata")


def known_papers() -> list[str]:
    """The names of the papers that can be reproduced, sorted."""
    return sorted(file.parent.name for file in FOLDER.glob("*/experiments.toml"))


def open_paper(name: str) -> Paper:
    """Read and check a paper's folder.

    Raises `ScenarioError` for an unknown paper; for a file that is not TOML, for an unknown or
    missing key, a wrong value and a name of nothing, with the file, the key and what is expected.
    """
    if name not in known_papers():
        raise ScenarioError(f"unknown paper {name!r}: {expected_one_of(name, known_papers())}")
    folder = FOLDER / name
    read = read_files(Paper, folder, *FILES)
    claims = repeated(read.claims.values())
    paper = replace(read, folder=folder, name=read.name or name, claims=claims)
    _check(paper)
    return paper


def _check(paper: Paper) -> None:
    """Test that every name in a paper's files refers to something."""
    files = sorted(file.name for file in paper.folder.glob("scenario*.toml"))
    names = {name: [one.case for one in of.setups()] for name, of in paper.groups.items()}
    for group in paper.groups.values():
        group.where.at("scenario").one_of(group.scenario, files)
    for claim in paper.claims.values():
        claim.where.at("item").one_of(claim.item, list(paper.items))
        for choice in claim.rests_on:
            claim.where.at("rests_on").one_of(choice, list(paper.choices))
    known_items = [id for id, item in paper.items.items() if item.title]
    for item in paper.items.values():
        item.where.one_of(item.id, known_items)  # an item of `experiments.toml` alone
        if not item.place:
            raise item.where.at("place").error("missing")
        for metric in item.printed.values():
            for kind in metric.theory:
                metric.where.at("theory").one_of(kind, list(paper.theory))
        _check_cases(item, names)
    computed = list(paper.theory) if paper.predictions else []
    for item in paper.items.values():
        known = _check_numbers(item, paper)
        for claim in paper.claims_of(item):
            _check_claim(claim.check, claim.where.at("check"), known, computed)
    if asked := paper.predictions:
        for name in asked.groups:
            asked.where.at("groups").one_of(name, list(names))
    if agreed := paper.agreement:
        every = [Case.of(group, case) for group, cases in names.items() for case in cases]
        for id, cases in agreed.items.items():
            agreed.where.at("items").one_of(id, list(paper.items))
            for case in cases:
                agreed.where.at("items").at(id).one_of(case, every)


def _check_cases(item: Item, names: dict[str, list[Case]]) -> None:
    """Test the groups and the cases of an item's measures and figures."""
    reached: list[Case] = []
    figures = [one for one in item.figures or () if isinstance(one, FromRuns)]
    for entry in (*item.measures, *figures):
        group = entry.group or item.group
        if not group:
            raise entry.where.at("group").error("missing, here or in the item")
        (entry if entry.group else item).where.at("group").one_of(group, list(names))
        reached += names[group]
        for case in entry.cases or ():
            entry.where.at("cases").one_of(case, names[group])
    for case in item.cases or ():
        item.where.at("cases").one_of(case, list(dict.fromkeys(reached)))


def _check_numbers(item: Item, paper: Paper) -> Known:
    """Test that drops and figures name numbers of their item, which are returned as ones."""
    measured = item.measured(paper.groups)
    for drop in item.drops:
        drop.where.at("of").one_of(drop.of, list(measured))
        for key, case in (("from", drop.from_), ("to", drop.to)):
            drop.where.at(key).one_of(case, measured[drop.of])
    for drop in item.drops:
        measured.setdefault(drop.metric, []).append(drop.case)
    metrics = list({**measured, **item.printed})
    for figure in item.drawn:
        if isinstance(figure, Bars):
            for metric in figure.metrics or ():
                figure.where.at("metrics").one_of(metric, metrics)
        elif isinstance(figure, Sweep):
            figure.where.at("metric").one_of(figure.metric, metrics)
            printed = map(Case, item.metric(figure.metric).published)
            for case in (*measured.get(figure.metric, ()), *printed):
                if case.swept(figure.over) is None:
                    parts = ", ".join(figure.over)
                    message = f"expected exactly one of {parts} in the name of {case}"
                    raise figure.where.at("over").error(message)
    return {
        metric: dict.fromkeys([*measured.get(metric, ()), *item.metric(metric).named()], 1.0)
        for metric in metrics
    }


def _check_claim(check: Check, where: Where, known: Known, computed: list[str]) -> None:
    """Test that a claim's check names numbers; theory may be of one of the kinds `computed`."""
    if isinstance(check, ByStatement):
        return
    try:
        for metric, case in needed(check, known):
            where.one_of(metric, list(known))
            if case.algorithm not in computed:
                where.one_of(case, list(known[metric]))
    except Missing as missing:
        raise where.error(str(missing)) from missing
