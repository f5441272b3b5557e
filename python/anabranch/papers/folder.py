"""Open a paper's folder, `papers/<paper>/`: read its files once, check them, join them by item.

`papers/README.md` documents the files; the types in `entries/` say what each may contain.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from anabranch.papers.entries.case import Case
from anabranch.papers.entries.checks import ByHand, ByStatement, Missing, Numbers
from anabranch.papers.entries.claims import Claims, Stated, repeated
from anabranch.papers.entries.experiments import Experiment, Experiments
from anabranch.papers.entries.figures import Bars, Series, Sweep, Tail
from anabranch.papers.entries.paper import Item, Paper
from anabranch.papers.entries.published import Errata, Published
from anabranch.scenario import ScenarioError, expected_one_of
from anabranch.typed_toml import read_files

# Checks of what one entry of a paper's folder says of another: every name refers to something.


def check_files(
    folder: Path, experiments: Experiments, published: Published, stated: Claims
) -> None:
    """Test the names of scenarios, groups, cases, items, kinds of theory and choices.

    Raises `ScenarioError`, whose message is one line with file, key and what is expected.
    """
    files = sorted(file.name for file in folder.glob("scenario*.toml"))
    for group in experiments.groups.values():
        group.where.at("scenario").one_of(group.scenario, files)
    names = {name: [one.case for one in of.setups()] for name, of in experiments.groups.items()}
    items = list(published.items)
    for id, experiment in experiments.items.items():
        experiment.where.one_of(id, items)
        _check_cases(experiment, names)
    for printed in published.items.values():
        for metric in printed.metrics.values():
            for kind in metric.theory:
                metric.where.at("theory").one_of(kind, list(published.theory))
    for claim in stated.claims.values():
        claim.where.at("item").one_of(claim.item, items)
        for choice in claim.rests_on:
            claim.where.at("rests_on").one_of(choice, list(stated.choices))
    if asked := experiments.predictions:
        for name in asked.groups:
            asked.where.at("groups").one_of(name, list(names))
    if agreed := experiments.agreement:
        known = [Case.of(group, case) for group, cases in names.items() for case in cases]
        for id, cases in agreed.items.items():
            agreed.where.at("items").one_of(id, list(experiments.items))
            for case in cases:
                agreed.where.at("items").at(id).one_of(case, known)


def check_paper(paper: Paper) -> None:
    """Test that drops, figures and claims name numbers of their item.

    Raises `ScenarioError`, whose message is one line with file, key and what is expected.
    """
    kinds = list(paper.theory) if paper.predictions else []
    for item in paper.items.values():
        measured = item.measured(paper.groups)
        for drop in item.drops:
            drop.where.at("of").one_of(drop.of, list(measured))
            for key, case in (("from", drop.from_), ("to", drop.to)):
                drop.where.at(key).one_of(case, measured[drop.of])
        for drop in item.drops:
            measured.setdefault(drop.metric, []).append(drop.case)
        _check_figures(item, measured)
        known = {
            metric: dict.fromkeys([*measured.get(metric, ()), *item.metric(metric).named()], 1.0)
            for metric in {**measured, **item.metrics}
        }
        for claim in item.claims:
            _check_claim(claim, known, kinds)


def _check_cases(experiment: Experiment, names: dict[str, list[Case]]) -> None:
    """Test the groups and the cases of an item's measures and figures."""
    reached: list[Case] = []
    figures = [one for one in experiment.figures or () if isinstance(one, Series | Tail)]
    for entry in (*experiment.measures, *figures):
        group = entry.group or experiment.group
        if not group:
            raise entry.where.at("group").error("missing, here or in the item")
        (entry if entry.group else experiment).where.at("group").one_of(group, list(names))
        reached += names[group]
        for case in entry.cases or ():
            entry.where.at("cases").one_of(case, names[group])
    for case in experiment.cases or ():
        experiment.where.at("cases").one_of(case, list(dict.fromkeys(reached)))


def _check_figures(item: Item, measured: dict[str, list[Case]]) -> None:
    metrics = list({**measured, **item.metrics})
    for figure in item.figures:
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


def _check_claim(claim: Stated, known: Numbers, kinds: Sequence[str]) -> None:
    """Test that a claim's check names numbers; computed theory is of one of the `kinds`."""
    if isinstance(claim.check, ByHand | ByStatement):
        return
    where = claim.where.at("check")
    try:
        for metric, case in claim.check.needs(known):
            where.one_of(metric, list(known))
            if case.algorithm not in kinds:
                where.one_of(case, list(known[metric]))
    except Missing as missing:
        raise where.error(str(missing)) from missing


FOLDER = Path(__file__).parents[1] / "_papers"


def known_papers() -> list[str]:
    """The names of the papers that can be reproduced, sorted."""
    return sorted(file.parent.name for file in FOLDER.glob("*/experiments.toml"))


def open_paper(name: str) -> Paper:
    """Read and check a paper's folder.

    Raises `ScenarioError` for an unknown paper; for a file that is not TOML and for an unknown or
    missing key and a wrong value, with the file, the key and what is expected.
    """
    if name not in known_papers():
        raise ScenarioError(f"unknown paper {name!r}: {expected_one_of(name, known_papers())}")
    folder = FOLDER / name
    experiments = read_files(Experiments, folder, "experiments")
    published = read_files(Published, folder, "published")
    stated = read_files(Claims, folder, "claims")
    check_files(folder, experiments, published, stated)
    claims = repeated(stated.claims.values())
    joined = {
        id: Item.of(id, printed, experiments.items.get(id), claims)
        for id, printed in published.items.items()
    }
    paper = Paper(
        name=name,
        folder=folder,
        about=replace(published.paper, name=published.paper.name or name),
        theory=published.theory,
        choices=stated.choices,
        errata=list(read_files(Errata, folder, "errata").errata.values()),
        **{**vars(experiments), "items": joined},
    )
    check_paper(paper)
    return paper
