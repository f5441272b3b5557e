"""The optimum of a scenario: the rates of the largest total utility, and the price of each link."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from anabranch.runner import Progress
from anabranch.scenario import Scenario, ScenarioError
from anabranch.theory.array import Array
from anabranch.theory.known import check, check_buffer
from anabranch.theory.network import Network
from anabranch.theory.optimum.maximise import AlphaFair, Problem, Solution, solve
from anabranch.theory.schedule import Interval, intervals

PROPORTIONAL = AlphaFair(1.0)

USED = 1e-3
"""A path is used when it carries more than this part of its user's rate beyond its probes."""


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best rates in one interval, in Mbps of goodput; a row for each path, user and link.

    Absent paths, and users without a path, have a rate of 0.
    """

    network: Network
    interval: Interval
    utility: AlphaFair
    rate: Array
    """Rate of each path, Mbps."""
    floor: Array
    """The part of it that is probes, Mbps."""
    price: Array
    """Price of each link: utility per additional Mbps of goodput."""
    path_price: Array
    """Price of each path: the sum over its links."""
    weight: Array
    """Weight of each user."""
    solution: Solution
    """The solver's answer with its certificate: `gap`, `mismatch`, `solver`, `iterations`."""

    @property
    def user_rate(self) -> Array:
        """Rate of each user, Mbps."""
        return np.asarray(self.network.sums @ self.rate)

    @property
    def used(self) -> Array:
        """Whether each path carries more than its probes."""
        total = self.user_rate[self.network.user_of_path]
        return np.asarray(self.rate - self.floor > USED * total)

    @property
    def sending(self) -> Array:
        """Whether any path of each user is present."""
        return np.asarray(self.network.sums @ self.interval.present.astype(float) > 0)

    @property
    def worth(self) -> float:
        """The utility of all users together, rates in Mbps."""
        there = self.sending
        return float(np.sum(self.weight[there] * self.utility.value(self.user_rate[there])))

    def flows(self) -> pd.DataFrame:
        """Per flow that is present: its `users`, their mean `rate_mbps`, and `marginal`, the
        utility of 1 Mbps more to one of them.
        """
        there = self.sending
        total = self.user_rate[there]
        frame = pd.DataFrame(
            {
                "flow": np.array(self.network.flows, dtype=object)[there],
                "rate_mbps": total,
                "marginal": self.weight[there] * self.utility.slope(total),
            }
        )
        return frame.groupby("flow", sort=False, as_index=False).agg(
            users=("flow", "size"), rate_mbps=("rate_mbps", "mean"), marginal=("marginal", "mean")
        )

    def paths(self, split: bool = False) -> pd.DataFrame:
        """Per flow and path that is present, the mean over users: `rate_mbps`, `price`, whether any
        uses it (`used`), and its `links`.

        With `split` also `least_mbps` and `most_mbps`: see `ranges`.
        """
        network, there = self.network, self.interval.present
        user = network.user_of_path
        frame = pd.DataFrame(
            {
                "flow": np.array(network.flows, dtype=object)[user],
                "path": np.arange(network.paths) - network.starts[:-1][user],
                "rate_mbps": self.rate,
                "price": self.path_price,
                "used": self.used,
                "links": [", ".join(links) for links in network.links_of_paths()],
            }
        )
        columns = {"rate_mbps": "mean", "price": "mean", "used": "any"}
        if split:
            frame["least_mbps"], frame["most_mbps"] = ranges(self)
            columns |= {"least_mbps": "mean", "most_mbps": "mean"}
        by = frame[there].groupby(["flow", "path"], sort=False, as_index=False)
        return by.agg(columns | {"links": "first"})

    def links(self) -> pd.DataFrame:
        """Per link: `capacity_mbps` and `load_mbps` of goodput, and `price`."""
        return pd.DataFrame(
            {
                "link": list(self.network.links),
                "capacity_mbps": self.network.goodput_mbps(self.network.capacity),
                "load_mbps": self.network.routes @ self.rate,
                "price": self.price,
            }
        )

    def as_dict(self, split: bool = False) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "from_s": self.interval.from_s,
            "to_s": self.interval.to_s,
            "utility": self.worth,
            "relative_gap": self.solution.gap,
            "worst_mismatch": self.solution.mismatch,
            "solver": self.solution.solver,
            "iterations": self.solution.iterations,
            "flows": self.flows().to_dict(orient="records"),
            "paths": self.paths(split).to_dict(orient="records"),
            "links": self.links().to_dict(orient="records"),
        }


