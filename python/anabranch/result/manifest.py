"""A result directory: tables, the scenario with its traces, and a manifest to repeat the runs."""

import datetime
import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from anabranch._core import VERSION
from anabranch.files import MANIFEST, read_table
from anabranch.formats import json_text
from anabranch.scenario import Scenario, ScenarioError, named

SCENARIO = "scenario.toml"
ORIGINAL = "original.toml"
HEADER = f"# The scenario that ran, with the traces beside it. The file as read: {ORIGINAL}.\n\n"
SAMPLE_BYTES = {"flow_samples": 4, "path_samples": 11, "link_samples": 2}
"""Bytes of a row on disk: the least of six runs of examples with 1 to 1000 ms between samples."""
PACKAGES = ("numpy", "pandas", "pyarrow", "scipy")


@dataclass(frozen=True)
class Runs:
    """Description of the runs, as far as the tables do not give it."""

    backend: str
    keys: tuple[str, ...]
    """The leading columns of the tables."""
    algorithms: list[str]
    seeds: list[int]
    rules_in_python: list[str]
    """The algorithms among them that were Python objects, which a directory cannot hold."""
    failures: dict[str, str]
    """The algorithms that are not in the tables, with the reason."""


@dataclass(frozen=True)
class Manifest:
    """Record of the origin of a result directory."""

    directory: Path
    version: str
    """Version of the Anabranch that wrote it."""
    runs: Runs
    files: dict[str, str]
    """The SHA-256 of the scenario, its traces and the tables, by file name."""

    @staticmethod
    def read(directory: str | os.PathLike[str]) -> "Manifest":
        """Read it. Raises `ScenarioError` where there is none, or one that cannot be read."""
        file = Path(directory) / MANIFEST
        if not file.is_file():
            raise ScenarioError(
                f"{directory}: expected a scenario file, or a directory that --out or Result.save "
                f"has written, with {MANIFEST}"
            )
        try:
            document = json.loads(file.read_text(encoding="utf-8"))
            runs = Runs(**{**document["runs"], "keys": tuple(document["runs"]["keys"])})
            return Manifest(Path(directory), document["anabranch"], runs, dict(document["files"]))
        except (ValueError, KeyError, TypeError) as error:
            raise ScenarioError(f"{file}: expected a manifest of Anabranch: {error!r}") from None

    def scenario(self) -> Scenario:
        """The scenario that ran."""
        return named(Scenario.load(self.directory / SCENARIO))

    def tables(self) -> dict[str, pd.DataFrame]:
        """The tables, by name. Raises `ScenarioError` for one that is damaged."""
        return {name: read_table(self.directory / file) for name, file in self._tables()}

    def missing(self) -> list[str]:
        """The files that no longer exist."""
        return [name for name in self.files if not (self.directory / name).is_file()]

    def changed(self) -> list[str]:
        """The files that are there and have changed since they were written."""
        there = {name: self.directory / name for name in self.files}
        hashes = {name: _sha256(f.read_bytes()) for name, f in there.items() if f.is_file()}
        return [name for name, found in hashes.items() if found != self.files[name]]

    def _tables(self) -> Iterator[tuple[str, str]]:
        for file in self.files:
            if file.endswith(".parquet"):
                yield file.removesuffix(".parquet"), file


def needed_bytes(scenario: Scenario, runs: int) -> int:
    """About the least that the samples of these runs take as Parquet; the rest is small."""
    network = scenario.network()
    users = [(flow["count"], len(flow["paths"])) for flow in network["flows"]]
    row = (
        SAMPLE_BYTES["flow_samples"] * sum(count for count, _ in users)
        + SAMPLE_BYTES["path_samples"] * sum(count * paths for count, paths in users)
        + SAMPLE_BYTES["link_samples"] * len(network["links"])
    )
    return int(runs * row * scenario.duration_s / network["sample_s"])


def write(
    directory: Path,
    runs: Runs,
    scenario: Scenario,
    tables: Mapping[str, pd.DataFrame],
    warnings: list[str],
    command: list[str] | None,
) -> None:
    """Write tables, scenario, traces and manifest into an existing directory.

    `warnings`: those of the result, such as where the backend ran another network.
    `command` is the command line, None for a call from Python.
    """
    text, traces = scenario.to_folder()
    files = {
        SCENARIO: (HEADER + text).encode(),
        ORIGINAL: scenario.original.encode(),
        **traces,
    }
    for name, content in files.items():
        (directory / name).write_bytes(content)
    for name, table in tables.items():
        table.to_parquet(directory / f"{name}.parquet", index=False)
        files[f"{name}.parquet"] = (directory / f"{name}.parquet").read_bytes()
    document = {
        **origin(command),
        "runs": asdict(runs),
        "warnings": warnings,
        "scenario": {
            "source": scenario.source,
            "sha256": _sha256(files[ORIGINAL]),
            "set": scenario.set,
            "inputs": {name: _sha256(content) for name, content in scenario.inputs.items()},
        },
        "files": {name: _sha256(content) for name, content in files.items()},
    }
    (directory / MANIFEST).write_text(json_text(document) + "\n", encoding="utf-8")


def origin(command: list[str] | None) -> dict[str, Any]:
    """Writer of a directory: version, command line, date, Python, platform and packages."""
    return {
        "anabranch": VERSION,
        "command": command,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": _packages(),
    }


def hashes(directory: Path) -> dict[str, str]:
    """The SHA-256 of the files in a directory, by name."""
    files = sorted(file for file in directory.iterdir() if file.is_file())
    return {file.name: _sha256(file.read_bytes()) for file in files}


@cache
def _packages() -> dict[str, str]:
    return {name: version(name) for name in PACKAGES}


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
