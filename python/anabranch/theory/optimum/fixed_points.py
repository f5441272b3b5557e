"""Fixed points of loss-based rules where the RTTs are known: the loss-throughput formula.

At a fixed point windows are stationary: `phi_r = q_r` on every path above its least window, where
`q_r` is the sum of the loss probabilities of its links. A link loses packets only where it is full.
For LIA windows are then inversely proportional to losses, with the total of one TCP on the best
path (OLIA draft, section 2); OLIA uses best paths only, with the total of one TCP on one of them.
No formula of a rule is repeated here: `Law.phi` is evaluated.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from anabranch.scenario import Scenario, ScenarioError, rules
from anabranch.theory.array import Array
from anabranch.theory.errors import NotConverged
from anabranch.theory.known import check, check_buffer
from anabranch.theory.law import Law, States, row
from anabranch.theory.network import Network
from anabranch.theory.optimum.maximise import next_shrink, of_each, stays_positive
from anabranch.theory.schedule import Interval

# Fixed points as a complementarity problem, by Newton's method along the central path.
#
#     windows  w >= least,     q - phi(w) >= 0,   of each path one of the two holds with equality
#     losses   p >= 0,         c - A w >= 0,      of each link one of the two
#
# A primal-dual interior-point method, as `maximise.py`; but phi is a rule's, which need not
# be the gradient of a utility, so its Jacobian takes the place of a utility's curvature. Dense:
# for networks of the size of a paper's.
#
# Why not the search of `fluid.newton`: there a queue's loss rises with its backlog, which damps
# the search. Here links lose packets only where they are full, at any level of loss, so the
# Jacobian has a block of zeros and Newton's method on the active set circles around the kinks at
# which paths come into use. With prices in place of backlogs it found the published fixed points
# to 1e-9, but took three times as long, failed in 10 of 128 cases on the networks of the OLIA
# draft (in none with prices ten times as slow and a least window of 1e-5), and in 5 of 200 random
# networks; and in another 5 with Balia, which has several fixed points, it found other ones.


MOST_STEPS = 200
PATIENCE = 30
"""Steps without a smaller residual after which the search stops."""
TOLERANCE = 1e-10


@dataclass(frozen=True, eq=False)
class Complementarity:
    """The problem; n paths, m links."""

    phi: Callable[[Array], tuple[Array, Array]]
    """Function of windows above 0, packets: phi of each path, and its Jacobian, n by n."""
    load: Array
    """m by n: the part of a link's capacity that one packet of window takes."""
    crossed: Array
    """m by n: how often a path crosses a link."""
    least: float
    """The least value of every window, packets."""


def solve(problem: Complementarity, start: Array) -> tuple[Array, Array, float]:
    """Windows, loss probabilities of links, and the residual: the largest violation of a pair.

    `start`: windows above the least, of the size of those to be found.
    """
    load, crossed, least = problem.load * start, problem.crossed, problem.least / start
    level = float(np.median(problem.phi(start)[0]))  # of losses; all is scaled by it and by `start`
    x = np.maximum(0.5 * (1 - least), 0.05)
    losses = np.full(len(load), 0.5)
    slack = np.maximum(crossed.T @ losses - problem.phi(start * (least + x))[0] / level, 0.5)
    free = np.maximum(1 - load @ (least + x), 0.1)
    best, best_at, shrink = (x, losses, np.inf), 0, 0.3
    paths = np.arange(len(x))
    links = len(x) + np.arange(len(free))
    for step in range(MOST_STEPS):
        phi, jacobian = problem.phi(start * (least + x))
        phi, jacobian = phi / level, jacobian * start / level
        above, room = crossed.T @ losses - phi, 1 - load @ (least + x)
        pairs = np.concatenate([np.minimum(x, above / phi), np.minimum(losses, room)])
        residual = float(np.max(np.abs(pairs)))
        if residual < best[2]:
            best, best_at = (x, losses, residual), step
        if residual < TOLERANCE or step - best_at > PATIENCE:
            break

        target = shrink * float(x @ slack + losses @ free) / (len(x) + len(free))
        matrix = np.block([[-jacobian, crossed.T], [load, np.zeros((len(free), len(free)))]])
        matrix[paths, paths] += slack / x
        matrix[links, links] -= free / losses
        right = np.concatenate([target / x - above, room - target / losses])
        try:
            change = np.linalg.solve(matrix, right)
        except np.linalg.LinAlgError:
            break
        d_x, d_losses = change[: len(x)], change[len(x) :]
        d_slack = target / x - slack - slack / x * d_x
        d_free = target / losses - free - free / losses * d_losses
        moves = ((x, d_x), (losses, d_losses), (slack, d_slack), (free, d_free))
        length = min(stays_positive(value, change) for value, change in moves)
        x, losses = x + length * d_x, losses + length * d_losses
        slack, free = slack + length * d_slack, free + length * d_free
        shrink = next_shrink(length)
    return start * (least + best[0]), level * best[1], best[2]


