"""The kernel backend: real Linux hosts in real time, run by the program `anabranch-lab`."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, cast

import numpy as np

from anabranch._core import Cancelled
from anabranch.plain import Tables
from anabranch.scenario import Scenario, ScenarioError

PROGRAM = "anabranch-lab"
ALGORITHMS = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def program() -> str:
    """Where `anabranch-lab` is: ANABRANCH_LAB, beside this Python, on the PATH, or in target/.

    Raises `ScenarioError` that says how to get it.
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

    `algorithm` is what flows without one of their own run; None: the scenario's choice.
    """

    def __init__(
        self, scenario: Scenario, algorithm: str | None, seed: int, rule: object | None = None
    ) -> None:
        if rule is not None:
            raise ScenarioError(f"{algorithm}: a rule in Python is not available on kernel")
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
        """The congestion controls registered in this kernel; none where it is not Linux."""
        return ALGORITHMS.read_text().split() if ALGORITHMS.exists() else []

    @property
    def progress(self) -> float:
        """The fraction done, 0 to 1, as far as the clock knows."""
        if self._done:
            return 1.0
        if self._started_s is None:
            return 0.0
        return min((time.monotonic() - self._started_s) / self._scenario.duration_s, 0.99)

    def cancel(self) -> None:
        """Ends the run, now or when it is executed; with it goes everything that it made."""
        with self._lock:
            self._cancelled = True
            if self._process:
                self._process.terminate()

    def execute(self) -> Tables:
        """Run to the end: the tables by name, each a dict of columns.

        Raises `ScenarioError` for what can't be run on this kernel.
        """
        with self._lock:
            if self._cancelled:
                raise Cancelled("the run was cancelled")
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=Path(self._scenario.source).parent,  # where the traces are
            )
        self._started_s = time.monotonic()
        stdout, stderr = self._process.communicate(self._scenario.text)
        if self._cancelled:
            raise Cancelled("the run was cancelled")
        if self._process.returncode != 0:
            message = stderr.strip().removeprefix(f"{PROGRAM}: ")
            raise ScenarioError(message or f"{PROGRAM} ended without a word")
        _tell(stderr.splitlines())
        self._done = True
        return _tables(json.loads(stdout), self._scenario)


_told: set[str] = set()


def _tell(warnings: list[str]) -> None:
    """Print what a run warns of, but not what one before it said word for word."""
    for warning in warnings:
        if warning not in _told:
            print(warning, file=sys.stderr)
    _told.update(warnings)


def _tables(document: dict[str, Any], scenario: Scenario) -> Tables:
    """The tables with names for the indexes of flows and links, and what each flow ran."""
    names = {"flow": scenario.flow_names, "link": scenario.link_names}
    tables: dict[str, dict[str, Any]] = {}
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
    return cast(Tables, tables)
