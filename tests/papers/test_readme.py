"""The tables of papers/README.md have the keys of the types that read the files."""

import inspect
import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

from anabranch.experiments.quantities import QUANTITIES
from anabranch.papers.entries.checks import Check
from anabranch.papers.entries.claims import Choice, Claims, Stated
from anabranch.papers.entries.experiments import (
    Agreed,
    Algorithm,
    Assumed,
    Drop,
    Experiment,
    Experiments,
    Group,
    Measure,
    Predictions,
    Quick,
)
from anabranch.papers.entries.figures import Figure, Line
from anabranch.papers.entries.published import About, Erratum, Metric, Printed, Published
from anabranch.typed_toml import Where

README = (Path(__file__).parents[2] / "papers" / "README.md").read_text()

TABLES = {
    "## experiments.toml": {
        "the file": Experiments,
        "`[quick]`": Quick,
        "`[groups.NAME]`": Group,
        "`[groups.NAME.algorithms]`": Algorithm,
        "`[[items]]`": Experiment,
        "`measures`": Measure,
        "`drops`": Drop,
        "`[predictions]`": Predictions,
        "`[agreement]`": Agreed,
        "`[[assumed]]`": Assumed,
    },
    "### Figures": {"`lines`": Line},
    "## published.toml": {
        "the file": Published,
        "`[paper]`": About,
        "`[items.ID]`": Printed,
        "`[items.ID.METRIC]`": Metric,
    },
    "## errata.toml": {"`[[errata]]`": Erratum},
    "## claims.toml": {"the file": Claims, "`[[claims]]`": Stated, "`[choices.NAME]`": Choice},
}

Keys = dict[str, bool]
"""The keys of an entry, and whether each is required."""


def keys(kind: Any) -> Keys:
    """The keys of a type."""
    hints = get_type_hints(kind)
    own = [one for one in fields(kind) if hints[one.name] is not Where]
    return {
        one.name.rstrip("_"): one.default is MISSING and one.default_factory is MISSING
        for one in own
        if "rest" not in one.metadata
    }


def rows(heading: str) -> list[list[str]]:
    """The cells of the tables under a heading, without their own headings."""
    section = re.split(r"^#+ ", README.split(f"\n{heading}\n")[1], flags=re.MULTILINE)[0]
    lines = [line.strip("|").split(" | ") for line in section.splitlines() if line[:1] == "|"]
    return [[cell.strip(" |") for cell in line] for line in lines if not line[0].startswith("---")]


def test_every_table_of_keys_is_that_of_its_type() -> None:
    for heading, types in TABLES.items():
        entry, found = "", dict[str, Keys]()
        for name, key, *_ in (row for row in rows(heading) if len(row) == 3):
            entry = name or entry
            found.setdefault(entry, {})[key.strip("*`")] = key.startswith("**")
        for entry, kind in types.items():
            assert found[entry] == keys(kind), f"{heading}: {entry}"


def test_every_key_of_a_figure_and_of_a_check_is_in_its_row() -> None:
    for heading, union in (("### Figures", Figure), ("## claims.toml", Check)):
        cells = {row[0].strip("`"): row[2] for row in rows(heading) if len(row) == 3}
        for kind in get_args(get_args(union)[0]):
            named = re.findall(r"(\*\*)?`(\w+)`", cells[kind.kind])
            expected = {key: value for key, value in keys(kind).items() if key != "title"}
            if heading == "### Figures":
                named = [(bold, key) for bold, key in named if key not in ("case", "line")]
            assert {key: bool(bold) for bold, key in named} == expected, kind.kind


def test_every_parameter_of_a_quantity_is_in_its_row() -> None:
    """The star of a name stands for `from_s` and `to_s`."""
    for names, parameters, _ in (row for row in rows("### Quantities") if len(row) == 3):
        for name in re.findall(r"`(\w+)`", names):
            known = set(list(inspect.signature(QUANTITIES[name]).parameters)[1:])
            if names.endswith("*"):
                assert {"from_s", "to_s"} <= known, name
                known -= {"from_s", "to_s"}
            assert set(re.findall(r"`(\w+)", parameters)) == known, name
