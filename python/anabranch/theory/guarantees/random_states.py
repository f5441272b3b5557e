"""States of many users with the same number of paths: drawn at random, selected, rounded."""

from enum import Enum

import numpy as np

from anabranch.theory.array import Array
from anabranch.theory.law import Law, States

SHORTEST_RTT = 0.2
"""s. Long enough that half of an RTT of queueing is more than RSF-DB's target."""

SLOWEST_RATE = 10.0
"""packets/s."""

DECADES = 3.0
"""Powers of ten by which a user's fastest path may be faster than its slowest."""


def states(window: Array, rtt: Array, queue_delay: Array, loss_probability: Array) -> States:
    """States from tables with a row for each user and a column for each of its paths."""
    users, paths = window.shape
    starts = np.arange(users + 1, dtype=np.int64) * paths
    columns = (window, rtt, rtt - queue_delay, queue_delay, 1.0 / loss_probability)
    return States(starts, *(np.ascontiguousarray(column).ravel() for column in columns))


def by_user(states: States, column: Array) -> Array:
    """A column as a table: a row for each user, who all have the same number of paths."""
    return column.reshape(len(states.starts) - 1, -1)


def plain(window: Array, rtt: Array) -> States:
    """States with empty queues and 100 packets between losses."""
    return states(window, rtt, np.zeros_like(rtt), np.full_like(rtt, 0.01))


def draw(paths: int, users: int, rtt_ratio: float, rng: np.random.Generator) -> States:
    """Random users: rates spread over up to three decades, RTTs within the ratio.

    Half of the RTTs are the shortest or the longest allowed, where the conditions break first.
    """
    shape = (users, paths)
    spread = rng.uniform(0, DECADES, (users, 1))
    rate = SLOWEST_RATE * 10 ** (spread * rng.random(shape))
    place = rng.random(shape)
    place = np.where(rng.random(shape) < 0.5, np.round(place), place)
    rtt = SHORTEST_RTT * rtt_ratio**place
    queue_delay = 0.9 * rtt * rng.random(shape)
    return states(rate * rtt, rtt, queue_delay, 10 ** rng.uniform(-5, -1, shape))


def pick(all_states: States, users: Array) -> States:
    """Some users of many, by index or by mask."""
    table = [by_user(all_states, column)[users] for column in all_states.columns()[1:]]
    window, rtt, _, queue_delay, loss_interval = table
    return states(window, rtt, queue_delay, 1.0 / loss_interval)


class Rest(Enum):
    """Columns that rounded states keep beside window and RTT; the others have `plain`'s values."""

    NONE = 0
    LOSSES = 1
    ALL = 2


def rounded(all_states: States, digits: int, rest: Rest) -> States:
    """States rounded to `digits` significant digits."""
    columns = [by_user(all_states, _round(column, digits)) for column in all_states.columns()[1:]]
    window, rtt, _, queue_delay, _ = columns
    if rest is Rest.NONE:
        return plain(window, rtt)
    loss_probability = by_user(all_states, _round(1.0 / all_states.loss_interval, digits))
    if rest is Rest.LOSSES:
        return states(window, rtt, np.zeros_like(rtt), loss_probability)
    return states(window, rtt, np.minimum(queue_delay, 0.9 * rtt), loss_probability)


def distinct(rates: Array) -> Array:
    """Mask of the users that have no two paths with the same rate."""
    ordered = np.sort(rates, axis=1)
    return np.asarray((ordered[:, 1:] > 1.001 * ordered[:, :-1]).all(axis=1))


def rtt_ratio(all_states: States) -> Array:
    """Longest over shortest RTT of each user."""
    rtt = by_user(all_states, all_states.rtt)
    return np.asarray(rtt.max(axis=1) / rtt.min(axis=1))


def with_prices(law: Law, all_states: States) -> Array:
    """Mask of the users that could be stationary: every phi of theirs is positive and finite."""
    phi = by_user(all_states, law.phi(all_states))
    return np.asarray(((phi > 0) & np.isfinite(phi)).all(axis=1))


def _round(column: Array, digits: int) -> Array:
    exponent = np.floor(np.log10(np.where(column > 0, column, 1.0)))
    unit = 10.0 ** (exponent - digits + 1)
    # Divided by a power of ten where that is exact, so that 0.3 comes out as 0.3.
    steps = np.round(column / unit)
    return np.asarray(np.where(unit < 1, steps / np.round(1 / np.minimum(unit, 1)), steps * unit))
