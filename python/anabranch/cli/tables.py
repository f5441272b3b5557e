"""Results as tables on the terminal, fitted to its width."""

import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from anabranch.cli.notes import note
from anabranch.cli.progress import progress
from anabranch.formats import first, interval, json_text

if TYPE_CHECKING:
    from pandas import DataFrame

    from anabranch.core_types import Parameter, RuleInfo
    from anabranch.result import Result
    from anabranch.statements.statement import Statement

# Tables that fit the terminal: prose wraps, numbers do not, wide tables continue below.


PROSE = 30
"""A column with a wider cell is prose, which may wrap; the others are kept on one line."""

NARROWEST = 20
"""The width left to a column of prose, in characters."""

_WORD = re.compile(r"[^\s.]+\.?|\.")
"""Places where a header may be folded: after a word, or a part of a dotted key."""


MOST_ROWS = 100
"""Flows, links or cases of a table; a line below it counts the others."""


class Grid(Table):
    """A table that is never wider than the terminal.

    Headers wrap, also after the dots of a key; then the space between columns shrinks; then the
    columns that do not fit continue in a second table below, which repeats the first `keys`
    columns.
    """

    keys: int = 1
    complete: str = "--json and --out have"
    """Places where all rows are."""

    def __init__(self, *headers: str, **look: Any) -> None:
        super().__init__(*headers, **look)
        self.left_out: dict[str, int] = {}
        """Flows, links or cases that are not shown."""

    def first(self, rows: "DataFrame", kind: str) -> "DataFrame":
        """The rows of the first flows or links; a line below will count the others."""
        each = -(-len(rows) // max(1, rows[kind].nunique()))
        some, there = first(rows, kind, most := max(1, MOST_ROWS // max(1, each)))
        self.leave_out(kind, there - most)
        return some

    def leave_out(self, kind: str, count: int) -> None:
        """Have a line below say how many flows, links or cases are not shown."""
        if count > 0:
            self.left_out.setdefault(kind, count)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        parts = list(self._parts(options.max_width))
        for number, columns in enumerate(parts):
            if number:
                yield ""
            yield from self._part(columns, options.max_width).__super_console__(console, options)
        for kind, count in self.left_out.items():
            yield Text(f"\n{count} more {kind}s: {self.complete} all of them.")

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


def new_table(
    *left: str, right: Sequence[str] = (), keys: int = 1, rows: Iterable[Sequence[Any]] = ()
) -> Grid:
    """A table of these rows: columns to the left, then columns to the right, as of numbers."""
    table = Grid(box=box.SIMPLE, show_edge=False, pad_edge=False)
    table.keys = keys
    for name in left:
        table.add_column(name)
    for name in right:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*row)
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


__all__ = ["new_table", "progress"]  # used as tables.new_table and tables.progress

WIDE = 200
"""Width of the output where it is not a terminal and COLUMNS is not set, in characters."""


class Stdout(Console):
    """Stdout, which is ignored once its reader has left: results are still to be written."""

    reader_left = False

    def on_broken_pipe(self) -> None:
        """Print nothing any more."""
        self.reader_left = self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


MEASURED = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
STDOUT = Stdout(width=None if MEASURED else WIDE, highlight=False, markup=False)


def answer(result: Any, as_json: bool, in_words: Callable[[Any], None]) -> None:
    """Print what a command found: one JSON document and nothing else, or tables."""
    if as_json:
        print_json(result.as_dict())
    else:
        in_words(result)


def print_json(document: Any) -> None:
    """Print plain data as one JSON document. Raises ValueError for NaN and infinity."""
    try:
        print(json_text(document), flush=True)
    except BrokenPipeError:
        STDOUT.on_broken_pipe()


def run(result: "Result") -> None:
    """Per algorithm and flow, with the rule that the flow ran; then per algorithm and link."""
    headline(result)
    late = late_algorithms(result)
    keys = len(result.cases) + 1
    summary = result.marked(result.summary())
    names = _what_ran(result, summary)
    heads = ["users", "goodput (Mbps)", "loss", "RTT (ms)"]
    flows = new_table(*names, "flow", *heads, keys=len(names) + 1)
    for row in flows.first(summary, "flow").to_dict(orient="records"):
        *cells, last = (str(row[name]) for name in names)
        flows.add_row(
            *cells,
            f"{last} (late)" if row["algorithm"] in late else last,
            row["flow"],
            str(row["users"]),
            mean_with_half(row, "goodput_mbps", 3),
            mean_with_half(row, "loss_probability", 5),
            mean_with_half(row, "rtt_ms", 1),
        )
    heads = ["throughput (Mbps)", "utilization", "loss", "queue (packets)"]
    links = new_table(*result.cases, "link", *heads, keys=keys)
    summary = links.first(result.marked(result.link_summary()), "link")
    for row in summary.to_dict(orient="records"):
        links.add_row(
            *(marked(str(row[case]), late) for case in result.cases),
            row["link"],
            mean_with_half(row, "throughput_mbps", 3),
            mean_with_half(row, "utilization", 3),
            mean_with_half(row, "loss_probability", 5),
            mean_with_half(row, "queue_packets", 1),
        )
    STDOUT.print(flows, "", links, sep="\n")
    _more(result, result.transfer_summary(), TRANSFERS)
    _more(result, result.media_summary(), MEDIA)
    notes(result)


def _what_ran(result: "Result", summary: "DataFrame") -> list[str]:
    """The columns that name what a flow ran: `rule` where a flow names its own."""
    if (summary["rule"] == summary["algorithm"]).all():
        return result.cases
    # A single algorithm tells no rows apart.
    kept = [case for case in result.cases if case != "algorithm" or len(result.algorithms) > 1]
    return [*kept, "rule"]


TRANSFERS = {
    "transfers": ("files", 1),
    "mean_s": ("mean time (s)", 3),
    "median_s": ("median (s)", 3),
    "p95_s": ("95th percentile (s)", 3),
}
MEDIA = {
    "rate_mbps": ("rate (Mbps)", 3),
    "delay_p99_ms": ("99% delay (ms)", 1),
    "loss_probability": ("loss", 5),
    "freezes": ("freezes", 1),
    "frames": ("of frames", 1),
}
"""Columns of these summaries, with the head and the digits of each."""


def _more(result: "Result", summary: "DataFrame", columns: dict[str, tuple[str, int]]) -> None:
    """Print a line per algorithm and flow; nothing where there is none."""
    if summary.empty:
        return
    heads = [head for head, _ in columns.values()]
    table = new_table(*result.cases, "flow", *heads, keys=len(result.cases) + 1)
    for row in table.first(result.marked(summary), "flow").to_dict(orient="records"):
        numbers = [mean_with_half(row, name, digits) for name, (_, digits) in columns.items()]
        table.add_row(*(str(row[case]) for case in result.cases), row["flow"], *numbers)
    STDOUT.print("", table, sep="\n")


def rules(entries: "list[RuleInfo]") -> None:
    """The table of algorithms."""
    table = new_table("algorithm", "parameters", "what it does", "source")
    for rule in entries:
        name = ", ".join([rule["name"], *rule["aliases"]])
        parameters = "\n".join(map(_parameter, rule["parameters"]))
        table.add_row(name, parameters, rule["summary"], rule["source"])
    STDOUT.print(table)


def couplings(entries: "Sequence[tuple[str, str]]") -> None:
    """The layer above every algorithm."""
    table = new_table("coupling", "of every algorithm, such as lia:coupling=shared")
    for name, meaning in entries:
        table.add_row(name, meaning)
    STDOUT.print(table)


def _parameter(parameter: "Parameter") -> str:
    """Name, default, unit, and the choices or the range."""
    default = f"{parameter['name']} = {parameter['default']:g} {parameter['unit']}".rstrip()
    if parameter["choices"]:
        allowed = " or ".join(f"{choice:g}" for choice in parameter["choices"])
    else:
        allowed = f"{parameter['min']:g} to {parameter['max']:g}"
    return f"{default} ({allowed})"


def rule_as_dict(rule: "RuleInfo") -> dict[str, Any]:
    """A rule of the table as plain data for JSON; infinity is the text "inf"."""
    parameters = [
        {key: _without_infinity(value) for key, value in parameter.items()}
        for parameter in rule["parameters"]
    ]
    return {**rule, "parameters": parameters}


def _without_infinity(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_infinity(each) for each in value]
    return "inf" if value == math.inf else value


def statements(found: "Sequence[Statement]") -> None:
    """Each statement of a paper: its place, its class, the printed words and the evidence."""
    for one in found:
        word = Text(one.named_class, _CLASS_STYLES.get(one.verdict, ""))
        STDOUT.print(Text.assemble((one.place, "bold"), ": ", word))
        printed = f"  Printed: {one.quotation}\n" if one.printed else ""
        # Code stays on one line, to be copied.
        STDOUT.print(f"  {one.says}\n{printed}  Found: {one.found}.\n", soft_wrap=True)


_CLASS_STYLES = {
    "holds": "green",
    "wrong as printed": "red",
    "fails": "bold red",
    "needs a condition": "yellow",
}


MARK = "*"
"""The mark of a number of one trajectory."""

MARK_MEANS = f" ({MARK} one trajectory)"

CHANCE = (
    "Nothing in the scenario is random, so there are no intervals. Seeds differ with a "
    "start_spread_s of a flow that is not 0, queue.red or loss."
)


def headline(result: "Result") -> None:
    """Scenario, backend, time and what an interval is."""
    scenario = result.scenario
    STDOUT.print(
        f"{scenario.name or 'scenario'}, on {result.backend}: {scenario.warmup_s:g} to "
        f"{scenario.duration_s:g} s, {(seeds := over_seeds(result))}\n"
    )
    if seeds.startswith("deterministic"):
        note(CHANCE)


def over_seeds(result: "Result") -> str:
    """Meaning of the intervals of a result."""
    from anabranch.runner import known_backend

    seeds = len(result.seeds)
    if not known_backend(result.backend).random:
        return "computed, without seeds"
    if seeds == 1:
        return f"no interval from 1 seed{MARK_MEANS}"
    if result.is_deterministic():
        return f"deterministic: the same with {seeds} seeds{MARK_MEANS}"
    some = MARK_MEANS if result.one_trajectory()["one_trajectory"].any() else ""
    return f"mean ± 95 % interval over {seeds} seeds{some}"


def late_algorithms(result: "Result") -> set[str]:
    """The algorithms with a run that was too late."""
    return set(result.late_runs()["algorithm"])


def marked(name: str, late: set[str]) -> str:
    """An algorithm's name, with a mark where a run was too late."""
    return f"{name} (late)" if name in late else name


def notes(result: "Result") -> None:
    """Why results are marked as late or failed."""
    for run in result.late_runs().to_dict(orient="records"):
        STDOUT.print(
            f"\nlate: {run['algorithm']}, seed {run['seed']}: packets were delivered up to "
            f"{run['p99_us'] / 1000:.1f} ms late (99th percentile; docs/reference/lab.md), more "
            "than the 1 ms up to which results count.",
            soft_wrap=True,
        )
    for name, reason in result.failures.items():
        STDOUT.print(f"\nfailed: {name}: {reason}", soft_wrap=True)


def mean_with_half(row: dict[Any, Any], measure: str, digits: int) -> str:
    """The mean of a row over seeds, and half its interval; marked if it is of one trajectory.

    The row is of `Result.marked`.
    """
    if row["one_trajectory"]:
        number = interval(row[measure], None, f".{digits}f")
        return f"{number}{MARK}" if number != "-" else number
    # Numbers that are the same in every random run, such as no loss at all, are printed alone.
    return interval(row[measure], row[f"{measure}_ci95"] or None, f".{digits}f")