def optima(
    scenario: Scenario,
    utility: AlphaFair = PROPORTIONAL,
    *,
    probing: bool = False,
    rtt_s: float | None = None,
    weights: Mapping[str, float] | None = None,
    progress: Progress | None = None,
) -> list[Optimum]:
    """The optimum of each interval of a scenario.

    `probing`: every path carries at least one packet per round-trip time, which is `rtt_s`, by
    default the path's base RTT. `weights`: of the users of a flow, 1 by default.

    Raises `ScenarioError` and `NotConverged` as `solve` does.
    """
    check(scenario, "optimum")
    network = Network.of(scenario)
    weight = _weights(network, weights or {})
    rtt = network.base_rtt if rtt_s is None else np.full(network.paths, rtt_s)
    floor = network.goodput_mbps(1 / rtt) if probing else np.zeros(network.paths)
    found = [
        optimum(network, interval, utility, floor, weight, progress=progress)
        for interval in intervals(scenario)
    ]
    for best in found:
        window = best.rate * 1e6 / network.payload_bits * network.base_rtt
        check_buffer(scenario, "optimum", network, window)
    return found


def optimum(
    network: Network,
    interval: Interval,
    utility: AlphaFair,
    floor: Array,
    weight: Array,
    progress: Progress | None = None,
) -> Optimum:
    """The optimum of the paths of one interval; floors in Mbps of goodput."""
    present, there = interval.present, network.of_paths(interval.present)
    problem = Problem.of(there, weight[network.sums @ present.astype(float) > 0], floor[present])
    if there.users:
        solution = solve(problem, utility, progress)
    else:
        solution = Solution(np.zeros(0), np.zeros(len(network.links)), "none", 0, 0.0, 0.0)
    rate, least = np.zeros(network.paths), np.zeros(network.paths)
    rate[present], least[present] = solution.rate, problem.floor
    path_price = np.asarray(network.routes.T @ solution.price)
    return Optimum(
        network, interval, utility, rate, least, solution.price, path_price, weight, solution
    )


def _weights(network: Network, weights: Mapping[str, float]) -> Array:
    for flow, value in weights.items():
        if flow not in network.flows:
            known = ", ".join(dict.fromkeys(network.flows))
            raise ScenarioError(f"weight {flow}={value:g}: expected one of the flows {known}")
        if not value > 0 or not np.isfinite(value):
            raise ScenarioError(f"weight {flow}={value:g}: expected a number above 0")
    return np.array([weights.get(flow, 1.0) for flow in network.flows])


def ranges(best: Optimum) -> tuple[Array, Array]:
    """The least and the largest rate of each path over all optima, Mbps.

    Users' totals are unique unless alpha = 0; the split of a total over paths may not be (wVegas'
    paper, II-A). Two linear programs for each path, so for small networks.
    """
    from scipy.optimize import linprog  # here, because it takes a while to load

    there = np.flatnonzero(best.interval.present)
    network = best.network.of_paths(best.interval.present)
    least, most = np.zeros(best.network.paths), np.zeros(best.network.paths)
    slack = 1 + 1e-6  # the accuracy of the optimum
    limits = sparse.vstack([network.routes, -network.sums])
    right = np.concatenate(
        [network.goodput_mbps(network.capacity) * slack, -(network.sums @ best.rate[there]) / slack]
    )
    bounds = [(floor, None) for floor in best.floor[there]]
    for own, path in enumerate(there):
        unit = np.zeros(len(there))
        unit[own] = 1
        least[path] = linprog(unit, limits, right, bounds=bounds).fun
        most[path] = -linprog(-unit, limits, right, bounds=bounds).fun
    return least, most
