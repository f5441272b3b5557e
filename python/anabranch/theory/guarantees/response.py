"""The stationary rates of a user under given prices: the solution of phi_r(x) = q_r."""

import numpy as np

from anabranch.theory.array import Array
from anabranch.theory.guarantees.random_states import by_user
from anabranch.theory.law import Law, States

UNUSED = 1e-4
"""A path with less than this part of its user's rate counts as unused."""

ACCURACY = 1e-6
"""Accuracy of `log phi_r - log q_r` on a path in use."""

STEPS = 3000


def rates_at(law: Law, states: States) -> tuple[Array, Array]:
    """Rates at the prices `q_r = 1 / loss_interval`, packets/s, and which users' rates were found.

    Balia, equation 6: `phi_r = q_r` on paths in use, `phi_r <= q_r` on the others. Each user
    follows its rule's own drift in `log x_r` from the rate of one Reno, shared almost evenly over
    its paths, with steps that grow while the drift keeps its sign and shrink where it changes. So
    of several solutions it finds a stable one.
    """
    log_price = -np.log(states.loss_interval)
    users = np.diff(states.starts)
    reno = np.sqrt(2 * states.loss_interval) / states.rtt
    uneven = 1 + 0.01 * (np.arange(len(reno)) - np.repeat(states.starts[:-1], users))
    log_rate = np.log(reno / np.repeat(users, users) / uneven)
    step, before = np.full(len(log_rate), 0.5), np.zeros(len(log_rate))
    for i in range(STEPS):
        rate = np.exp(log_rate)
        phi = law.phi(states.with_rate(rate))
        drift = np.log(np.maximum(phi, 1e-300)) - log_price
        share = by_user(states, rate) / by_user(states, rate).sum(axis=1, keepdims=True)
        unused = (share.ravel() < UNUSED) & (drift < ACCURACY)
        found = by_user(states, (np.abs(drift) < ACCURACY) | unused).all(axis=1)
        if i % 10 == 0 and found.all():
            break
        step = np.where(drift * before < 0, step / 2, 1.1 * step)
        before = drift
        log_rate = np.maximum(log_rate + np.clip(step * drift, -2, 2), np.log(reno) - 30)
    return rate, np.asarray(found)
