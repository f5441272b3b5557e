"""The tables of a sweep, joined from its entries."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from anabranch.files import read_table
from anabranch.result import TABLES, Result, jain_index
from anabranch.scenario import Scenario, ScenarioError, named, toml_value
from anabranch.sweeps.point import Point
from anabranch.sweeps.store import Directory, Store, decode


def join(scenario: Scenario, points: Sequence[Point], store: Store) -> Result:
    """The Result of the points, in their order, without those that failed.

    Raises `ScenarioError` with the first reason where all of them failed.
    """
    done, parts, failures = [], [], {}
    for point in points:
        entry = decode(store.read(point.key) or b"", point.key)
        if entry.failure is not None:
            failures[point.label] = entry.failure
            continue
        done.append(point)
        parts.append(entry.tables)
    if not done:
        label, reason = next(iter(failures.items()))
        raise ScenarioError(f"every point failed; {label}: {reason}")
    keys = _keys(done)
    tables = {name: _joined([part[name] for part in parts], keys) for name in parts[0]}
    return Result(
        scenario=scenario, backend=points[0].on, keys=tuple(keys), failures=failures, **tables
    )


def write(result: Result, directory: Path) -> None:
    """A Parquet file per table that has rows, and `totals.parquet`: a row per run."""
    written = result.tables() | result.more_tables() | {"totals": totals(result)}
    if result.failures:
        rows = list(result.failures.items())
        written["failures"] = pd.DataFrame(rows, columns=["point", "reason"])
    for name, table in written.items():
        if not (name.endswith("_samples") and table.empty):
            table.to_parquet(directory / f"{name}.parquet", index=False)


def load(path: str | os.PathLike[str]) -> Result:
    """The Result of a sweep's store, as far as the sweep was finished.

    Raises `ScenarioError` for a directory that is no store, or whose sweep has no tables yet.
    """
    store = Directory.existing(path)
    try:
        definition = store.definition() or {}
    finally:
        store.close()
    tables = {}
    for name in TABLES:
        file = Path(path) / f"{name}.parquet"
        if not file.is_file() and not name.endswith("_samples"):
            raise ScenarioError(f"{path}: the sweep is not finished: run it again to resume")
        tables[name] = read_table(file) if file.is_file() else pd.DataFrame()
    keys = (*definition["over"], "algorithm", "seed")
    scenario = named(Scenario.parse(definition["scenario"], str(path)))
    return Result(scenario=scenario, backend=definition["backend"], keys=keys, **tables)


def totals(result: Result) -> pd.DataFrame:
    """Per run: `total_goodput_mbps` and `jain_index` over all users."""
    goodput = result.flows.groupby(list(result.keys), sort=False)["goodput_mbps"]
    return goodput.agg(total_goodput_mbps="sum", jain_index=jain_index).reset_index()


def _keys(points: Sequence[Point]) -> dict[str, np.ndarray[Any, Any]]:
    """The leading columns, an entry per point: numbers if all values are, else text."""
    columns = {key: _column([point.values[key] for point in points]) for key in points[0].values}
    columns["algorithm"] = np.array([point.algorithm for point in points], dtype=object)
    columns["seed"] = np.array([point.seed for point in points], dtype=np.int64)
    return columns


def _column(values: list[Any]) -> np.ndarray[Any, Any]:
    column = np.array(values) if all(map(_plain, values)) else None
    if column is not None and column.dtype.kind in "bif":
        return column
    texts = [value if isinstance(value, str) else toml_value(value) for value in values]
    return np.array([str(text) for text in texts], dtype=object)


def _plain(value: Any) -> bool:
    return isinstance(value, bool | int | float | np.generic)


def _joined(parts: Sequence[pa.Table], keys: Mapping[str, np.ndarray[Any, Any]]) -> pd.DataFrame:
    table = pa.concat_tables(parts, promote_options="permissive")
    rows = [part.num_rows for part in parts]
    leading = {key: _repeated(column, rows) for key, column in keys.items()}
    columns = {name: table.column(name) for name in table.column_names}
    # Threads cost more than they bring to tables of a run.
    return pa.table(leading | columns).to_pandas(use_threads=False)


def _repeated(column: np.ndarray[Any, Any], rows: list[int]) -> pa.Array:
    text = column.dtype.kind == "O"  # also where there is no row
    return pa.array(np.repeat(column, rows), pa.string() if text else None)
