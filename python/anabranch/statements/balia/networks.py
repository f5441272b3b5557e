"""Random networks of users of one rule, their equilibria (6), (7) and trajectories (3), (4).

Peng, Walid, Hwang, Low, section II-A. Rates are packets/s, prices loss probabilities.
"""

from dataclasses import dataclass

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares

from anabranch.theory.array import Array
from anabranch.theory.guarantees.performance import gain
from anabranch.theory.law import Law, States

RESIDUAL = 1e-8
"""Largest residual of (6) and (7), relative, of a point that counts as an equilibrium."""

NEAR = 1e-3
"""Distance from the equilibrium at which a trajectory has arrived."""

SOFT = 1e-4
"""Softening of a price, as a share of its scale: far less than `NEAR`."""

RESPONSES = 2000.0
"""The longest trajectory, in response times."""


@dataclass(frozen=True, eq=False)
class Net:
    """Links, and users whose paths have one RTT per user."""

    routes: Array
    """H: links by paths, of full row rank."""
    capacity: Array
    """c, packets/s."""
    starts: Array
    """The paths of user s are those from `starts[s]` to `starts[s + 1]`."""
    rtt: Array
    """Round-trip time of each path, s."""

    def states(self, rate: Array) -> States:
        """The users with these rates."""
        idle = np.zeros_like(self.rtt)
        interval = np.full_like(self.rtt, 100.0)
        return States(self.starts, rate * self.rtt, self.rtt, self.rtt, idle, interval)

    def phi(self, law: Law, rate: Array) -> Array:
        """Phi(x)."""
        return law.phi(self.states(rate))

    def price_scale(self, law: Law) -> Array:
        """Scale of each link's price: phi of a single path that has all its capacity at the
        shortest RTT."""
        rtt = np.full_like(self.capacity, self.rtt.min())
        each = np.arange(len(self.capacity) + 1, dtype=np.int64)
        alone = States(each, self.capacity * rtt, rtt, rtt, 0 * rtt, 0 * rtt + 100.0)
        return law.phi(alone)

    @property
    def share(self) -> Array:
        """Even share of its narrowest link, of each path, packets/s."""
        even = self.capacity / self.routes.sum(axis=1)
        return np.asarray(np.where(self.routes > 0, even[:, None], np.inf).min(axis=0))


def draw(dice: np.random.Generator) -> Net:
    """One to four links, one to four users with one to three paths of one or two links each."""
    while True:
        links = int(dice.integers(1, 5))
        sizes = dice.integers(1, 4, int(dice.integers(1, 5)))
        paths = int(sizes.sum())
        routes = np.zeros((links, paths))
        for path in range(paths):
            crossed = dice.choice(links, int(dice.integers(1, min(2, links) + 1)), replace=False)
            routes[crossed, path] = 1.0
        if np.linalg.matrix_rank(routes) == links:
            break
    rtt = np.repeat(10 ** dice.uniform(-2, -0.5, len(sizes)), sizes)
    capacity = 10 ** dice.uniform(2, 4, links)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Net(routes, capacity, starts, rtt)


@dataclass(frozen=True, eq=False)
class Point:
    """Rates and prices."""

    rate: Array
    price: Array


def equilibrium(net: Net, law: Law, dice: np.random.Generator) -> Point | None:
    """A solution of (6) and (7) from a random start, stable or not; None if none was found.

    Each pair `a >= 0, b >= 0, a b = 0` is Fischer's equation `a + b = sqrt(a^2 + b^2)`, solved by
    least squares in the logarithms of the rates.
    """
    scale, paths = net.price_scale(law), len(net.rtt)

    def residual(unknown: Array) -> Array:
        rate, price = net.share * np.exp(unknown[:paths]), scale * unknown[paths:]
        phi = net.phi(law, rate)
        above = (net.routes.T @ price - phi) / phi
        room = 1 - net.routes @ rate / net.capacity
        pairs = _fischer(np.exp(unknown[:paths]), above), _fischer(unknown[paths:], room)
        return np.concatenate(pairs)

    start = np.concatenate([dice.normal(0, 1, paths), np.exp(dice.normal(0, 1, len(scale)))])
    found = least_squares(residual, start, xtol=1e-15, ftol=1e-15, gtol=1e-15, max_nfev=400)
    if np.abs(found.fun).max() > RESIDUAL:
        return None
    return Point(net.share * np.exp(found.x[:paths]), scale * np.maximum(found.x[paths:], 0.0))


def _fischer(a: Array, b: Array) -> Array:
    return np.asarray(a + b - np.hypot(a, b))


def distance(net: Net, law: Law, one: Point, other: Point) -> float:
    """The largest difference of a rate over its path's even share, or of a price over its scale."""
    rates = np.abs(one.rate - other.rate) / net.share
    prices = np.abs(one.price - other.price) / net.price_scale(law)
    return float(max(rates.max(), prices.max()))


def lyapunov_rate(net: Net, law: Law, here: Point, at: Point) -> float:
    """dV/dt of (21) at `here`, for the equilibrium `at`; 1/s, relative to its terms' size."""
    drift = net.phi(law, here.rate) - net.routes.T @ here.price
    excess = net.routes @ here.rate - net.capacity
    excess = np.where(here.price > 0, excess, np.maximum(excess, 0.0))
    terms = np.concatenate([(here.rate - at.rate) * drift, (here.price - at.price) * excess])
    return float(terms.sum() / np.abs(terms).sum())


def trajectory_end(net: Net, law: Law, start: Point, at: Point, speed: float) -> Point:
    """Where (3) and (4) lead from there: within `NEAR` of `at`, or after `RESPONSES` times.

    Time is in units of the window of the largest path times its RTT, in which a rate responds.
    `speed`: by how much of its scale a link's price rises in one, if its load is twice its
    capacity; gamma_l of (4) follows.
    """
    scale, paths = net.price_scale(law), len(net.rtt)
    response = float((at.rate * net.rtt**2).max())

    def point(unknown: Array) -> Point:
        price = scale * np.maximum(unknown[paths:], 0.0)
        log_rate = np.clip(unknown[:paths], -100.0, 100.0)  # a step that is too long is rejected
        return Point(net.share * np.exp(log_rate), price)

    def change(_: float, unknown: Array) -> Array:
        here = point(unknown)
        states = net.states(here.rate)
        drift = gain(law, states) * (law.phi(states) - net.routes.T @ here.price) / here.rate
        excess = net.routes @ here.rate / net.capacity - 1
        # Below 0, where the price is 0, the unknown stops within `SOFT`: no jump for the solver.
        rising = np.maximum(excess, -1 - unknown[paths:] / SOFT)
        return np.concatenate([response * drift, speed * rising])

    def arrived(_: float, unknown: Array) -> float:
        return distance(net, law, point(unknown), at) - NEAR

    arrived.terminal = True  # type: ignore[attr-defined]
    first = np.concatenate([np.log(start.rate / net.share), start.price / scale])
    solved = solve_ivp(
        change, (0.0, RESPONSES), first, method="LSODA", rtol=1e-6, atol=1e-8, events=arrived
    )
    return point(solved.y[:, -1])


def random_point(net: Net, law: Law, dice: np.random.Generator) -> Point:
    """Rates up to a hundred times the even share or less, prices likewise; some prices are 0."""
    spread = np.log(100.0)
    rate = net.share * np.exp(dice.uniform(-spread, spread, len(net.rtt)))
    price = net.price_scale(law) * np.exp(dice.uniform(-spread, spread, len(net.capacity)))
    return Point(rate, np.where(dice.random(len(price)) < 0.2, 0.0, price))