ACCEPTED_RESIDUAL = 1e-8
ATTEMPTS = 10


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """Stationary windows; all users of a flow are alike."""

    network: Network
    """Network with one user for each flow, whose paths cross a link as often as the paths of all
    its users together."""
    users: Array
    """Number of users of each flow."""
    window: Array
    """Window of each path, packets."""
    rtt: Array
    """Round-trip time of each path, s."""
    loss: Array
    """Loss probability of each link. With equal RTTs its level depends on the RTT; rates do not."""
    residual: float
    """The largest relative violation of a pair of conditions (`complementarity`)."""

    @property
    def rate_mbps(self) -> Array:
        """Goodput of each path of one user."""
        return self.network.goodput_mbps(self.window / self.rtt)

    @property
    def path_loss(self) -> Array:
        """Loss probability of each path."""
        return np.asarray(self.network.routes.T @ self.loss / self.users[self.network.user_of_path])

    def paths(self) -> pd.DataFrame:
        """Per flow and path of one user: `rate_mbps`, `window`, `rtt_ms`, `loss`."""
        network = self.network
        user = network.user_of_path
        return pd.DataFrame(
            {
                "flow": np.array(network.flows, dtype=object)[user],
                "users": self.users[user],
                "path": np.arange(network.paths) - network.starts[:-1][user],
                "rate_mbps": self.rate_mbps,
                "window": self.window,
                "rtt_ms": self.rtt * 1e3,
                "loss": self.path_loss,
            }
        )

    def links(self) -> pd.DataFrame:
        """Per link: `capacity_mbps` and `load_mbps` of goodput, and `loss`."""
        network = self.network
        return pd.DataFrame(
            {
                "link": list(network.links),
                "capacity_mbps": network.goodput_mbps(network.capacity),
                "load_mbps": network.routes @ self.rate_mbps,
                "loss": self.loss,
            }
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "residual": self.residual,
            "flows_mbps": self.user_mbps(),
            "paths": self.paths().to_dict(orient="records"),
            "links": self.links().to_dict(orient="records"),
        }

    def user_mbps(self) -> dict[str, float]:
        """Goodput of a user of each flow."""
        totals = self.network.sums @ self.rate_mbps
        return dict(zip(self.network.flows, map(float, totals), strict=True))


def fixed_point_of(
    scenario: Scenario, algorithm: str, interval: Interval, rtt_s: float | None, probing: bool
) -> FixedPoint:
    """The fixed point in one interval of a scenario, raising as `fixed_point` does.

    `algorithm` is for flows without one of their own. `probing`: a least window of 1 packet.
    """
    check(scenario, "fixed point")
    there = Network.of(scenario, algorithm).of_paths(interval.present)
    found = fixed_point(there, rtt_s, 1.0 if probing else 0.0)
    check_buffer(scenario, "fixed point", found.network, found.window)
    return found


