"""The table of quantities, and the selections of rows that they share."""

from collections.abc import Callable
from typing import Any, TypeVar

import pandas as pd

from anabranch.result import Result
from anabranch.scenario import ScenarioError

Quantity = TypeVar("Quantity", bound=Callable[..., float])

QUANTITIES: dict[str, Callable[..., float]] = {}
"""The quantities by the name that `quantity = "..."` in an `experiments.toml` gives."""


def quantity(function: Quantity) -> Quantity:
    """Enter a function into the table under its own name.

    The function takes the Result of one run, or of several runs of the same kind to average over,
    and parameters by name. It raises LookupError for a flow, path or link missing in the Result.
    """
    QUANTITIES[function.__name__] = function
    return function


def measure(name: str, result: Result, **parameters: Any) -> float:
    """The value of the named quantity for a run.

    Raises `ScenarioError` for a quantity, parameter, flow, path or link that does not exist, and
    for a parameter's value outside its range.
    """
    if name not in QUANTITIES:
        raise ScenarioError(f"unknown quantity {name!r}: expected one of {', '.join(QUANTITIES)}")
    try:
        return QUANTITIES[name](result, **parameters)
    except (LookupError, TypeError, ValueError) as error:
        raise ScenarioError(f"quantity {name}: {error.args[0]}") from error


def rows(table: pd.DataFrame, **choice: object) -> pd.DataFrame:
    """The rows with these values; None selects all. Raises LookupError when there are none."""
    for column, value in choice.items():
        if value is None:
            continue
        chosen = table[table[column] == value]
        if chosen.empty:
            known = ", ".join(str(name) for name in table[column].unique()) or "none"
            raise LookupError(f"no {column} {value!r}: expected one of {known}")
        table = chosen
    return table


def late(result: Result, skip: float, flow: str | None) -> pd.DataFrame:
    """The transfers of a flow that begin after the initial fraction `skip` of the run."""
    transfers = rows(result.transfers, flow=flow)
    if skip == 0:
        return transfers
    return transfers[transfers["start_s"] > skip * result.flow_samples["time_s"].max()]


def runs(table: pd.DataFrame) -> int:
    """The number of runs in a table."""
    keys = run_keys(table)
    return len(table[keys].drop_duplicates()) if keys else 1


def run_keys(table: pd.DataFrame) -> list[str]:
    """The columns that identify a run."""
    return [key for key in ("case", "algorithm", "seed") if key in table.columns]
