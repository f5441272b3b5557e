"""The kernel backend: real Linux hosts in real time, run by the program `anabranch-lab`."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from anabranch._core import Cancelled
from anabranch.core_types import Tables
from anabranch.scenario import Scenario, ScenarioError

PROGRAM = "anabranch-lab"
ALGORITHMS = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def program() -> str:
    """The path of `anabranch-lab`: ANABRANCH_LAB, beside this Python, on the PATH, or in target/.

    Raises `ScenarioError` that says how to build it.
    """
    if chosen := os.environ.get("ANABRANCH_LAB"):
        return chosen
    target = Path(os.environ.get("CARGO_TARGET_DIR", Path(__file__).parents[2] / "target"))
    near = [Path(sys.executable).parent / PROGRAM, target / "release" / PROGRAM]
    found = next((str(path) for path in near if path.is_file()), None) or shutil.which(PROGRAM)
    if found is None:
        raise ScenarioError(
            f"the kernel backend needs the program {PROGRAM}: build it with "
            "`cargo build --release -p anabranch-lab`, or name it in ANABRANCH_LAB"
        )
    return found


class Run:
    """A scenario with one algorithm and one seed, ready to run in real time.

    Flows without an algorithm of their own run `algorithm`; None: the scenario's choice.
    """

    def __init__(
        self, scenario: Scenario, algorithm: str | None, seed: int, rule: object | None = None
    ) -> None:
        if rule is not None:
            raise ScenarioError(
                f"{algorithm}: a rule that is not of the table is not available on kernel"
            )
        self._scenario = scenario
        self._command = [program(), "run", "-", "--seed", str(seed)]
        if algorithm is not None:
            self._command += ["--algorithm", algorithm]
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._cancelled = False
        self._started_s: float | None = None
        self._done = False

    @staticmethod
    def algorithms() -> list[str]:
        """The congestion controls registered in this kernel; none if it is not Linux."""
        return ALGORITHMS.read_text().split() if ALGORITHMS.exists() else []

    @property
    def progress(self) -> float:
        """The fraction done, 0 to 1, by the clock."""
        if self._done:
            return 1.0
        if self._started_s is None:
            return 0.0
        return min((time.monotonic() - self._started_s) / self._scenario.duration_s, 0.99)

    def cancel(self) -> None:
        """End the run, now or when it is executed, with all the hosts that it made."""
        with self._lock:
            self._cancelled = True
            if self._process:
                self._process.terminate()

    def execute(self) -> Tables:
        """Run to the end: the tables by name, each a dict of columns.

        Raises `ScenarioError` for a scenario that cannot run on this kernel, and `Cancelled`.
        """
        with _with_traces(self._scenario) as (text, folder):
            with self._lock:
                if self._cancelled:
                    raise Cancelled("the run was cancelled")
                self._process = subprocess.Popen(
                    [*self._command, "--die-with-parent", str(os.getpid())],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    cwd=folder,
                )
            self._started_s = time.monotonic()
            stdout, stderr = self._process.communicate(text)
        if self._cancelled:
            raise Cancelled("the run was cancelled")
        if self._process.returncode != 0:
            message = stderr.strip().removeprefix(f"{PROGRAM}: ")
            raise ScenarioError(message or f"{PROGRAM} ended without a message")
        _warn(stderr.splitlines())
        self._done = True
        return _tables(json.loads(stdout), self._scenario)


@contextmanager
def _with_traces(scenario: Scenario) -> Iterator[tuple[str, Path | str]]:
    """The scenario's text and the folder to which its trace files are relative.

    It is a temporary one where they are not beside the scenario, which may be from elsewhere.
    """
    folder = Path(scenario.source).parent
    here = {folder / name: content for name, content in scenario.inputs.items()}
    if all(file.is_file() and file.read_bytes() == content for file, content in here.items()):
        yield scenario.text, folder if folder.is_dir() else "."
        return
    with TemporaryDirectory(prefix="anabranch-") as temporary:
        text, traces = scenario.to_folder()
        for name, content in traces.items():
            Path(temporary, name).write_bytes(content)
        yield text, temporary


_printed: set[str] = set()


def _warn(warnings: list[str]) -> None:
    """Print the warnings of a run that no run before it has printed."""
    for warning in warnings:
        if warning not in _printed:
            print(warning, file=sys.stderr)
    _printed.update(warnings)


def _tables(document: dict[str, Any], scenario: Scenario) -> Tables:
    """The tables with names in place of the indexes of flows and links, and each flow's rule; and
    `lateness`, a row."""
    names = {"flow": scenario.flow_names, "link": scenario.link_names}
    tables: Tables = {}
    for table, columns in document["tables"].items():
        tables[table] = {}
        for column, typed in columns.items():
            ((kind, values),) = typed.items()
            if column in names:
                tables[table][column] = [names[column][index] for index in values]
            else:
                tables[table][column] = np.array(values, float if kind == "f64" else np.int64)
            if (table, column) == ("flows", "flow"):
                rules = document["algorithms"]
                tables[table]["rule"] = [rules[index] for index in values]
    tables["lateness"] = {
        name: np.array([np.nan if value is None else value])  # no packet was delivered
        for name, value in document["lateness"].items()
    }
    return tables
