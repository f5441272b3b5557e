"""Friendliness, responsiveness and oscillation of a rule, in the two networks of Balia's paper."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import brentq

from anabranch.scenario import ScenarioError
from anabranch.theory.array import Array
from anabranch.theory.guarantees import random_states
from anabranch.theory.guarantees.conditions import phi_jacobian, rates_at
from anabranch.theory.law import Law, States

RENO = Law("reno")

CAPACITY = 1250.0
"""packets/s: the 10 Mbps of the paper's section V-A with packets of 1000 bytes."""

USERS = 5
"""Multipath users, and as many of NewReno, in the network of figure 2."""

RTT = 0.04
"""s: twice the 20 ms that the paper gives as the delay of a link."""

GAMMA = 1e-5
"""Gain of a link's price on its excess traffic, 1/packet; the paper gives no value."""


def share_of_bottleneck(spec: str, rtt: list[float], reno_rtt: float = RTT) -> float:
    """The share of a bottleneck that a multipath user gets beside one NewReno flow.

    Balia, figure 1 and section III-D: every path crosses the bottleneck, so all see one price.
    A rule is friendlier than another if it gets less. Of several equilibria, a stable one.
    """
    law, taus = Law(spec), np.array(rtt)

    def rates(log_price: float) -> tuple[float, float]:
        price = np.exp(log_price)
        here = States.of_user(np.ones_like(taus), taus, loss_probability=price)
        rate, found = rates_at(law, here)
        if not found.all():
            raise ScenarioError(f"{law.name} has no equilibrium at the price {price:.4g}")
        alone = States.of_user([1.0], [reno_rtt], loss_probability=price)
        return float(rate.sum()), float(rates_at(RENO, alone)[0][0])

    log_price = brentq(lambda q: sum(rates(q)) - CAPACITY, np.log(1e-9), np.log(10.0))
    return rates(log_price)[0] / CAPACITY


@dataclass(frozen=True)
class Sharing:
    """The equilibrium in the network of figure 2: multipath users on two links of the same rate,
    and as many NewReno users on the second. Rates are packets/s.
    """

    law: Law
    multipath: States
    """One multipath user: its path on the first link, then on the second."""
    reno: float

    @property
    def friendliness(self) -> float:
        """Rate of a NewReno user over the rate of an even share."""
        return self.reno * USERS / CAPACITY

    @property
    def price(self) -> Array:
        return self.law.phi(self.multipath)

    @property
    def gain(self) -> Array:
        """`k_r = x_r D_r / tau_r` (5)."""
        return gain(self.law, self.multipath)

    @property
    def responsiveness(self) -> float:
        """1/s: the decay of the slowest mode at the equilibrium, with its prices held.

        From the eigenvalues of `Lambda_k dPhi/dx`. With two or more equal users they
        are among those of the whole linearised system (10), for any gamma: the modes in which one
        user gains what another loses. 0 where a path is not used at all.
        """
        own = self.gain[:, None] * phi_jacobian(self.law, self.multipath)[0]
        slowest = float(np.linalg.eigvals(own).real.max())
        return 0.0 - round(slowest, 12)  # without the rounding of a 0

    @property
    def oscillation(self) -> float:
        """The part of its rate that a multipath user loses at a loss, (11); NewReno's is 1/2."""
        return oscillation(self.law, self.multipath)

    def as_dict(self) -> dict[str, Any]:
        return asdict(Measures.of(self))


@dataclass(frozen=True)
class Measures:
    """The three measures of a rule."""

    friendliness: float
    responsiveness_per_s: float
    oscillation: float

    @classmethod
    def of(cls, sharing: Sharing) -> "Measures":
        return cls(sharing.friendliness, sharing.responsiveness, sharing.oscillation)


def sharing(spec: str) -> Sharing:
    """Find that equilibrium: the rate on the second link is a root of one equation.

    On the first link each multipath user has its part of the capacity. A path whose phi is below
    its price even when nearly idle stays nearly idle.
    """
    law, first = Law(spec), CAPACITY / USERS
    rtts = np.full((1, 2), RTT)

    def user(second: float) -> States:
        return random_states.plain(np.array([[first, second]]) * RTT, rtts)

    def too_cheap(log_second: float) -> float:
        second = float(np.exp(log_second))
        alone = States.of_user([(first - second) * RTT], [RTT])
        ratio = law.phi(user(second))[1] / RENO.phi(alone)[0]
        return float(np.log(max(ratio, 1e-300)))

    idle, full = np.log(1e-6 * first), np.log((1 - 1e-9) * first)
    used = too_cheap(idle) > 0
    log_second = brentq(too_cheap, idle, full, xtol=1e-12) if used else idle
    second = float(np.exp(log_second))
    found = Sharing(law, user(second), first - second)
    if not (found.price > 0).all():
        raise ScenarioError(
            f"{law.name}: phi is not positive there, so no price makes it stationary"
        )
    return found


def gain(law: Law, states: States) -> Array:
    """`k_r = x_r D_r / tau_r` of Balia's (5), packets^2/s^2."""
    return np.asarray(states.rate * law.evaluate(states)[1] / states.rtt)


def oscillation(law: Law, states: States) -> float:
    """(11) for one user whose prices are its phi."""
    return float(oscillations(law, states)[0])


def oscillations(law: Law, states: States) -> Array:
    """(11) for each user: `(1/|x|_1) sum(tau q k) / sum(tau q x)`, with q = phi."""
    weight = states.rtt * law.phi(states)
    lost, sent, rate = (
        random_states.by_user(states, column).sum(axis=1)
        for column in (weight * gain(law, states), weight * states.rate, states.rate)
    )
    return np.asarray(lost / sent / rate)


def linearised(jacobian: Array, gains: Array, routes: Array, gamma: float = GAMMA) -> Array:
    """J* of (10), of rates and prices: `[[K dPhi/dx, -K H'], [gamma H, 0]]`."""
    links = len(routes)
    above = np.hstack([gains[:, None] * jacobian, -gains[:, None] * routes.T])
    return np.vstack([above, np.hstack([gamma * routes, np.zeros((links, links))])])


def abscissa(matrix: Array) -> float:
    """The largest real part of its eigenvalues."""
    return float(np.linalg.eigvals(matrix).real.max())


def bound_of_theorem_3_5(jacobian: Array, gains: Array, links: int, gamma: float = GAMMA) -> float:
    """The bound on Re(lambda): the largest Rayleigh quotient over (x, p) with so many links.

    That is the largest eigenvalue of `[dPhi/dx]^+` against `K^-1`, beside the prices' 0.
    """
    paths = len(gains)
    above = np.zeros((paths + links, paths + links))
    above[:paths, :paths] = (jacobian + jacobian.T) / 2
    weights = np.concatenate([1 / np.maximum(gains, 1e-12), np.full(links, 1 / gamma)])
    return float(eigh(above, np.diag(weights), eigvals_only=True)[-1])


def largest_oscillation(spec: str) -> float:
    """The largest (11) among 2000 random users with three paths of equal RTTs."""
    law = Law(spec)
    drawn = random_states.draw(3, 2000, 1.0, np.random.default_rng(1))
    return float(oscillations(law, drawn).max())
