"""The table of quantities, and what they all need: choosing rows and stretches of time."""

from collections.abc import Callable
from typing import Any, TypeVar

import pandas as pd

from anabranch.result import Result
from anabranch.scenario import ScenarioError

Quantity = TypeVar("Quantity", bound=Callable[..., float])

QUANTITIES: dict[str, Callable[..., float]] = {}
"""What `quantity = "..."` in an `experiments.toml` may name."""


def quantity(function: Quantity) -> Quantity:
    """Enter a function into the table under its own name.

    It takes the Result of one run (or of several alike, and then averages over them) and
    parameters by name. It raises LookupError for what the Result does not have.
    """
    QUANTITIES[function.__name__] = function
    return function


def measure(name: str, result: Result, **parameters: Any) -> float:
    """The named quantity of a run.

    Raises `ScenarioError` for a quantity, parameter, flow, path or link that does not exist.
    """
    if name not in QUANTITIES:
        raise ScenarioError(f"unknown quantity {name!r}: expected one of {', '.join(QUANTITIES)}")
    try:
        return QUANTITIES[name](result, **parameters)
    except (LookupError, TypeError) as error:
        raise ScenarioError(f"quantity {name}: {error.args[0]}") from error


def rows(table: pd.DataFrame, **choice: object) -> pd.DataFrame:
    """The rows with these values; a value of None does not choose."""
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
    """The transfers of a flow that begin after the first part `skip` of the run."""
    transfers = rows(result.transfers, flow=flow)
    if skip == 0:
        return transfers
    return transfers[transfers["start_s"] > skip * result.flow_samples["time_s"].max()]


def runs(table: pd.DataFrame) -> int:
    """How many runs a table has rows of."""
    keys = run_keys(table)
    return len(table[keys].drop_duplicates()) if keys else 1


def run_keys(table: pd.DataFrame) -> list[str]:
    """The leading columns that tell runs apart."""
    return [key for key in ("case", "algorithm", "seed") if key in table.columns]
