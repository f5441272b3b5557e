"""A paper's folder, `papers/<paper>/`: what to run, what was published, what must hold.

It holds data only: scenario files, `experiments.toml` (groups of runs, and which quantities are
measured in them), `published.toml` (numbers as printed, with their place), `claims.toml` (what
must hold, and how near) and `errata.toml`. `papers/README.md` explains the words.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anabranch.scenario import ScenarioError

FOLDER = Path(__file__).parents[1] / "_papers"


@dataclass(frozen=True)
class Paper:
    """The data of one folder."""

    name: str
    folder: Path
    experiments: Mapping[str, Any]
    published: Mapping[str, Any]
    claims: Sequence[Mapping[str, Any]]
    errata: Sequence[Mapping[str, str]]


@dataclass(frozen=True)
class Case:
    """One line of a table: a scenario with some values replaced, and an algorithm."""

    name: str
    algorithm: str
    overrides: Mapping[str, Any]


def known_papers() -> list[str]:
    """The papers that can be reproduced."""
    return sorted(file.parent.name for file in FOLDER.glob("*/experiments.toml"))


def open_paper(name: str) -> Paper:
    """Read a paper's folder."""
    if name not in known_papers():
        raise ScenarioError(f"unknown paper {name!r}: expected one of {', '.join(known_papers())}")
    folder = FOLDER / name
    return Paper(
        name=name,
        folder=folder,
        experiments=_read(folder, "experiments"),
        published=_read(folder, "published"),
        claims=_read(folder, "claims")["claims"],
        errata=_read(folder, "errata")["errata"],
    )


def _read(folder: Path, name: str) -> dict[str, Any]:
    """`name.toml` and what continues it, `name_*.toml`: their tables and lists are joined."""
    joined: dict[str, Any] = {}
    for file in [folder / f"{name}.toml", *sorted(folder.glob(f"{name}_*.toml"))]:
        try:
            data = tomllib.loads(file.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise ScenarioError(f"{folder.name}/{file.name}: {error}") from error
        for key, value in data.items():
            match value:
                case dict():
                    joined[key] = joined.get(key, {}) | value
                case list():
                    joined[key] = joined.get(key, []) + value
                case _:
                    joined[key] = value
    return joined


def cases(group: Mapping[str, Any]) -> list[Case]:
    """Every setting of a group with every algorithm; `<setting>.<algorithm>` is the case's name.

    Without settings the algorithm alone is.
    """
    made = []
    for setting, values in group.get("settings", {"": {}}).items():
        for label, entry in group["algorithms"].items():
            name = f"{setting}.{label}" if setting else label
            overrides = {**group.get("set", {}), **values, **entry.get("set", {})}
            made.append(Case(name, entry.get("algorithm", label), overrides))
    return made


def seeds(paper: Paper, quick: bool) -> list[int]:
    """The seeds every case runs with."""
    return list((paper.experiments["quick"] if quick else paper.experiments)["seeds"])
