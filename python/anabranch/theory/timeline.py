"""When the paths of a scenario are there: flows come and go, paths open, links fail."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from anabranch.scenario import Scenario, ScenarioError
from anabranch.theory.array import Array


@dataclass(frozen=True, eq=False)
class Interval:
    """A stretch of time in which nothing comes or goes."""

    from_s: float
    to_s: float
    present: Array
    """Of each path of `Network.of(scenario)`: whether its user sends and no link of it is down."""

    def __str__(self) -> str:
        return f"{self.from_s:g} to {self.to_s:g} s"


def intervals(scenario: Scenario) -> list[Interval]:
    """The intervals of a scenario's run, from 0 to its end; those alike in a row are one.

    Users of a flow count from its `start_s`, whatever their `start_spread_s`, and send all the time
    until `stop_s`. Raises `ScenarioError` for flows of which theory can't say how much they send.
    """
    made: list[Interval] = []
    for start, stop in _stretches(scenario):
        present = _present_at(scenario, (start + stop) / 2)
        if made and np.array_equal(made[-1].present, present):
            start = made.pop().from_s
        made.append(Interval(start, stop, present))
    return made


def _stretches(scenario: Scenario) -> Iterator[tuple[float, float]]:
    plain, end = scenario.network(), scenario.duration_s
    times = {0.0, end}
    for flow in plain["flows"]:
        if flow["workload"] not in ("bulk", "file"):
            raise ScenarioError(
                f"flow {flow['name']}: a workload {flow['workload']!r} has no optimum and "
                "no equilibrium, because it does not always have something to send: expected bulk"
            )
        times |= {flow["start_s"], flow["stop_s"] or end}
        times |= {path["start_s"] for path in flow["paths"]}
    for link in plain["links"]:
        times |= {time for pair in link["down_s"] for time in pair}
    ordered = sorted(time for time in times if 0 <= time <= end)
    return pairwise(ordered)


def _present_at(scenario: Scenario, time_s: float) -> Array:
    plain = scenario.network()
    up = [
        not any(start <= time_s < stop for start, stop in link["down_s"]) for link in plain["links"]
    ]
    present = []
    for flow in plain["flows"]:
        sends = flow["start_s"] <= time_s < (flow["stop_s"] or np.inf)
        of_user = [
            sends and path["start_s"] <= time_s and all(up[link] for link in path["links"])
            for path in flow["paths"]
        ]
        present += of_user * flow["count"]
    return np.array(present, dtype=bool)