def fixed_point(
    network: Network, rtt_s: float | None = None, least_window: float = 0.0
) -> FixedPoint:
    """The fixed point of a network's rules.

    `rtt_s`: of every path; by default its base RTT, as if queues were short. `least_window`:
    packets, 1 where every path is probed.

    Raises `ScenarioError` for a rule whose phi depends on more than windows and RTTs, and
    `NotConverged`.
    """
    one, users = _one_user_per_flow(network)
    rtt = one.base_rtt if rtt_s is None else np.full(one.paths, rtt_s)
    problem = Complementarity(
        phi=_phi(one, rtt),
        load=(one.routes / one.capacity[:, None] / rtt).toarray(),
        crossed=(one.routes / users[one.user_of_path]).toarray(),
        least=least_window,
    )
    crossing = np.maximum(one.routes.sum(axis=1), 1)
    share = of_each(np.minimum, sparse.csr_array(one.routes.T), one.capacity / crossing)
    start = np.maximum(share * rtt, 1.1 * least_window)
    rng, least_residual = np.random.default_rng(1), np.inf
    for attempt in range(ATTEMPTS):  # kinks of a rule can stop a search
        elsewhere = start * np.exp(0.3 * attempt * rng.standard_normal(len(start)))
        window, loss, residual = solve(problem, elsewhere)
        if residual <= ACCEPTED_RESIDUAL:
            return FixedPoint(one, users, window, rtt, loss, residual)
        least_residual = min(residual, least_residual)
    raise NotConverged(
        f"no fixed point found from {ATTEMPTS} starts: the least residual is {least_residual:.1e}",
        least_residual,
    )


def is_by_loss(spec: str) -> bool:
    """Whether windows and RTTs alone give phi: the table of rules says so of each rule."""
    return bool(row(spec)["equilibrium_by_loss"])


def _one_user_per_flow(network: Network) -> tuple[Network, Array]:
    """A network in which the first user of each flow represents all, and their numbers."""
    flows = list(dict.fromkeys(network.flows))
    first = np.array([network.flows.index(flow) for flow in flows])
    users = np.array([network.flows.count(flow) for flow in flows])
    one = network.of_paths(np.isin(network.user_of_path, first))
    times = sparse.diags_array(users[one.user_of_path].astype(float))
    return replace(one, routes=sparse.csr_array(one.routes @ times)), users


def _phi(network: Network, rtt: Array) -> Callable[[Array], tuple[Array, Array]]:
    """phi of every path and its Jacobian in the windows, as a function of the windows."""
    laws = list(_laws(network))

    def of(window: Array) -> tuple[Array, Array]:
        phi, jacobian = np.empty(len(window)), np.zeros((len(window), len(window)))
        for law, starts, own in laws:
            # The best paths have the largest windows, so that OLIA's alpha is 0, as at its fixed
            # point: a nonzero alpha moves windows.
            w, t = window[own], rtt[own]
            states = States(starts, w, t, t, np.zeros_like(t), w * t**2)
            phi[own] = law.phi(states)
            jacobian[np.ix_(own, own)] = law.phi_derivatives(states, "window").toarray()
        return phi, jacobian

    return of


def _laws(network: Network) -> Iterator[tuple[Law, Array, Array]]:
    """Each rule, where the paths of its users start, and which paths they are."""
    algorithms = np.array(network.algorithms, dtype=object)
    sizes = np.diff(network.starts)
    for name in dict.fromkeys(network.algorithms):
        if not is_by_loss(name):
            known = ", ".join(rule["name"] for rule in rules() if rule["equilibrium_by_loss"])
            raise ScenarioError(
                f"{name} has no fixed point by losses alone: expected one of {known}"
            )
        own = algorithms == name
        starts = np.concatenate([[0], np.cumsum(sizes[own])]).astype(np.int64)
        yield Law(name), starts, np.flatnonzero(own[network.user_of_path])
