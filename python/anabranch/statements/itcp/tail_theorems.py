"""Tails of processor sharing: theorems 1 to 5 of the I-TCP paper for Pareto sizes.

Times are seconds at the full rate of the server, loads are shares of it. A tail index is positive
here: P(X > x) falls as x^-index. For misprints see papers/itcp/errata.toml.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import quad
from scipy.optimize import brentq

from anabranch.scenario import ScenarioError
from anabranch.theory.array import Array


@dataclass(frozen=True)
class Traffic:
    """A Poisson stream of files with Pareto sizes."""

    load: float
    """rho: service that arrives per second."""
    mean_s: float
    """Mean service time."""
    shape: float
    """nu: P(B > x) = (smallest / x)^shape."""

    @property
    def smallest_s(self) -> float:
        """The smallest service time."""
        return self.mean_s * (1 - 1 / self.shape)

    @property
    def arrivals_per_s(self) -> float:
        """lambda."""
        return self.load / self.mean_s


PAPER = (Traffic(0.52, 0.052, 2.5), Traffic(0.24, 0.024, 1.2))
"""Section IV-A: 10 files/s of 65 000 and of 30 000 bytes at 10 Mbps."""


def check(traffic: tuple[Traffic, ...]) -> None:
    """Raise `ScenarioError` for a queue that has no steady state, or sizes without a mean."""
    for number, one in enumerate(traffic, 1):
        if not one.load > 0:
            raise ScenarioError(f"load {one.load:g} of class {number}: expected more than 0")
        if not 1 < one.shape < np.inf:
            raise ScenarioError(
                f"shape {one.shape:g} of class {number}: Pareto sizes have a finite mean only "
                "above 1; expected a number above 1"
            )
    total = sum(one.load for one in traffic)
    if not total < 1:
        raise ScenarioError(
            f"loads that add up to {total:g}: the queue grows without bound; expected less than 1"
        )


def size_tail(traffic: Traffic, x: ArrayLike) -> Array:
    """P(B > x)."""
    ratio = traffic.smallest_s / np.maximum(np.asarray(x, dtype=float), traffic.smallest_s)
    return np.asarray(ratio**traffic.shape)


def residual_tail(traffic: Traffic, x: ArrayLike) -> Array:
    """P(B^r > x): of the residual lifetime, whose density is P(B > x) / E[B]."""
    x = np.asarray(x, dtype=float)
    below = np.minimum(x, traffic.smallest_s)
    ratio = traffic.smallest_s / np.maximum(x, traffic.smallest_s)
    above = ratio ** (traffic.shape - 1) / traffic.shape
    return np.asarray(np.where(x < traffic.smallest_s, 1 - below / traffic.mean_s, above))


def residual_busy_tail(traffic: Traffic, x: ArrayLike, rate: float) -> Array:
    """P(W^r > x) of the residual busy period of a queue served at `rate`: theorem 4, asymptotic."""
    spare = rate - traffic.load
    tail = rate / spare * residual_tail(traffic, np.asarray(x, dtype=float) * spare)
    return np.minimum(1.0, tail)


def theorem1(traffic: Traffic, load: float, x: ArrayLike) -> Array:
    """P(S > x) in an M/G/1 processor-sharing queue of this total load, asymptotic: (1)."""
    return size_tail(traffic, (1 - load) * np.asarray(x, dtype=float))


def is_induced(first: Traffic, second: Traffic, share: float) -> bool:
    """Whether theorems 2 and 3 apply: class 1 has less rate than load, class 2 the heavier tail."""
    return share < first.load and second.shape < first.shape


def theorem2(first: Traffic, second: Traffic, share: float, x: ArrayLike) -> Array:
    """P(V1 > x) of the workload of class 1 with a guaranteed rate `share`, asymptotic: (2)."""
    other = 1 - share
    spare = 1 - first.load - second.load
    factor = (other - second.load) / other * second.load / spare
    busy_s = np.asarray(x, dtype=float) / (first.load - share)
    return np.asarray(factor * residual_busy_tail(second, busy_s, other))


def theorem2_within(
    first: Traffic, second: Traffic, share: float, x: ArrayLike, duration_s: float
) -> Array:
    """Theorem 2 in a run of this length that begins empty; not in the paper.

    V1 > x needs a busy period of class 2 that has lasted for x / (rho1 - phi1). By the time t one
    can have lasted no longer than t, so that the tail beyond is missing; averaged over the run.
    """
    moments = (np.arange(1000) + 0.5) / 1000 * duration_s
    missing = theorem2(first, second, share, moments * (first.load - share))
    seen = theorem2(first, second, share, x)[..., None] - missing
    return np.asarray(np.maximum(0.0, seen).mean(axis=-1))


def growth_per_s(traffic: Traffic, rate: float) -> float:
    """Customers by which a processor-sharing queue grows per second if `rate` < load.

    The root alpha > 0 of alpha = lambda (1 - E exp(-alpha B / rate)): theorem 5, served at `rate`.
    At least 1e-9 lambda, from where it is not distinguishable from 0.
    """

    def excess(alpha: float) -> float:
        s = alpha * traffic.smallest_s / rate

        def served(t: float) -> float:  # B = smallest exp(t / shape) for an exponential t
            return -math.expm1(-s * math.exp(min(t / traffic.shape, 700.0))) * math.exp(-t)

        return float(traffic.arrivals_per_s * quad(served, 0, np.inf)[0] - alpha)

    # Near 0 the excess is alpha (load / rate - 1) > 0, at lambda it is negative.
    least = 1e-9 * traffic.arrivals_per_s
    if excess(least) <= 0:
        return least
    return float(brentq(excess, least, traffic.arrivals_per_s))


def theorem3(first: Traffic, second: Traffic, share: float, x: ArrayLike) -> Array:
    """The lower bound on P(S1 > x), asymptotic: (17) for t0 = 0 and epsilon, zeta to 0.

    A file of class 1 arrives while class 2 is busy, which stays busy for x; meanwhile the
    queue grows by alpha per second and the file gets phi1 / (1 + alpha s) of the server.
    """
    alpha = growth_per_s(first, share)
    x = np.asarray(x, dtype=float)
    needed_s = share / alpha * np.log1p(alpha * x)
    busy = second.load * residual_busy_tail(second, x, rate=1.0)
    return np.asarray(busy * size_tail(first, needed_s))
