"""Tables on the terminal: never wider than it, and no cell cut."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import anabranch
from anabranch.cli import sweep
from anabranch.cli.tables import new_table

CELLS = [f"{number}.341 ± 0.104" for number in range(8)]


def printed(width: int, prose: str = "short") -> list[str]:
    table = new_table("", "what", *(f"goodput of {n} (Mbps)" for n in range(8)), keys=1)
    table.add_row("two-path", prose, *CELLS)
    out = StringIO()
    Console(file=out, width=width).print(table)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_no_line_is_wider_than_the_terminal_and_no_cell_is_cut(width: int) -> None:
    lines = printed(width)
    assert max(map(len, lines)) <= width
    for cell in CELLS:
        assert any(cell in line for line in lines), f"{cell} is cut at {width} columns"


def test_columns_that_do_not_fit_continue_below_with_the_first_column_repeated() -> None:
    # 8 + 2 + 5 + 8 * (2 + 13) = 135 columns are needed, and 80 given: two tables.
    assert sum(line.startswith("two-path") for line in printed(80)) == 2
    assert sum(line.startswith("two-path") for line in printed(135)) == 1


def test_prose_wraps_beside_numbers_that_do_not() -> None:
    lines = printed(160, prose="a sentence about the rule " * 4)
    assert max(map(len, lines)) <= 160
    assert all(any(cell in line for line in lines) for cell in CELLS)
    assert sum("sentence" in line for line in lines) > 1


def test_a_sweep_repeats_every_key_in_each_table_of_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, small: Path
) -> None:
    out = StringIO()
    monkeypatch.setattr(sweep, "STDOUT", Console(file=out, width=40))
    grid = {"links.R1.rate_mbps": [5], "links.R2.delay_ms": [7], "flows.two.count": [3]}
    sweep.show_sweep(anabranch.sweep(small, grid, ["lia", "olia"], seeds=1))
    rows = [line.split()[:4] for line in out.getvalue().splitlines() if line.startswith("5 ")]
    assert len(rows) >= 2 * 2  # several tables of two rows
    assert rows == [["5", "7", "3", "lia"], ["5", "7", "3", "olia"]] * (len(rows) // 2)


def test_the_header_of_a_dotted_key_is_folded_after_its_dots() -> None:
    table = new_table("links.left.rate_mbps", "goodput of\nall (Mbps)")
    table.add_row("5", "1")
    out = StringIO()
    Console(file=out, width=24).print(table)
    assert [line.split()[0] for line in out.getvalue().splitlines()[:3]] == [
        "links.",
        "left.",
        "rate_mbps",
    ]
