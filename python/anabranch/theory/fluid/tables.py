"""The record of a fluid run, and the seven tables of a Result that are made of it.

Their columns are those of crates/model/scenario. Values that a fluid lacks: `timeouts`,
`spurious_timeouts`, `lost_down`, `buffer_packets` and `kappa` are 0; every lost packet counts as
retransmitted; loss events are losses, at most one per round trip.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.integrate import cumulative_trapezoid

from anabranch.scenario import Scenario
from anabranch.theory.array import Array
from anabranch.theory.network import Network
from anabranch.theory.schedule import Schedule

# The record of a fluid run: paths and links at moments in time.


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


Columns = dict[str, Any]


def tables(
    scenario: Scenario, network: Network, schedule: Schedule, history: History
) -> dict[str, Columns]:
    """The tables by name, each a dict of columns; totals are over [warmup_s, duration_s]."""
    return _Record(scenario, network, schedule, history).tables()


class _Record:
    """Integrals over time of rates and losses."""

    def __init__(
        self, scenario: Scenario, network: Network, schedule: Schedule, history: History
    ) -> None:
        self.scenario, self.network, self.schedule = scenario, network, schedule
        self.time, self.column = history.time, history.column
        self.begin, self.end = scenario.warmup_s, scenario.duration_s
        self.span = self.end - self.begin
        self.sample_times = history.samples(0.0, self.end)[1:]
        self.users, self.payload = network.user_of_path, network.payload_bits / 8
        plain = scenario.network()
        flows = [(flow["name"], k) for flow in plain["flows"] for k in range(flow["count"])]
        self.flow_of_user = [name for name, _ in flows]
        self.number_of_user = np.array([k for _, k in flows], dtype=np.int64)
        self.number_of_path = np.arange(network.paths) - network.starts[self.users]
        users = [flow for flow in plain["flows"] for _ in range(flow["count"])]
        returns = [path["return_delay_ms"] for flow in users for path in flow["paths"]]
        self.return_ms = np.array(returns)
        self.losses = self._losses()
        rate = self.column("rate")
        lost = rate * np.nan_to_num(self.column("path_loss"))
        self.sent, self.lost = self._sum(rate), self._sum(lost)
        self.arrived = self._sum(rate - lost) * self.payload
        rtt = np.nan_to_num(self.column("rtt"))
        self.rtt_time = self._sum((rate - lost) * rtt)
        with np.errstate(divide="ignore"):
            self.events = self._sum(np.minimum(lost, np.where(rtt > 0, 1 / rtt, 0.0)))

    def tables(self) -> dict[str, Columns]:
        """All seven."""
        return {
            "flows": self._flows(),
            "paths": self._paths(),
            "links": self._links(),
            "transfers": self._transfers(),
            "flow_samples": self._flow_samples(),
            "path_samples": self._path_samples(),
            "link_samples": self._link_samples(),
        }

    def _flows(self) -> Columns:
        sums = self.network.sums
        delivered = _whole(sums @ self._total(self.arrived))
        lost = _whole(sums @ self._total(self.lost))
        done, stop = self._done(), self._stop()
        none = np.zeros(self.network.users, dtype=np.int64)
        return {
            "flow": self.flow_of_user,
            "rule": list(self.network.algorithms),
            "user": self.number_of_user,
            "start_s": self.schedule.start_s,
            "stop_s": stop,
            "goodput_mbps": sums @ self._total(self.arrived) * 8e-6 / self.span,
            "delivered_bytes": delivered,
            "sent_packets": _whole(sums @ self._total(self.sent)),
            "lost_packets": lost,
            "marked_packets": none,
            "retransmitted_packets": lost,
            "timeouts": none,
            "spurious_timeouts": none,
            "transfers_done": (done & (stop > self.begin)).astype(np.int64),
        }

    def _paths(self) -> Columns:
        sent, lost, arrived = (self._total(part) for part in (self.sent, self.lost, self.arrived))
        seconds = self._total(self.rtt_time)
        none = np.zeros(self.network.paths, dtype=np.int64)
        with np.errstate(invalid="ignore", divide="ignore"):
            probability, rtt_ms = lost / sent, 1e3 * seconds / (sent - lost)
        return {
            **self._path_keys(),
            "goodput_mbps": arrived * 8e-6 / self.span,
            "delivered_bytes": _whole(arrived),
            "sent_packets": _whole(sent),
            "lost_overflow": _whole(self._total(self.losses["overflow"])),
            "lost_red": _whole(self._total(self.losses["red"])),
            "lost_random": _whole(self._total(self.losses["random"])),
            "lost_down": none,
            "lost_aqm": none,
            "loss_probability": probability,
            "loss_events": _whole(self._total(self.events)),
            "marked_packets": none,
            "mark_events": none,
            "retransmitted_packets": _whole(lost),
            "timeouts": none,
            "spurious_timeouts": none,
            "window_packets": self._mean_sample("window"),
            "rtt_ms": rtt_ms,
            "one_way_delay_ms": rtt_ms - self.return_ms,
        }

    def _links(self) -> Columns:
        network, is_red = self.network, self._is_red()
        load, loss = self.column("load"), self.column("loss")
        served, waiting = self.column("served"), self.column("waiting")
        through = self._total(self._sum(served))
        rate_mbps = network.capacity * network.packet_bits / 1e6
        arrived = self._total(self._sum(load))
        dropped = self._total(self._sum(load * loss))
        random = through * network.queues.random_loss
        throughput = (through - random) * network.packet_bits / 1e6 / self.span
        none = np.zeros(len(network.links), dtype=np.int64)
        with np.errstate(invalid="ignore", divide="ignore"):
            probability = (dropped + random) / arrived
            queue_ms = 1e3 * self._total(self._sum(served * waiting)) / network.capacity / through
        return {
            "link": list(network.links),
            "rate_mbps": rate_mbps,
            "throughput_mbps": throughput,
            "utilization": throughput / rate_mbps,
            "arrived_packets": _whole(arrived),
            "dropped_overflow": _whole(np.where(is_red, 0, dropped)),
            "dropped_red": _whole(np.where(is_red, dropped, 0)),
            "dropped_random": _whole(random),
            "dropped_down": none,
            "dropped_aqm": none,
            "marked_packets": none,
            "loss_probability": probability,
            "queue_packets": self._mean_sample("waiting"),
            "queue_ms": queue_ms,
        }

    def _transfers(self) -> Columns:
        users = np.flatnonzero(self._done())
        start = self.schedule.start_s[users]
        return {
            "flow": [self.flow_of_user[user] for user in users],
            "user": self.number_of_user[users],
            "start_s": start,
            "bytes": self.schedule.bytes[users].astype(np.int64),
            "duration_s": self._stop()[users] - start,
        }

    def _flow_samples(self) -> Columns:
        delivered = self._at_samples(self.arrived) @ self.network.sums.T
        times, users = len(self.sample_times), self.network.users
        none = np.zeros(times * users)
        return {
            "time_s": np.repeat(self.sample_times, users),
            "flow": self.flow_of_user * times,
            "user": np.tile(self.number_of_user, times),
            "delivered_bytes": _whole(delivered.ravel()),
            "goodput_mbps": self._per_sample(delivered) * 8e-6,
            "kappa": none,
            "buffer_packets": none.astype(np.int64),
        }

    def _path_samples(self) -> Columns:
        times, paths = len(self.sample_times), self.network.paths
        window, rtt = np.nan_to_num(self._sample("window")).ravel(), 1e3 * self._sample("rtt")
        lost = self._per_sample(self._at_samples(self.lost)) * np.repeat(self._spans(), paths)
        return {
            "time_s": np.repeat(self.sample_times, paths),
            **{key: _repeated(values, times) for key, values in self._path_keys().items()},
            "window_packets": window,
            "rtt_ms": rtt.ravel(),
            "one_way_delay_ms": (rtt - self.return_ms).ravel(),
            "in_flight_packets": _whole(window),
            "goodput_mbps": self._per_sample(self._at_samples(self.arrived)) * 8e-6,
            "lost_packets": _whole(lost),
            "group": np.zeros(len(lost.ravel()), np.int64),
        }

    def _link_samples(self) -> Columns:
        network, times = self.network, len(self.sample_times)
        links, random = len(network.links), np.tile(network.queues.random_loss, times)
        waiting = self._sample("waiting").ravel()
        lost = self._sum(self.column("load") * self.column("loss"))
        through = self._per_sample(self._at_samples(self._sum(self.column("served"))))
        dropped = self._per_sample(self._at_samples(lost)) + through * random
        return {
            "time_s": np.repeat(self.sample_times, links),
            "link": list(network.links) * times,
            "queue_packets": _whole(waiting),
            "queue_bytes": _whole(waiting * network.packet_bits / 8),
            "throughput_mbps": through * (1 - random) * network.packet_bits / 1e6,
            "dropped_packets": _whole(dropped * np.repeat(self._spans(), links)),
        }

    def _path_keys(self) -> Columns:
        return {
            "flow": [self.flow_of_user[user] for user in self.users],
            "user": self.number_of_user[self.users],
            "path": self.number_of_path,
        }

    def _losses(self) -> dict[str, Array]:
        """Cumulative losses of each path by cause, in proportion to the loss of each cause."""
        routes, is_red = self.network.routes, self._is_red()
        in_queue = -np.log1p(-self.column("loss"))
        random = -np.log1p(-self.network.queues.random_loss)
        of_red, of_tail = (in_queue * is_red) @ routes, (in_queue * ~is_red) @ routes
        of_random = np.broadcast_to(random @ routes, of_red.shape)
        lost = self.column("rate") * np.nan_to_num(self.column("path_loss"))
        scale = lost / np.maximum(of_red + of_tail + of_random, 1e-300)
        causes = {"red": of_red, "overflow": of_tail, "random": of_random}
        return {cause: self._sum(part * scale) for cause, part in causes.items()}

    def _is_red(self) -> Array:
        return np.array([curve is not None for curve in self.network.queues.red], dtype=bool)

    def _done(self) -> Array:
        """Users whose file is delivered, so that they send nothing at the end.

        Deliveries are summed over the integration's steps, hence the tolerance of 2 %.
        """
        whole, silent = (
            self.network.sums @ self.arrived[-1],
            self.network.sums @ self.column("rate")[-1] == 0,
        )
        return np.asarray(silent & (whole >= self.schedule.bytes * (1 - 0.02)))

    def _stop(self) -> Array:
        """When each user stopped, or its file's last byte arrived; at most the end of the run."""
        stop: Array = np.minimum(self.schedule.stop_s, self.end)
        rate, rtt = self.column("rate"), self.column("rtt")
        for user in np.flatnonzero(self._done()):
            paths = slice(self.network.starts[user], self.network.starts[user + 1])
            last = np.flatnonzero(rate[:, paths].any(axis=1))[-1]
            # The last packet arrives one forward delay later.
            delay = float(np.nanmax(rtt[last, paths] - 1e-3 * self.return_ms[paths]))
            stop[user] = min(self.time[last] + delay, self.end)
        return np.asarray(stop)

    def _sum(self, rate: Array) -> Array:
        """The integral from 0 to each moment."""
        return np.asarray(cumulative_trapezoid(rate, self.time, axis=0, initial=0.0))

    def _total(self, cumulative: Array) -> Array:
        """The increment within the measurement window."""
        return np.asarray(self._at(cumulative, self.end) - self._at(cumulative, self.begin))

    def _at(self, values: Array, time: float) -> Array:
        return np.asarray(values[np.searchsorted(self.time, time, side="right") - 1])

    def _at_samples(self, values: Array) -> Array:
        return np.asarray(values[np.searchsorted(self.time, self.sample_times, side="right") - 1])

    def _sample(self, name: str) -> Array:
        return self._at_samples(self.column(name))

    def _mean_sample(self, name: str) -> Array:
        """The mean of the samples within the measurement window; 0 where a path does not send."""
        within = self.sample_times > self.begin
        samples = np.nan_to_num(self._sample(name)[within])
        with np.errstate(invalid="ignore"):
            return np.asarray(samples.sum(axis=0) / len(samples))

    def _spans(self) -> Array:
        return np.diff(self.sample_times, prepend=0.0)

    def _per_sample(self, cumulative: Array) -> Array:
        """The rate within each sample, as one long column."""
        return np.asarray(
            (np.diff(cumulative, axis=0, prepend=0.0) / self._spans()[:, None]).ravel()
        )


def _whole(values: Array) -> Array:
    return np.asarray(np.rint(values), dtype=np.int64)


def _repeated(values: Any, times: int) -> Any:
    return values * times if isinstance(values, list) else np.tile(values, times)
