"""Sweeps as tables on the terminal."""

from typing import TYPE_CHECKING

from anabranch.cli.tables import MARK_MEANS, STDOUT, mean_with_half, new_table
from anabranch.files import size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pandas import DataFrame

    from anabranch.result import Result
    from anabranch.sweeps.threshold import Thresholds
    from anabranch.sweeps.upkeep import Status

MOST_ROWS = 50
"""Cases on the terminal; tables on disk have all."""


def sweep(result: "Result") -> None:
    """Per case: goodput of each flow, total and fairness."""
    totals = result.marked(result.totals()).to_dict(orient="records")
    flows = result.marked(result.summary())
    names = list(flows["flow"].unique())
    by_case = dict(iter(flows.groupby(result.cases, sort=False)))
    columns = [f"{name}{_own_rule(flows, name)} (Mbps)" for name in names]
    heads = [*columns, "total (Mbps)", "Jain's index"]
    table = new_table(*result.cases, *heads, keys=len(result.cases))
    for row in totals[:MOST_ROWS]:
        case = [row[key] for key in result.cases]
        of_flow = by_case[tuple(case)].set_index("flow").to_dict(orient="index")
        table.add_row(
            *(f"{value:g}" if isinstance(value, float) else str(value) for value in case),
            *(mean_with_half(of_flow[name], "goodput_mbps", 3) for name in names),
            mean_with_half(row, "total_goodput_mbps", 2),
            mean_with_half(row, "jain_index", 4),
        )
    STDOUT.print(table)
    if any(row["one_trajectory"] for row in totals):
        STDOUT.print(f"\n{MARK_MEANS.strip()[1:-1]}, without an interval")
    if len(totals) > MOST_ROWS:
        STDOUT.print(f"\n{len(totals) - MOST_ROWS} more: --json and --out have all of them.")
    _failures(result.failures)


def _own_rule(flows: "DataFrame", name: str) -> str:
    """The rule of a flow that names its own, the same in every case; else nothing."""
    rows = flows[flows["flow"] == name]
    same = rows["rule"].nunique() == 1 and (rows["rule"] != rows["algorithm"]).any()
    return f", {rows['rule'].iloc[0]}" if same else ""


def thresholds(found: "Thresholds") -> None:
    """Per case, where the condition holds and where it does not."""
    cases = list(found.table.columns)[:-6]
    heads = ["holds at", "fails at", "width", "metric", "metric where it fails", "seeds"]
    table = new_table(*cases, *heads, keys=len(cases))
    for row in found.table.to_dict(orient="records"):
        numbers = ("holds_at", "fails_at", "width", "metric_holds", "metric_fails")
        table.add_row(
            *(str(row[case]) for case in cases),
            *(f"{row[n]:.6g}" for n in numbers),
            "decide" if row["decided"] else "do not decide",
        )
    STDOUT.print(f"{found.key}, {found.until}; the metric is assumed to be monotone\n")
    STDOUT.print(table)
    _failures(found.failures)


def status(found: "Status") -> None:
    """The counts, then what to do."""
    rows = {
        "points": found.points,
        "done": found.done,
        "failed": found.failed,
        "damaged": found.damaged,
        "missing": found.missing,
        "other entries": found.others,
        "leftovers": found.leftovers,
    }
    table = new_table("", "")
    table.show_header = False
    for name, count in rows.items():
        table.add_row(name, str(count))
    table.add_row("size", size(found.bytes))
    STDOUT.print(table)
    for reason, count in found.reasons.items():
        STDOUT.print(f"failed, {count}: {reason}", soft_wrap=True)
    if not found.this_version:
        STDOUT.print("Defined by another version or build of Anabranch: the sweep would run anew.")
    if found.others or found.leftovers:
        STDOUT.print("`anabranch sweep gc` removes other entries and leftovers.")


def _failures(failures: "Mapping[str, str]") -> None:
    for point, reason in list(failures.items())[:MOST_ROWS]:
        STDOUT.print(f"\nfailed: {point}: {reason}", soft_wrap=True)
