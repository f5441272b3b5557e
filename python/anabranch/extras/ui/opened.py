"""Arguments of `anabranch ui`: nothing, a scenario, a directory of results, or qlog files."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from anabranch.extras.ui.live import Message, described, ended
from anabranch.extras.ui.series import Thinner
from anabranch.files import MANIFEST
from anabranch.result import Result
from anabranch.scenario import ScenarioError, expected_one_of, load

QLOG = (".qlog", ".sqlog")


@dataclass(frozen=True)
class Opened:
    """The message that the page shows first."""

    kind: str
    """gallery, scenario, results or qlog."""
    folder: Path
    """Where traces of scenarios are."""
    name: str = ""
    toml: str | None = None
    result: Result | None = None
    logs: tuple[Path, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain data for the page; results and qlog files have addresses of their own."""
        found: dict[str, Any] = {"kind": self.kind, "name": self.name}
        if self.toml is not None:
            found["toml"] = self.toml
        if self.result is not None:
            found |= {"algorithms": self.result.algorithms, "seeds": self.result.seeds}
            found |= {"on": self.result.backend}
        if self.logs:
            found["logs"] = [str(log.relative_to(self.folder)) for log in self.logs]
        return found


def open_path(path: Path | None) -> Opened:
    """Look at what a path is and read it, but qlog files. Raises `ScenarioError` or OSError."""
    if path is None:
        return Opened("gallery", Path())
    if path.is_dir():
        return _directory(path)
    if path.suffix in QLOG:
        if not path.is_file():
            raise ScenarioError(f"{path}: file not found")
        return Opened("qlog", path.parent, path.name, logs=(path,))
    load(path, algorithm="lia")  # first, because its errors name what was expected
    text = path.read_text(encoding="utf-8")
    return Opened("scenario", path.parent, path.name, toml=text)


def _directory(path: Path) -> Opened:
    if (path / MANIFEST).is_file():
        return Opened("results", path, path.name, result=Result.load(path))
    logs = tuple(sorted(file for file in path.rglob("*") if file.suffix in QLOG))
    if not logs:
        raise ScenarioError(
            f"{path}: expected {MANIFEST}, as --out writes it, or files {' or '.join(QLOG)}, as "
            "--qlog does"
        )
    return Opened("qlog", path, path.name, logs=logs)


def _over_seeds(rows: pd.DataFrame, flows: list[str], seeds: list[int]) -> dict[str, Any]:
    """Per flow the mean goodput of all seeds and half its 95 % interval, Mbps."""
    means = [float(rows.loc[flow, "goodput_mbps"]) for flow in flows]
    halves = [float(rows.loc[flow, "goodput_mbps_ci95"]) for flow in flows]
    return {"seeds": len(seeds), "goodput_mbps": means, "half_mbps": halves}


def replayed(result: Result, algorithms: list[str], seed: int) -> Iterator[Message]:
    """The events of a stored result, as `live.events` gives those of runs.

    Raises `ScenarioError` for an algorithm or seed that it does not have.
    """
    for name in algorithms:
        if name not in result.algorithms:
            raise ScenarioError(f"algorithm {name!r}: {expected_one_of(name, result.algorithms)}")
    if seed not in result.seeds:
        known = ", ".join(map(str, result.seeds))
        raise ScenarioError(f"seed {seed}: expected one of {known}")
    scenario = result.scenario
    yield {
        "type": "plan",
        **described(scenario),
        "runs": [{"rule": name} for name in algorithms],
        "on": result.backend,
        "seed": seed,
        "warnings": result.warnings,
    }
    over = result.summary().set_index(["algorithm", "flow"])
    for number, name in enumerate(algorithms):
        tables = {}
        for table, rows in result.tables().items():
            own = rows[(rows["algorithm"] == name) & (rows["seed"] == seed)]
            tables[table] = {column: own[column].to_numpy() for column in own}
        event = ended(scenario, Thinner(scenario), number, tables)
        if len(result.seeds) > 1:
            event["over_seeds"] = _over_seeds(over.loc[name], scenario.flow_names, result.seeds)
        yield event
    yield {"type": "done"}
