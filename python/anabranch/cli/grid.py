"""Tables that fit the terminal: prose wraps, numbers do not, wide tables continue below."""

import re
from collections.abc import Iterator, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

PROSE = 30
"""A column with a wider cell is prose, which may wrap; the others are kept on one line."""

NARROWEST = 20
"""The width left to a column of prose, in characters."""

_WORD = re.compile(r"[^\s.]+\.?|\.")
"""Places where a header may be folded: after a word, or a part of a dotted key."""


class Grid(Table):
    """A table that is never wider than the terminal.

    Headers wrap, also after the dots of a key; then the space between columns shrinks; then the
    columns that do not fit continue in a second table below, which repeats the first `keys`
    columns.
    """

    keys: int = 1

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        parts = list(self._parts(options.max_width))
        for number, columns in enumerate(parts):
            if number:
                yield ""
            yield from self._part(columns, options.max_width).__super_console__(console, options)

    def __super_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from super().__rich_console__(console, options)

    def _parts(self, width: int) -> Iterator[Sequence[int]]:
        """The columns of each table: all of them if they fit."""
        keys = range(min(self.keys, len(self.columns) - 1))
        part = list(keys)
        for column in range(len(keys), len(self.columns)):
            if len(part) > len(keys) and self._least([*part, column]) > width:
                yield part
                part = list(keys)
            part.append(column)
        yield part

    def _part(self, columns: Sequence[int], width: int) -> "Grid":
        """A table of some columns, made narrow as far as needed."""
        part = Grid(box=self.box, show_edge=self.show_edge, pad_edge=self.pad_edge)
        part.show_header = self.show_header
        wide = self._widest(columns) > width
        fits = self._least(columns) <= width  # else every column folds: better than cut
        if wide:
            part.padding = (0, 1, 0, 0)
        for index in columns:
            column = self.columns[index]
            prose = self._is_prose(index)
            head = column.header
            if wide and not prose:
                head = _folded(str(head), self._narrow(index))
            part.add_column(head, justify=column.justify, overflow="fold")
            part.columns[-1].no_wrap = fits and not prose
        cells = [list(self.columns[index].cells) for index in columns]
        for number, row in enumerate(self.rows):
            part.add_row(*(column[number] for column in cells), end_section=row.end_section)
        return part

    def _is_prose(self, index: int) -> bool:
        return self._body(index) > PROSE

    def _narrow(self, index: int) -> int:
        """The least width of a column."""
        if self._is_prose(index):
            return NARROWEST
        words = _WORD.findall(str(self.columns[index].header))
        return max(self._body(index), *map(cell_len, words), 1)

    def _body(self, index: int) -> int:
        return max((_width(cell) for cell in self.columns[index].cells), default=0)

    def _least(self, columns: Sequence[int]) -> int:
        return sum(map(self._narrow, columns)) + 2 * (len(columns) - 1)

    def _widest(self, columns: Sequence[int]) -> int:
        heads = (_width(self.columns[index].header) for index in columns)
        wide = map(max, zip(heads, map(self._body, columns), strict=True))
        return sum(wide) + 3 * (len(columns) - 1)


def new_table(*left: str, right: Sequence[str] = (), keys: int = 1) -> Grid:
    """An empty table: columns to the left, then columns to the right, as numbers should be."""
    table = Grid(box=box.SIMPLE, show_edge=False, pad_edge=False)
    table.keys = keys
    for name in left:
        table.add_column(name)
    for name in right:
        table.add_column(name, justify="right")
    return table


def _folded(head: str, width: int) -> str:
    """A header in lines of at most this width, where its words allow it."""
    lines = [""]
    for word in _WORD.findall(head):
        if cell_len(lines[-1] + word) > width:
            lines.append("")
        lines[-1] += word + " " * (not word.endswith("."))
    return "\n".join(line.rstrip() for line in lines if line)


def _width(cell: object) -> int:
    """The width of the longest line of a cell."""
    text = cell.plain if isinstance(cell, Text) else str(cell)
    return max(map(cell_len, text.split("\n")), default=0)
