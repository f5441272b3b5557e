"""The backend `equilibrium`: a run that begins where windows and queues stand still, and stays."""

from typing import Any

import numpy as np

from anabranch.scenario import Scenario, ScenarioError
from anabranch.theory.fluid import equilibrium
from anabranch.theory.fluid.history import History, Moment
from anabranch.theory.fluid.integrate import FluidRun
from anabranch.theory.timeline import intervals

UNKNOWN = {"flows": ["timeouts", "transfers_done"], "paths": ["timeouts"]}
"""What no equilibrium has a number for: NaN in the tables."""


class EquilibriumRun(FluidRun):
    """One run, with the interface of `_core.Run`: every flow is there and sends, all the time.

    A file is never at its end. The table of transfers says how long each would take at the rate
    that its user has in equilibrium.
    """

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

        Raises `NotConverged`.
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
        found = equilibrium.settled(self._network, lambda: self._watch(0.0))
        load = self._network.routes @ found.rate
        history = History(self._scenario.network()["sample_s"])
        samples = history.samples(0.0, self._scenario.duration_s)
        ends = [0.0, self._scenario.warmup_s, self._scenario.duration_s]
        for time in np.union1d(samples, ends):
            history.add(
                Moment(
                    time=float(time),
                    window=found.window,
                    rate=found.rate,
                    rtt=found.rtt,
                    path_loss=found.path_loss,
                    waiting=found.waiting,
                    loss=found.loss,
                    load=load,
                    served=(1 - found.loss) * load,
                )
            )
        return history
