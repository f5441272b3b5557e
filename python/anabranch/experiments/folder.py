"""Open the folders of suites: `studies/NAME/`, `studies/harm/` and `judge/`."""

from dataclasses import replace
from pathlib import Path

from anabranch.experiments.suite import Entries, Suite
from anabranch.scenario import ScenarioError, expected_one_of
from anabranch.typed_toml import Where, read_files

PACKAGE = Path(__file__).parents[1]
STUDIES, JUDGE = PACKAGE / "_studies", PACKAGE / "_judge"
SUITES = ("rfc9743", "controller")
"""The suites of `judge`."""


def known_studies() -> list[str]:
    """The names of the studies, sorted."""
    return sorted(file.parent.name for file in STUDIES.glob("*/study.toml"))


def open_study(name: str) -> Suite:
    """Read and check a study's folder.

    Raises `ScenarioError` for an unknown study; for a file that is not TOML and for an unknown or
    missing key and a wrong value, with the file, the key and what is expected.
    """
    if name not in known_studies():
        raise ScenarioError(f"unknown study {name!r}: {expected_one_of(name, known_studies())}")
    return _opened(STUDIES / name, "study")


def open_harm() -> Suite:
    """The suite of `anabranch harm`. Raises as `open_study`."""
    return _opened(STUDIES / "harm", "harm")


def open_judge(name: str = SUITES[0]) -> Suite:
    """The items of RFC 9743, in its order, or those of another suite. Raises as `open_study`."""
    if name not in SUITES:
        raise ScenarioError(f"unknown suite {name!r}: {expected_one_of(name, list(SUITES))}")
    if name != SUITES[0]:
        return _opened(JUDGE / name, name)
    suite = _opened(JUDGE, "judge")
    items = suite.entries.items
    ordered = dict(sorted(items.items(), key=lambda item: _number(item[1].section)))
    return replace(suite, entries=replace(suite.entries, items=ordered))


def _opened(folder: Path, name: str) -> Suite:
    entries = read_files(Entries, folder, name)
    file = f"{folder.name}/{name}.toml"
    files = sorted(one.name for one in folder.glob("*.toml") if not one.name.startswith(name))
    where = Where(file)
    named = [(where.at("cases").at(key), case.scenario) for key, case in entries.cases.items()]
    for key, item in entries.items.items():
        named.append((where.at("items").at(key), item.scenario))
    for place, scenario in named:
        if scenario:
            place.at("scenario").one_of(scenario, files)
    return Suite(folder.name.lstrip("_"), folder, file, entries)


def _number(section: str) -> tuple[float, ...]:
    """The order of sections: by number, and what is not the RFC's last."""
    if section == "theory":
        return (float("inf"),)
    return tuple(float(part) for part in section.split("."))
