"""Results side by side as a table: a column per algorithm and backend."""

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anabranch.cli import tables
from anabranch.cli.notes import note
from anabranch.cli.tables import (
    MARK,
    MOST_ROWS,
    STDOUT,
    late_algorithms,
    marked,
    mean_with_half,
    over_seeds,
)

if TYPE_CHECKING:
    from pandas import DataFrame

    from anabranch.result import Result


def comparison(results: "Sequence[Result]", gains: "Sequence[DataFrame]" = ()) -> None:
    """Per column goodput, RTT and loss of each flow, totals, and each link; then words.

    `gains`, of each result, are over the best single path.
    """
    several = len(results) > 1
    if several:
        scenario = results[0].scenario
        time = f"{scenario.warmup_s:g} to {scenario.duration_s:g} s"
        about = "; ".join(f"{r.backend}: {over_seeds(r)}" for r in results)
        STDOUT.print(f"{scenario.name or 'scenario'}: {time}\n{about}\n", soft_wrap=True)
    else:
        tables.headline(results[0])
    failed = [] if several else list(results[0].failures)
    table = tables.new_table("", *_heads(results), *failed)

    def add(label: str, rows: "Sequence[DataFrame]", measure: str, digits: int) -> None:
        cells = []
        for result, frame in zip(results, rows, strict=True):
            by_name = {row["algorithm"]: row for row in frame.to_dict(orient="records")}
            cells += [
                mean_with_half(by_name[name], measure, digits) if name in by_name else "-"
                for name in result.algorithms
            ]
        table.add_row(label, *cells, *("failed" for _ in failed))

    def per(name: str, rows: "Sequence[DataFrame]") -> "list[tuple[str, list[DataFrame]]]":
        names = list(dict.fromkeys(value for frame in rows for value in frame[name]))
        table.leave_out(name, len(names) - MOST_ROWS)
        return [
            (value, [frame[frame[name] == value] for frame in rows]) for value in names[:MOST_ROWS]
        ]

    flows = per("flow", [result.marked(result.summary()) for result in results])
    for flow, rows in flows:
        add(_goodput_label(flow, rows), rows, "goodput_mbps", 3)
    for flow, rows in (
        per("flow", [r.marked(g) for r, g in zip(results, gains, strict=True)]) if gains else []
    ):
        path = rows[0]["best_path"].iloc[0]
        add(f"{flow}, over {path} alone", rows, "gain", 2)
    table.add_section()
    for flow, rows in flows:
        add(f"RTT of {flow}, ms", rows, "rtt_ms", 1)
    table.add_section()
    for flow, rows in flows:
        add(f"loss of {flow}, %", [_percent(frame) for frame in rows], "loss_probability", 2)
    table.add_section()
    totals = [result.marked(result.totals()) for result in results]
    add("total goodput, Mbps", totals, "total_goodput_mbps", 2)
    add("Jain's index over users", totals, "jain_index", 4)
    table.add_section()
    links = per("link", [result.marked(result.link_summary()) for result in results])
    for measure, label, digits in LINKS:
        for link, rows in links:
            add(label.format(link), rows, measure, digits)
    table.add_section()
    for flow, rows in per("flow", [result.marked(result.transfer_summary()) for result in results]):
        add(f"{flow}, mean time of a file, s", rows, "mean_s", 3)
        add("median", rows, "median_s", 3)
        add("95th percentile", rows, "p95_s", 3)
    STDOUT.print(table)
    for result in results:
        tables.notes(result)
    _words(results)


LINKS = (
    ("utilization", "utilization of {}", 3),
    ("queue_packets", "queue of {}, packets", 1),
)
"""Columns of a link, each with its label and the digits."""


def measured(beside: "DataFrame") -> None:
    """Measurements beside what was computed: inside or outside the interval of 95 % of runs."""
    from anabranch.runner import known_backend

    names = ["backend"] if beside["algorithm"].nunique() == 1 else ["backend", "algorithm"]
    heads = ["measured", "computed", "95 % of runs", "measured is"]
    table = tables.new_table("", *(name.replace("backend", "on") for name in names), *heads)
    for row in beside.to_dict(orient="records"):
        interval = f"{row['low']:.4g} to {row['high']:.4g}" if row["low"] == row["low"] else "-"
        random = known_backend(row["backend"]).random
        mark = MARK if random and row["low"] != row["low"] else ""
        numbers = [_mean_of(row), f"{row['computed']:.4g}{mark}"]
        label = f"{row['flow']}, {row['quantity']}"
        table.add_row(label, *(row[name] for name in names), *numbers, interval, row["verdict"])
    STDOUT.print("", table, sep="\n")
    if (beside["measurements"] == 1).any():
        note("One measurement has no interval: measure again, and give --measured several times.")


def _mean_of(row: "Mapping[Hashable, Any]") -> str:
    if row["measurements"] == 1:
        return f"{row['measured']:.4g}"
    return f"{row['measured']:.4g} ± {row['measured_ci95']:.2g} ({row['measurements']})"


def _heads(results: "Sequence[Result]") -> list[str]:
    heads = []
    for result in results:
        late = late_algorithms(result)
        on = f" on {result.backend}" if len(results) > 1 else ""
        heads += [f"{marked(name, late)}{on}" for name in result.algorithms]
    return heads


def _goodput_label(flow: str, rows: "Sequence[DataFrame]") -> str:
    first = rows[0]
    users = first["users"].iloc[0]
    own = (first["rule"] != first["algorithm"]).any()
    name = f"{flow} ({first['rule'].iloc[0]})" if own else flow
    return f"{name}, Mbps" if users == 1 else f"{users}× {name}, Mbps each"


def _percent(rows: "DataFrame") -> "DataFrame":
    loss = ["loss_probability", "loss_probability_ci95"]
    return rows.assign(**{column: 100 * rows[column] for column in loss})


def _words(results: "Sequence[Result]") -> None:
    from anabranch.comparison.verdict import in_words

    for result in results:
        if words := in_words(result):
            on = f"{result.backend}: " if len(results) > 1 else ""
            STDOUT.print(f"\n{on}{words}")
