"""Results as tables on the terminal."""

import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn
from rich.table import Table

from anabranch.result import Result

WIDE = 200
"""Width where nobody's terminal sets one: tables are as wide as they need to be."""

STDOUT = Console(width=None if sys.stdout.isatty() else WIDE, highlight=False, markup=False)
STDERR = Console(stderr=True)


def answer(result: Any, as_json: bool, in_words: Callable[[Any], None]) -> None:
    """What a command found: one JSON document and nothing else, or for a person."""
    if as_json:
        print(json.dumps(result.as_dict(), indent=2, allow_nan=False))
    else:
        in_words(result)


@contextmanager
def progress() -> Iterator[Callable[[float], None] | None]:
    """A progress bar on stderr, only where a person looks at it."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=STDERR, transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda fraction: bar.update(task, completed=fraction)


def run(result: Result) -> None:
    """Per algorithm and flow, then per algorithm and link."""
    _headline(result)
    flows = new_table(*result.cases, "flow", "users", "goodput (Mbps)", "loss", "RTT (ms)")
    for row in result.summary().to_dict(orient="records"):
        flows.add_row(
            *(str(row[case]) for case in result.cases),
            row["flow"],
            str(row["users"]),
            _interval(row, "goodput_mbps", 3),
            _interval(row, "loss_probability", 5),
            _interval(row, "rtt_ms", 1),
        )
    links = new_table(
        *result.cases, "link", "throughput (Mbps)", "utilization", "loss", "queue (packets)"
    )
    for row in result.link_summary().to_dict(orient="records"):
        links.add_row(
            *(str(row[case]) for case in result.cases),
            row["link"],
            _interval(row, "throughput_mbps", 3),
            _interval(row, "utilization", 3),
            _interval(row, "loss_probability", 5),
            _interval(row, "queue_packets", 1),
        )
    STDOUT.print(flows, "", links, sep="\n")


def comparison(result: Result) -> None:
    """One column per algorithm: goodput of each flow, total, fairness, use of each link."""
    _headline(result)
    table = new_table("", *result.algorithms)

    def add(label: str, rows: Any, measure: str, digits: int) -> None:
        by_name = {row["algorithm"]: row for row in rows.to_dict(orient="records")}
        table.add_row(label, *(_interval(by_name[a], measure, digits) for a in result.algorithms))

    for flow, rows in result.summary().groupby("flow", sort=False):
        users = rows["users"].iloc[0]
        label = f"{flow}, Mbps" if users == 1 else f"{flow}, Mbps each of {users}"
        add(label, rows, "goodput_mbps", 3)
    table.add_section()
    add("total goodput, Mbps", result.totals(), "total_goodput_mbps", 2)
    add("Jain's index over users", result.totals(), "jain_index", 4)
    for link, rows in result.link_summary().groupby("link", sort=False):
        add(f"utilization of {link}", rows, "utilization", 3)
    STDOUT.print(table)


def rules(entries: list[dict[str, Any]]) -> None:
    """The table of algorithms."""
    table = new_table("algorithm", "parameters", "what it does", "source")
    for rule in entries:
        name = ", ".join([rule["name"], *rule["aliases"]])
        parameters = [
            f"{p['name']} = {p['default']:g} {p['unit']}".rstrip() for p in rule["parameters"]
        ]
        table.add_row(name, "\n".join(parameters), rule["summary"], rule["source"])
    STDOUT.print(table)


def _headline(result: Result) -> None:
    scenario, seeds = result.scenario, len(result.seeds)
    intervals = "mean ± 95 % interval over" if seeds > 1 else "no interval from"
    STDOUT.print(
        f"{scenario.name or 'scenario'}: {scenario.warmup_s:g} to {scenario.duration_s:g} s, "
        f"{intervals} {seeds} seed{'s' if seeds > 1 else ''}\n"
    )


def new_table(*columns: str) -> Table:
    """An empty table of the house: thin lines, no frame."""
    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    for column in columns:
        table.add_column(column)
    return table


def _interval(row: dict[Any, Any], measure: str, digits: int) -> str:
    mean, half = row[measure], row[f"{measure}_ci95"]
    if math.isnan(mean):
        return "-"
    return f"{mean:.{digits}f}" + ("" if math.isnan(half) else f" ± {half:.{digits}f}")
