"""Open a study's folder, `studies/<name>/`: `study.toml` and the scenarios that it names."""

from pathlib import Path

from anabranch.scenario import ScenarioError, expected_one_of
from anabranch.study.entries import Entries, Study
from anabranch.typed_toml import Where, read_files

FOLDER = Path(__file__).parents[1] / "_studies"


def known_studies() -> list[str]:
    """The names of the studies, sorted."""
    return sorted(file.parent.name for file in FOLDER.glob("*/study.toml"))


def open_study(name: str) -> Study:
    """Read and check a study's folder.

    Raises `ScenarioError` for an unknown study; for a file that is not TOML and for an unknown or
    missing key and a wrong value, with the file, the key and what is expected.
    """
    if name not in known_studies():
        raise ScenarioError(f"unknown study {name!r}: {expected_one_of(name, known_studies())}")
    folder = FOLDER / name
    entries = read_files(Entries, folder, "study")
    for key, case in entries.cases.items():
        where = Where(f"{name}/study.toml", "cases").at(key).at("scenario")
        if not (folder / case.scenario).is_file():
            known = sorted(file.name for file in folder.glob("scenario*.toml"))
            where.one_of(case.scenario, known)
    return Study(name, folder, entries)
