"""When the paths of a scenario send, as the fluid model takes it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from anabranch.scenario import Scenario, ScenarioError
from anabranch.theory.array import Array

Watch = Callable[[float], None]
"""Is told the simulated time now and then; it may raise to stop a run."""


@dataclass(frozen=True, eq=False)
class Schedule:
    """Of all users and paths, in the order of `Network.of`: when they may send. Times are s."""

    start_s: Array
    """Of each user. Those of a flow with a `start_spread_s` start evenly spread over it."""
    stop_s: Array
    """Of each user; infinite where it does not stop."""
    bytes: Array
    """Of each user, the payload of its file; infinite for endless data."""
    opens_s: Array
    """Of each path."""
    pauses: list[tuple[float, float]]
    """Of each user, how long it sends and is silent in turn; (inf, 0) if it never pauses."""
    down: list[list[tuple[float, float]]]
    """Of each path, when one of its links is down."""
    end_s: float

    @classmethod
    def of(cls, scenario: Scenario) -> "Schedule":
        """Raises `ScenarioError` for workloads without a fluid model."""
        plain = scenario.network()
        users = [(flow, k) for flow in plain["flows"] for k in range(flow["count"])]
        for flow in plain["flows"]:
            if flow["workload"] not in ("bulk", "file", "on_off"):
                raise ScenarioError(
                    f"flow {flow['name']}: workload {flow['workload']} has no fluid model, because "
                    "its files come at random: run it on sim, or make it bulk, file or on_off"
                )
        return cls(
            start_s=np.array([_start(flow, k) for flow, k in users]),
            stop_s=np.array([_or_never(flow["stop_s"]) for flow, _ in users]),
            bytes=np.array([flow.get("bytes", np.inf) for flow, _ in users], dtype=float),
            opens_s=np.array([path["start_s"] for flow, _ in users for path in flow["paths"]]),
            pauses=[(flow.get("on_s", np.inf), flow.get("off_s", 0.0)) for flow, _ in users],
            down=[
                [span for link in path["links"] for span in plain["links"][link]["down_s"]]
                for flow, _ in users
                for path in flow["paths"]
            ],
            end_s=scenario.duration_s,
        )

    def stretches(self, marks: tuple[float, ...]) -> Iterator[tuple[float, float]]:
        """Times between which no path begins or ends to send; `marks` end a stretch, too."""
        times = {0.0, self.end_s, *marks, *self.start_s, *self.stop_s, *self.opens_s}
        for user in range(len(self.start_s)):
            times |= set(self._turns(user))
        for spans in self.down:
            times |= {time for span in spans for time in span}
        return pairwise(sorted(time for time in times if 0 <= time <= self.end_s))

    def sending(self, time: float, user_of_path: Array) -> Array:
        """Of each path, whether it may send at a time within a stretch."""
        users = (self.start_s <= time) & (time < self.stop_s)
        for user in np.flatnonzero(users):
            on, off = self.pauses[user]
            if np.isfinite(on):
                users[user] = (time - self.start_s[user]) % (on + off) < on
        up = np.array([not any(a <= time < b for a, b in spans) for spans in self.down], dtype=bool)
        return np.asarray(users[user_of_path] & (self.opens_s <= time) & up)

    def _turns(self, user: int) -> Array:
        """When a user that pauses goes on and off."""
        on, off = self.pauses[user]
        if not np.isfinite(on):
            return np.empty(0)
        begins = np.arange(self.start_s[user], min(self.stop_s[user], self.end_s), on + off)
        return np.concatenate([begins, begins + on])


def _start(flow: dict[str, Any], number: int) -> float:
    return float(flow["start_s"] + flow["start_spread_s"] * (number + 0.5) / flow["count"])


def _or_never(stop: float | None) -> float:
    return float("inf") if stop is None else float(stop)
