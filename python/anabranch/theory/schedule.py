"""When the paths of a scenario may send: flows come and go, paths open, links fail.

The simulator draws the start of each user of a flow uniformly from `start_spread_s` after
`start_s`. Here nothing is random: the users of a flow start evenly spread over it. With
`spread=False` all users of a flow start at its `start_s`. Callers that compute the state between
two events use it, because otherwise each user's start would begin an interval of its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from anabranch.core_types import Flow
from anabranch.scenario import Scenario, ScenarioError
from anabranch.theory.array import Array


@dataclass(frozen=True, eq=False)
class Schedule:
    """When users and paths, in the order of `Network.of`, may send. Times are s."""

    start_s: Array
    """Start of each user, s."""
    stop_s: Array
    """Stop of each user, s; infinite where it does not stop."""
    bytes: Array
    """Payload of each user's file, bytes; infinite for endless data."""
    pauses: list[tuple[float, float]]
    """Durations for which each user sends and is silent in turn, s; (inf, 0) if it never pauses."""
    user_of_path: Array
    opens_s: Array
    """Time at which each path opens, s."""
    down: list[list[tuple[float, float]]]
    """Intervals in which one of a path's links is down, s, of each path."""
    end_s: float

    @classmethod
    def of(cls, scenario: Scenario, spread: bool = True) -> "Schedule":
        """The schedule of a scenario; without `spread` all users of a flow start with the first.

        Raises `ScenarioError` for workloads at random, which have no fluid model.
        """
        plain = scenario.network()
        for flow in plain["flows"]:
            if flow["workload"] not in ("bulk", "file", "on_off"):
                raise ScenarioError(
                    f"flow {flow['name']}: workload {flow['workload']} has no fluid model, because "
                    f"its {_units(flow)}: run it on sim, or make it bulk, file or on_off"
                )
        users = [(flow, k) for flow in plain["flows"] for k in range(flow["count"])]
        sizes = [len(flow["paths"]) for flow, _ in users]
        return cls(
            start_s=np.array([_start(flow, k, spread) for flow, k in users]),
            stop_s=np.array(
                [np.inf if (stop_s := flow["stop_s"]) is None else stop_s for flow, _ in users]
            ),
            bytes=np.array([flow.get("bytes", np.inf) for flow, _ in users], dtype=float),
            pauses=[(flow.get("on_s", np.inf), flow.get("off_s", 0.0)) for flow, _ in users],
            user_of_path=np.repeat(np.arange(len(users)), sizes),
            opens_s=np.array([path["start_s"] for flow, _ in users for path in flow["paths"]]),
            down=[
                [span for link in path["links"] for span in plain["links"][link]["down_s"]]
                for flow, _ in users
                for path in flow["paths"]
            ],
            end_s=scenario.duration_s,
        )

    def stretches(self, marks: tuple[float, ...] = ()) -> Iterator[tuple[float, float]]:
        """Times between which no path begins or ends to send; `marks` end a stretch, too."""
        times = {0.0, self.end_s, *marks, *self.start_s, *self.stop_s, *self.opens_s}
        for user in range(len(self.start_s)):
            times |= set(self._turns(user))
        for spans in self.down:
            times |= {time for span in spans for time in span}
        return pairwise(sorted(float(time) for time in times if 0 <= time <= self.end_s))

    def sending(self, time_s: float) -> Array:
        """Whether each path may send at a time within a stretch."""
        users = (self.start_s <= time_s) & (time_s < self.stop_s)
        for user in np.flatnonzero(users):
            on, off = self.pauses[user]
            if np.isfinite(on):
                users[user] = (time_s - self.start_s[user]) % (on + off) < on
        up = [not any(a <= time_s < b for a, b in spans) for spans in self.down]
        open_now = (self.opens_s <= time_s) & np.array(up, dtype=bool)
        return np.asarray(users[self.user_of_path] & open_now)

    def _turns(self, user: int) -> Array:
        """When a user that pauses goes on and off."""
        on, off = self.pauses[user]
        if not np.isfinite(on):
            return np.empty(0)
        begins = np.arange(self.start_s[user], min(self.stop_s[user], self.end_s), on + off)
        return np.concatenate([begins, begins + on])


@dataclass(frozen=True, eq=False)
class Interval:
    """A stretch of time in which the same paths may send."""

    from_s: float
    to_s: float
    present: Array
    """Whether each path of `Network.of(scenario)` is present: its user sends and all its links are
    up."""

    def __str__(self) -> str:
        return f"{self.from_s:g} to {self.to_s:g} s"


def intervals(scenario: Scenario) -> list[Interval]:
    """The intervals of a scenario's run, from 0 to its end, each longest possible.

    All users of a flow count from its `start_s` on, and send all the time until `stop_s`: a file
    has no end here. Raises `ScenarioError` for a flow that does not always have data to send.
    """
    for flow in scenario.network()["flows"]:
        if flow["workload"] not in ("bulk", "file"):
            raise ScenarioError(
                f"flow {flow['name']}: a workload {flow['workload']!r} has no optimum and "
                "no equilibrium, because it does not always have something to send: expected bulk"
            )
    schedule, made = Schedule.of(scenario, spread=False), list[Interval]()
    for start, stop in schedule.stretches():
        present = schedule.sending((start + stop) / 2)
        if made and np.array_equal(made[-1].present, present):
            start = made.pop().from_s
        made.append(Interval(start, stop, present))
    return made


def _units(flow: Flow) -> str:
    kinds = {"messages": "messages are single packets", "media": "frames are single packets"}
    return kinds.get(flow["workload"], "files come at random")


def _start(flow: Flow, number: int, spread: bool) -> float:
    place = (number + 0.5) / flow["count"] if spread else 0.0
    return float(flow["start_s"] + flow["start_spread_s"] * place)
