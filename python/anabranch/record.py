"""CSV files of verdicts and numbers (`--record`), of which a command replaces what it found."""

import csv
import io
import os
from collections.abc import Sequence
from pathlib import Path

from anabranch._core import ScenarioError
from anabranch.formats import csv_table

Rows = dict[tuple[str, ...], dict[str, str]]
"""Cells by the names of their row and by column."""


def update(
    file: Path, new: str, names: int, whole: int, said: str = "", anew: bool = False
) -> None:
    """Write `new` into `file`: rows and columns that it does not have stay as they are.

    A row has the first `names` columns as its name. A row of the file that has the first `whole`
    names of a new one, and is not new itself, loses the cells of the new columns. A cell of the
    column `said` has an entry "RULE: ..." per rule, of which only those of new columns change. The
    file is replaced at once, or left as it was. If `anew` nothing of it stays.

    Raises `ScenarioError` if the file is no record of the same command.
    """
    header, rows = _read(new, names)
    before, kept = ([], {}) if anew else _existing(file, header[:names])
    columns = [*before, *(name for name in header[names:] if name not in before)]
    groups = {row[:whole] for row in rows}
    for row, cells in kept.items():
        if row[:whole] in groups:
            found = rows.get(row, {})
            for name in header[names:]:
                others = _entries(cells.get(name, ""), header) if name == said else []
                cells[name] = " | ".join([*others, *filter(None, [found.get(name, "")])])
    last = {row[:whole]: place for place, row in enumerate(kept)}
    order = sorted(
        dict.fromkeys([*kept, *rows]),
        key=lambda row: last.get(row[:whole], len(kept)),  # stable: new ones after their group
    )
    merged = {row: kept.get(row) or rows[row] for row in order}
    if said in columns:
        columns = [*(name for name in columns if name != said), said]
    body = [
        [*row, *(cells.get(name, "") for name in columns)]
        for row, cells in merged.items()
        if any(cells.values())
    ]
    file = file.resolve()
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        temporary.write_text(csv_table([*header[:names], *columns], body), encoding="utf-8")
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)


def check(file: Path | None, *names: str) -> None:
    """Raise `ScenarioError` if the file is there and its rows do not have these names."""
    if file is not None:
        _existing(file, names)


def _existing(file: Path, expected: Sequence[str]) -> tuple[list[str], Rows]:
    names = len(expected)
    try:
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        header, rows = _read(text, names) if text.strip() else ([*expected], {})
    except (UnicodeDecodeError, csv.Error):
        header = ["another format"]
    if header[:names] != list(expected):
        raise ScenarioError(
            f"--record {file}: expected a record with the columns {', '.join(expected)}, "
            f"got {', '.join(header[:names])}: name another file"
        )
    return header[names:], rows


def _read(text: str, names: int) -> tuple[list[str], Rows]:
    header, *rows = csv.reader(io.StringIO(text))
    found = {
        tuple(row[:names]): dict(zip(header[names:], row[names:], strict=False)) for row in rows
    }
    return header, found


def _entries(cell: str, rules: Sequence[str]) -> list[str]:
    """The entries of a cell that are not about these rules."""
    parts = cell.split(" | ") if cell else []
    return [part for part in parts if not any(part.startswith(f"{rule}: ") for rule in rules)]
