"""Scenarios that the page begins with: examples, the eight studies, the networks of papers."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from anabranch.experiments.folder import known_studies, open_study
from anabranch.scenario import ScenarioError, expected_one_of, toml_value

PACKAGE = Path(__file__).parents[2]
EXAMPLES, PAPERS = PACKAGE / "examples", PACKAGE / "_papers"


@dataclass(frozen=True)
class Item:
    """A scenario to begin with."""

    id: str
    group: str
    title: str
    description: str
    file: Path
    set: Mapping[str, str] = field(default_factory=dict)
    """Values that a study replaces: dotted keys to TOML."""
    study: str | None = None

    @property
    def toml(self) -> str:
        """The file's text."""
        return self.file.read_text(encoding="utf-8")

    @property
    def inputs(self) -> dict[str, bytes]:
        """Trace files that its study makes, by name."""
        return dict(_traces(self.study)) if self.study else {}


@cache
def gallery() -> dict[str, Item]:
    """The items by id, in the order of the page."""
    items = [_of_file("Examples", "examples", file) for file in sorted(EXAMPLES.glob("*.toml"))]
    for name in known_studies():
        items += _of_study(name)
    for file in sorted(PAPERS.glob("*/scenario*.toml")):
        items.append(_of_file("Papers", f"papers/{file.parent.name}", file))
    return {item.id: item for item in items}


def item(name: str) -> Item:
    """The item with this id. Raises `ScenarioError` for an unknown one."""
    if name not in gallery():
        raise ScenarioError(f"unknown item {name!r}: {expected_one_of(name, list(gallery()))}")
    return gallery()[name]


def _of_file(group: str, folder: str, file: Path) -> Item:
    document = tomllib.loads(file.read_text(encoding="utf-8"))
    title = document.get("name", file.stem)
    return Item(f"{folder}/{file.stem}", group, title, _line(document), file)


def _of_study(name: str) -> list[Item]:
    study = open_study(name)
    items = []
    for key, case in study.entries.cases.items():
        items.append(
            Item(
                id=f"studies/{name}/{key}",
                group="Studies",
                title=f"{study.entries.title}: {case.label or key}",
                description=" ".join(study.entries.question.split()),
                file=study.folder / (case.scenario or study.entries.scenario),
                set={key: toml_value(value) for key, value in case.set.items()},
                study=name,
            )
        )
    return items


@cache
def _traces(study: str) -> dict[str, bytes]:
    return open_study(study).inputs


def _line(document: dict[str, Any]) -> str:
    return " ".join(str(document.get("description", "")).split())
