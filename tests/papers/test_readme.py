"""The page of a paper's files has every key with its meaning, every check and every quantity."""

import inspect
import sys
from pathlib import Path

import pytest

from anabranch.quantities import QUANTITIES

sys.path.append(str(Path(__file__).parents[2] / "docs" / "site"))

import paper_files


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
