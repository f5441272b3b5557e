"""Read a paper's folder, `papers/<paper>/`.

It holds data only: scenario files, `experiments.toml` (groups of runs and the quantities measured
in them), `published.toml` (the printed numbers and where they are printed), `claims.toml` (checks
with their tolerances) and `errata.toml`. `papers/README.md` documents the keys.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anabranch.scenario import ScenarioError, expected_one_of

FOLDER = Path(__file__).parents[1] / "_papers"


@dataclass(frozen=True)
class Paper:
    """The contents of a paper's folder."""

    name: str
    folder: Path
    experiments: Mapping[str, Any]
    published: Mapping[str, Any]
    claims: Sequence[Mapping[str, Any]]
    choices: Mapping[str, Mapping[str, str]]
    """What was chosen after results were seen, by name."""
    errata: Sequence[Mapping[str, str]]


@dataclass(frozen=True)
class Case:
    """One row of a table: a scenario with some values replaced, and an algorithm."""

    name: str
    """`<setting>.<algorithm>`."""
    algorithm: str
    """As in a scenario file, such as `balia:cap=inf`."""
    overrides: Mapping[str, Any]
    """Values of the scenario to replace, by dotted key."""


def known_papers() -> list[str]:
    """The names of the papers that can be reproduced, sorted."""
    return sorted(file.parent.name for file in FOLDER.glob("*/experiments.toml"))


def open_paper(name: str) -> Paper:
    """Read a paper's folder.

    Raises `ScenarioError` for an unknown paper and for a file that is not TOML.
    """
    if name not in known_papers():
        raise ScenarioError(f"unknown paper {name!r}: {expected_one_of(name, known_papers())}")
    folder = FOLDER / name
    claims = _read(folder, "claims")
    return Paper(
        name=name,
        folder=folder,
        experiments=_read(folder, "experiments"),
        published=_read(folder, "published"),
        claims=repeated(claims["claims"]),
        choices=claims.get("choices", {}),
        errata=_read(folder, "errata")["errata"],
    )


def _read(folder: Path, name: str) -> dict[str, Any]:
    """`name.toml` and its continuations `name_*.toml`: tables are merged, lists are joined."""
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


def repeated(claims: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The claims with the reasons that "As a1." refers to: "As a1: " and the reason of claim a1.

    What follows the reference comes after "Here: ". Applies to the texts `band` and
    `not_reproduced`.
    """
    known = {claim["id"]: claim for claim in claims}

    def whole(key: str, text: str) -> str:
        found = re.fullmatch(r"As (\w+)(?:[.;:,]\s*(.*))?", text, re.DOTALL)
        if not found or key not in known.get(found[1], {}):
            return text
        there = f"As {found[1]}: {whole(key, known[found[1]][key])}"
        return f"{there} Here: {found[2]}" if found[2] else there

    keys = ("band", "not_reproduced")
    return [
        {key: whole(key, value) if key in keys else value for key, value in claim.items()}
        for claim in claims
    ]


def cases(group: Mapping[str, Any]) -> list[Case]:
    """Every setting of a group with every algorithm, named `<setting>.<algorithm>`.

    In a group without settings the name is the algorithm's.
    """
    made = []
    for setting, values in group.get("settings", {"": {}}).items():
        for label, entry in group["algorithms"].items():
            name = f"{setting}.{label}" if setting else label
            overrides = {**group.get("set", {}), **values, **entry.get("set", {})}
            made.append(Case(name, entry.get("algorithm", label), overrides))
    return made


def seeds(paper: Paper, quick: bool) -> list[int]:
    """The seeds of every case, unless its group has its own."""
    return list((paper.experiments["quick"] if quick else paper.experiments)["seeds"])
