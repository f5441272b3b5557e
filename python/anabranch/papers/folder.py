"""Open a paper's folder, `papers/<paper>/`: read its files once, check them, join them by item.

`papers/README.md` documents the files; the types in `entries/` say what each may contain.
"""

from dataclasses import replace
from pathlib import Path

from anabranch.papers.entries.claims import Claims, repeated
from anabranch.papers.entries.consistency import check_files, check_paper
from anabranch.papers.entries.experiments import Experiments
from anabranch.papers.entries.paper import Item, Paper
from anabranch.papers.entries.published import Errata, Published
from anabranch.scenario import ScenarioError, expected_one_of
from anabranch.typed_toml import read_files

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
    measured = {one.id: one for one in experiments.items}
    claims = repeated(stated.claims)
    paper = Paper(
        name=name,
        folder=folder,
        about=replace(published.paper, name=published.paper.name or name),
        seeds=experiments.seeds,
        average=experiments.average,
        quick=experiments.quick,
        groups=experiments.groups,
        items={
            id: Item.of(id, printed, measured.get(id), claims)
            for id, printed in published.items.items()
        },
        labels=experiments.labels,
        theory=published.theory,
        assumed=experiments.assumed,
        choices=stated.choices,
        errata=read_files(Errata, folder, "errata").errata,
        predictions=experiments.predictions,
        agreement=experiments.agreement,
    )
    check_paper(paper)
    return paper
