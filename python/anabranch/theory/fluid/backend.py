"""The backends `fluid` and `equilibrium`: classes with the interface of `_core.Run`."""

from typing import Any

import numpy as np

from anabranch._core import Cancelled, Library
from anabranch.scenario import Scenario, ScenarioError
from anabranch.theory.fluid import rounds
from anabranch.theory.fluid.equilibrium import equilibrium
from anabranch.theory.fluid.integrate import integrate
from anabranch.theory.fluid.tables import History, Moment, tables
from anabranch.theory.known import Model, check, check_buffer
from anabranch.theory.network import Network
from anabranch.theory.schedule import Schedule, intervals

UNKNOWN = {
    "flows": ["timeouts", "spurious_timeouts", "transfers_done"],
    "paths": ["timeouts", "spurious_timeouts"],
}
"""Columns that an equilibrium has no value for: NaN in the tables."""


class FluidRun:
    """One run over time. The seed has no effect: nothing is random.

    Raises `ScenarioError` for a workload at random, for what the equations do not know
    (`theory.known`) and for a rule written in Python.
    """

    backend: Model = "fluid"
    """Name in `run`."""

    def __init__(
        self, scenario: Scenario, algorithm: str | None, seed: int, rule: Any = None
    ) -> None:
        if rule is not None:
            origin = "of a C library" if isinstance(rule, Library) else "written in Python"
            raise ScenarioError(f"{algorithm} is {origin}, so it has no derivatives: run it on sim")
        self._scenario = scenario if algorithm is None else scenario.with_algorithm(algorithm)
        check(scenario, self.backend)
        scenario.check_scheduler(self.backend)
        self._network = Network.of(self._scenario)
        self._schedule = Schedule.of(self._scenario)
        self.progress = 0.0
        self._cancelled = False

    def cancel(self) -> None:
        """Make `execute` raise `Cancelled`, now or when it is called."""
        self._cancelled = True

    def execute(self) -> dict[str, dict[str, Any]]:
        """Run to the end: the tables by name, each a dict of columns.

        Raises `NotConverged`, `Cancelled`, and `ScenarioError` for a rule without a fluid model.
        """
        return tables(self._scenario, self._network, self._schedule, self._history())

    def _history(self) -> History:
        simulate = rounds.simulate if rounds.needed(self._network) else integrate
        return simulate(self._scenario, self._network, self._schedule, self._watch)

    def _watch(self, time: float) -> None:
        if self._cancelled:
            raise Cancelled("the run was cancelled")
        self.progress = min(1.0, time / self._scenario.duration_s)


class EquilibriumRun(FluidRun):
    """A run that begins in the equilibrium and stays there: every flow sends all the time.

    A file never ends. The table of transfers has the duration of each at the rate that its user has
    in equilibrium. Raises `ScenarioError` where flows, paths or links come or go after the warm-up.
    """

    backend: Model = "equilibrium"

    def __init__(
        self, scenario: Scenario, algorithm: str | None, seed: int, rule: Any = None
    ) -> None:
        super().__init__(scenario, algorithm, seed, rule)
        measured = [span for span in intervals(scenario) if span.to_s > scenario.warmup_s]
        if len(measured) > 1 or not measured[0].present.all():
            raise ScenarioError(
                f"{scenario.name or 'scenario'}: flows, paths or links come or go after the "
                "warm-up, and an equilibrium has all of them all the time: run it on fluid or sim"
            )

    def execute(self) -> dict[str, dict[str, Any]]:
        """Find the equilibrium: the tables by name, each a dict of columns.

        Raises as `FluidRun.execute` does.
        """
        tables = super().execute()
        flows = tables["flows"]
        files = np.flatnonzero(np.isfinite(self._schedule.bytes))
        size, goodput_mbps = self._schedule.bytes[files], flows["goodput_mbps"][files]
        tables["transfers"] = {
            "flow": [flows["flow"][user] for user in files],
            "user": flows["user"][files],
            "start_s": flows["start_s"][files],
            "bytes": size.astype(np.int64),
            "duration_s": 8e-6 * size / goodput_mbps,
        }
        for table, columns in UNKNOWN.items():
            rows = len(tables[table]["user"])
            tables[table] |= {column: np.full(rows, np.nan) for column in columns}
        return tables

    def _history(self) -> History:
        found = equilibrium(self._network, tick=lambda: self._watch(0.0))
        check_buffer(self._scenario, self.backend, self._network, found.window)
        served = (1 - found.loss) * found.load
        sending = np.ones(self._network.paths, dtype=bool)
        history = History(self._scenario.network()["sample_s"])
        samples = history.samples(0.0, self._scenario.duration_s)
        ends = [0.0, self._scenario.warmup_s, self._scenario.duration_s]
        for time in np.union1d(samples, ends):
            history.add(Moment.of(float(time), sending, found, served))
        return history
