"""The record of a fluid run: paths and links at moments in time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from anabranch.theory.array import Array

Watch = Callable[[float], None]
"""Called with the simulated time, s, now and then; it may raise to stop a run."""


class State(Protocol):
    """Paths and links at one time, or in the mean over a time; the units are those of `Moment`."""

    @property
    def window(self) -> Array: ...
    @property
    def rate(self) -> Array: ...
    @property
    def rtt(self) -> Array: ...
    @property
    def path_loss(self) -> Array: ...
    @property
    def waiting(self) -> Array: ...
    @property
    def loss(self) -> Array: ...
    @property
    def load(self) -> Array: ...


@dataclass(frozen=True, eq=False)
class Moment:
    """The state at one time, s. Paths that do not send have rate 0; their other values are NaN."""

    time: float
    window: Array
    rate: Array
    rtt: Array
    path_loss: Array
    waiting: Array
    """Queue of each link, packets."""
    loss: Array
    """Probability that the queue of each link drops a packet."""
    load: Array
    """Rate offered to each link, packets/s."""
    served: Array
    """Rate that leaves the queue of each link, packets/s."""

    @classmethod
    def of(cls, time: float, sending: Array, point: State, served: Array) -> "Moment":
        """From the state of the paths that send."""

        def spread(values: Array, elsewhere: float) -> Array:
            whole = np.full(len(sending), elsewhere)
            whole[sending] = values
            return whole

        return cls(
            time=time,
            window=spread(point.window, np.nan),
            rate=spread(point.rate, 0.0),
            rtt=spread(point.rtt, np.nan),
            path_loss=spread(point.path_loss, np.nan),
            waiting=point.waiting,
            loss=point.loss,
            load=point.load,
            served=served,
        )


class History:
    """Moments in order of time; two at one time where a value is discontinuous."""

    def __init__(self, sample_s: float) -> None:
        self.sample_s = sample_s
        self._moments: list[Moment] = []

    def add(self, moment: Moment) -> None:
        """Append a moment, not earlier than the last one."""
        self._moments.append(moment)

    def samples(self, begin: float, end: float) -> Array:
        """The times in [begin, end] at which samples are due."""
        first, last = np.ceil(begin / self.sample_s), np.floor(end / self.sample_s)
        return np.arange(first, last + 1) * self.sample_s

    @property
    def time(self) -> Array:
        return np.array([moment.time for moment in self._moments])

    def column(self, name: str) -> Array:
        """Moments by paths or links."""
        return np.array([getattr(moment, name) for moment in self._moments])
