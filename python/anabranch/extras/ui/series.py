"""Samples of a run as lines of charts: a few hundred points, many users alike as their mean."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from anabranch.core_types import Flow
from anabranch.scenario import Scenario, ScenarioError, path_names
from anabranch.theory.array import Array

POINTS = 600
"""About the most points of a line: more cannot be seen on a screen."""

MOST_USERS = 6
"""With more users a line is the mean over the users of a flow."""

PATH_LINES = {"window": "window_packets", "rtt": "rtt_ms", "path_goodput": "goodput_mbps"}
LINK_LINES = {"queue": "queue_packets", "throughput": "throughput_mbps"}

Table = Mapping[str, Any]


@dataclass(frozen=True)
class Group:
    """Users of a flow that share a line."""

    flow: int
    user: int | None
    """The number of the only user within the flow; None for the mean over all of them."""
    users: int
    paths: int


def groups(scenario: Scenario) -> list[Group]:
    """The groups in the order of the samples' rows."""
    flows: list[Flow] = scenario.network()["flows"]
    alone = sum(flow["count"] for flow in flows) <= MOST_USERS
    return [
        Group(number, user if alone else None, 1 if alone else flow["count"], len(flow["paths"]))
        for number, flow in enumerate(flows)
        for user in range(flow["count"] if alone else 1)
    ]


def plan(scenario: Scenario) -> dict[str, Any]:
    """The lines that there are, and the names of what they are about, for the page."""
    network, names = scenario.network(), path_names(scenario)
    lines, own = groups(scenario), own_rules(scenario)
    return {
        "flows": [
            {
                "name": flow["name"],
                "count": flow["count"],
                "own": own.get(flow["name"]),
                "paths": [
                    {"name": name, "links": [scenario.link_names[i] for i in path["links"]]}
                    for name, path in zip(names[flow["name"]], flow["paths"], strict=True)
                ],
            }
            for flow in network["flows"]
        ],
        "links": scenario.link_names,
        "rates_mbps": [link["rate_mbps"] for link in network["links"]],
        "users": [{"flow": line.flow, "user": line.user} for line in lines],
        "paths": [
            {"flow": line.flow, "user": line.user, "path": path}
            for line in lines
            for path in range(line.paths)
        ],
        "duration_s": scenario.duration_s,
        "warmup_s": scenario.warmup_s,
    }


def own_rules(scenario: Scenario) -> dict[str, str]:
    """The rules of the flows that name one, whichever the run's is: by flow."""
    flows = scenario.network()["flows"]
    if scenario.algorithm is None:
        return {flow["name"]: flow["algorithm"] for flow in flows}
    # A flow's own stays whatever replaces the scenario's.
    try:
        others = [scenario.with_algorithm(name).network()["flows"] for name in ("reno", "lia")]
    except ScenarioError:  # a workload that takes one rule alone
        return {}
    return {
        one["name"]: one["algorithm"]
        for one, other in zip(*others, strict=True)
        if one["algorithm"] == other["algorithm"]
    }


class Thinner:
    """Takes the samples of a run as they come and gives the points of its lines."""

    def __init__(self, scenario: Scenario) -> None:
        self._groups = groups(scenario)
        self._users = sum(group.users for group in self._groups)
        self._paths = sum(group.users * group.paths for group in self._groups)
        self._links = len(scenario.link_names)
        samples = scenario.duration_s / scenario.network()["sample_s"]
        self._stride = max(1, round(samples / POINTS))
        self._seen = 0
        self._waiting: dict[str, Array] = {}

    def add(self, tables: Mapping[str, Table], *, whole_run: bool = False) -> dict[str, Any]:
        """The points that these samples add: a list per line, with None where nothing is measured.

        `whole_run`: the tables begin with the run and not with what follows the last call's.
        """
        skip = self._seen if whole_run else 0
        rows = {name: values[skip:] for name, values in self._lines(tables).items()}
        self._seen += len(rows["time"])
        for name, waiting in self._waiting.items():
            rows[name] = np.concatenate([waiting, rows[name]])
        ready = len(rows["time"]) // self._stride * self._stride
        self._waiting = {name: values[ready:] for name, values in rows.items()}
        times = rows.pop("time")[:ready, 0].reshape(-1, self._stride)[:, -1]
        points: dict[str, Any] = {"time": _numbers(times)}
        for name, values in rows.items():
            blocks = values[:ready].reshape(-1, self._stride, values.shape[1])
            points[name] = [_numbers(line) for line in _mean(blocks).T]
        return points

    def _lines(self, tables: Mapping[str, Table]) -> dict[str, Array]:
        """A row per sample, a column per line."""
        flows, paths, links = (tables[f"{name}_samples"] for name in ("flow", "path", "link"))
        lines = {"time": _matrix(flows["time_s"], self._users)[:, :1]}
        lines["goodput"] = self._over_users(
            _matrix(flows["goodput_mbps"], self._users), paths=False
        )
        for name, column in PATH_LINES.items():
            lines[name] = self._over_users(_matrix(paths[column], self._paths), paths=True)
        for name, column in LINK_LINES.items():
            lines[name] = _matrix(links[column], self._links)
        return lines

    def _over_users(self, rows: Array, *, paths: bool) -> Array:
        """The mean over the users of each group; a column per path of a group with `paths`."""
        parts, first = [], 0
        for group in self._groups:
            columns = group.paths if paths else 1
            end = first + group.users * columns
            own = rows[:, first:end].reshape(len(rows), group.users, columns)
            parts.append(_mean(own))
            first = end
        return np.concatenate(parts, axis=1)


def _matrix(column: Any, width: int) -> Array:
    return np.asarray(column, dtype=float).reshape(-1, width)


def _mean(values: Array) -> Array:
    """The mean along the second axis of what was measured; NaN where nothing was."""
    there = np.isfinite(values)
    count = there.sum(axis=1)
    total = np.where(there, values, 0.0).sum(axis=1)
    unknown = np.full(total.shape, np.nan)
    return np.asarray(np.divide(total, count, out=unknown, where=count > 0))


def _numbers(values: Array) -> list[float | None]:
    """Numbers for JSON, to 4 digits behind the point: finer than a pixel of any chart."""
    return [value if np.isfinite(value) else None for value in np.round(values, 4).tolist()]
