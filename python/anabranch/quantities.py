"""The named quantities of a paper's tables: each a number that one run gives.

A paper's `experiments.toml` names them; nothing there computes. Every function takes the Result of
one run (or of several alike, and then averages over them).
"""

from collections.abc import Callable
from typing import Any

import pandas as pd

from anabranch.result import Result
from anabranch.scenario import ScenarioError


def user_goodput_mbps(result: Result, flow: str) -> float:
    """Goodput of one user of a flow, the mean over its users, Mbps."""
    return float(_rows(result.flows, "flow", flow)["goodput_mbps"].mean())


def aggregate_goodput_mbps(result: Result) -> float:
    """Goodput of all users of all flows together, Mbps."""
    return float(result.flows["goodput_mbps"].sum() / _runs(result.flows))


def path_rtt_ms(result: Result, flow: str, path: int) -> float:
    """Round-trip time over one path of a flow, queueing included, the mean over its users, ms."""
    rows = _rows(result.paths, "flow", flow)
    return float(_rows(rows, "path", path)["rtt_ms"].mean())


def link_loss_probability(result: Result, link: str) -> float:
    """Packets that a link dropped, of every cause, over packets that arrived at it."""
    return float(_rows(result.links, "link", link)["loss_probability"].mean())


def link_utilization(result: Result, link: str) -> float:
    """Share of a link's rate that was used."""
    return float(_rows(result.links, "link", link)["utilization"].mean())


def drop_percent(before: float, after: float) -> float:
    """How much was lost between two values of a quantity, in percent of the first."""
    return 100.0 * (before - after) / before


QUANTITIES: dict[str, Callable[..., float]] = {
    quantity.__name__: quantity
    for quantity in (
        user_goodput_mbps,
        aggregate_goodput_mbps,
        path_rtt_ms,
        link_loss_probability,
        link_utilization,
    )
}
"""What `quantity = "..."` in an `experiments.toml` may name."""


def measure(quantity: str, result: Result, **parameters: Any) -> float:
    """The named quantity of a run.

    Raises `ScenarioError` for a quantity, parameter, flow, path or link that does not exist.
    """
    if quantity not in QUANTITIES:
        raise ScenarioError(
            f"unknown quantity {quantity!r}: expected one of {', '.join(QUANTITIES)}"
        )
    try:
        return QUANTITIES[quantity](result, **parameters)
    except (LookupError, TypeError) as error:
        raise ScenarioError(f"quantity {quantity}: {error.args[0]}") from error


def _rows(table: pd.DataFrame, column: str, value: object) -> pd.DataFrame:
    rows = table[table[column] == value]
    if rows.empty:
        known = ", ".join(str(name) for name in table[column].unique())
        raise LookupError(f"no {column} {value!r}: expected one of {known}")
    return rows


def _runs(table: pd.DataFrame) -> int:
    keys = [key for key in table.columns if key in ("algorithm", "seed")]
    return len(table[keys].drop_duplicates()) if keys else 1
