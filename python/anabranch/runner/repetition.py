"""Repeats the runs of a result directory and compares the tables to the bit."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from anabranch._core import VERSION
from anabranch.files import read_table
from anabranch.result import Result
from anabranch.result.manifest import Manifest
from anabranch.runner import BACKENDS, Progress, run
from anabranch.scenario import ScenarioError


@dataclass(frozen=True)
class Repetition:
    """The same runs once more."""

    result: Result
    verdict: str
    """In one line, whether the tables are those of the directory."""
    differing: list[str]
    """The tables that are not, though the backend repeats its runs to the bit."""


def warnings(stored: Manifest) -> list[str]:
    """Reasons why the tables may differ from those of the directory, a line each."""
    lines = []
    if stored.version != VERSION:
        lines.append(
            f"{stored.directory} was written by anabranch {stored.version}, this is {VERSION}: the "
            "tables may differ"
        )
    tables = [name for name in stored.changed() if name.endswith(".parquet")]
    if tables:
        lines.append(f"{stored.directory}: changed after it was written: {', '.join(tables)}")
    if stored.runs.backend in BACKENDS and BACKENDS[stored.runs.backend].real_time:
        lines.append(
            f"runs on {stored.runs.backend} are in real time and cannot repeat to the bit: they "
            "run again, and nothing is compared"
        )
    return lines


def repeat(
    stored: Manifest,
    jobs: int | None = None,
    progress: Progress | None = None,
    tolerate: tuple[type[Exception], ...] = (),
) -> Repetition:
    """Run again what led to a result directory, and compare; `run` explains the other parameters.

    Raises `ScenarioError` for a directory that cannot be repeated, with the reason.
    """
    _check(stored)
    runs, scenario = stored.runs, stored.scenario()
    asked = [*runs.algorithms, *runs.failures] if scenario.algorithm else None
    result = run(
        scenario,
        asked,
        runs.seeds,
        on=runs.backend,
        jobs=jobs,
        progress=progress,
        tolerate=tolerate if runs.failures else (),
    )
    if BACKENDS[runs.backend].real_time:
        return Repetition(result, f"Not compared with {stored.directory}: in real time", [])
    differing = _differing(stored, result)
    if differing:
        verdict = f"Different from {stored.directory}: {', '.join(differing)}"
    else:
        verdict = f"Identical to {stored.directory}: all {len(result.tables())} tables, to the bit"
    return Repetition(result, verdict, differing)


def _check(stored: Manifest) -> None:
    """Raise `ScenarioError` where the directory does not hold what its runs need."""
    here, runs = stored.directory, stored.runs
    if runs.backend not in BACKENDS:
        raise ScenarioError(f"{here}: unknown backend {runs.backend!r}")
    if runs.rules_in_python:
        names = ", ".join(runs.rules_in_python)
        raise ScenarioError(
            f"{here}: cannot be repeated, because {names} is a rule in Python, which the directory "
            "does not hold; run it again from Python"
        )
    if swept := [key for key in runs.keys if key not in ("algorithm", "seed")]:
        raise ScenarioError(
            f"{here}: cannot be repeated, because it is a sweep over {', '.join(swept)}, and the "
            "directory holds one scenario"
        )
    if missing := stored.missing():
        raise ScenarioError(f"{here}: file not found: {', '.join(missing)}")
    inputs = [name for name in stored.changed() if not name.endswith(".parquet")]
    if inputs:
        raise ScenarioError(
            f"{here}: cannot be repeated, because {', '.join(inputs)} changed after the run; for a "
            f"new run of it: anabranch run {here / 'scenario.toml'}"
        )


def _differing(stored: Manifest, result: Result) -> list[str]:
    """The tables of a result that are not those of the directory."""
    differing = []
    for name, table in result.tables().items():
        try:
            same = _same(table, read_table(stored.directory / f"{name}.parquet"))
        except (OSError, ValueError):  # no longer a Parquet file; pyarrow's errors are ValueErrors
            same = False
        if not same:
            differing.append(name)
    return differing


def _same(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    """Whether two tables are equal to the bit: columns, their types and order, and values."""
    return (
        len(one) == len(other)
        and list(one) == list(other)
        and all(_same_column(one[name], other[name]) for name in one)
    )


def _same_column(one: pd.Series, other: pd.Series) -> bool:
    if one.dtype != other.dtype:
        return False
    if one.dtype.kind != "f":
        return bool(one.equals(other))
    # Bits, because 0.0 == -0.0. Parquet does not keep the bits of NaN.
    bits, others = (np.where(x.isna(), np.nan, x).view(np.int64) for x in (one, other))
    return bool(np.array_equal(bits, others))
