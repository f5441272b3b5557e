"""Windows and queues of a scenario over time: the rules' differential equations, integrated."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.integrate import solve_ivp

from anabranch.scenario import Scenario
from anabranch.theory.array import Array
from anabranch.theory.errors import NotConverged
from anabranch.theory.fluid.model import Model, Point, diagonal
from anabranch.theory.fluid.newton import LARGEST_LOG_WINDOW
from anabranch.theory.fluid.tables import History, Moment, Watch
from anabranch.theory.network import Network
from anabranch.theory.schedule import Schedule

RELATIVE, ABSOLUTE = 1e-4, 1e-4
"""Tolerances of the integration."""
EMPTY, LEAST = 1.0, 0.05
"""Below these a queue (packets) and a log window shrink in proportion to what is left."""


def integrate(scenario: Scenario, network: Network, schedule: Schedule, watch: Watch) -> History:
    """Integrate from 0 to the end, with a restart wherever a path begins or ends to send.

    Calls `watch` with the simulated time. Raises `NotConverged` where the integration fails, and
    `ScenarioError` for a rule without a fluid model.
    """
    Model(network)  # raises here, not after the first stretch, if a rule has no model
    plain = scenario.network()
    state = _State.at_rest(network, schedule, float(plain["initial_window_packets"]))
    history, users = History(plain["sample_s"]), network.user_of_path
    for begin, end in schedule.stretches((scenario.warmup_s,)):
        time = begin
        while time < end:
            may_send = schedule.sending((begin + end) / 2) & (state.unsent > 0)[users]
            state.start(may_send)
            stretch = _Stretch(network, state) if may_send.any() else _Silence(network, state)
            time = stretch.run(time, end, history, watch)
    return history


@dataclass(eq=False)
class _State:
    """The state between stretches, of all paths, links and users."""

    sending: Array
    log_window: Array
    fresh: Array
    """Probability that a path has had no loss yet, and so is in slow start."""
    backlog: Array
    unsent: Array
    """Packets of the user's file that are not yet delivered; infinite for endless data."""
    initial_window: float

    @classmethod
    def at_rest(cls, network: Network, schedule: Schedule, initial_window: float) -> "_State":
        return cls(
            sending=np.zeros(network.paths, dtype=bool),
            log_window=np.full(network.paths, np.nan),
            fresh=np.ones(network.paths),
            backlog=np.zeros(len(network.capacity)),
            unsent=8 * schedule.bytes / network.payload_bits,
            initial_window=initial_window,
        )

    def start(self, may_send: Array) -> None:
        """Start paths: the first time in slow start, later with half their last window."""
        begins = may_send & ~self.sending
        first = begins & np.isnan(self.log_window)
        self.log_window[first] = np.log(self.initial_window)
        again = begins & ~first
        self.log_window[again] = np.maximum(self.log_window[again] - np.log(2), 0.0)
        self.sending = may_send


class _Silence:
    """A stretch in which no path sends: the queues drain."""

    def __init__(self, network: Network, state: _State) -> None:
        self.network, self.state = network, state

    def run(self, begin: float, end: float, history: History, watch: Watch) -> float:
        """Record the stretch to its end."""
        watch(begin)
        network, state, before = self.network, self.state, self.state.backlog
        model = Model(network.of_paths(state.sending))
        for time in np.union1d(history.samples(begin, end), [begin, end]):
            backlog = np.maximum(before - network.capacity * (time - begin), 0.0)
            point = model.at(np.empty(0), backlog)
            served = np.where(backlog > 0, network.capacity, 0.0)
            history.add(Moment.of(time, state.sending, point, served))
        state.backlog = backlog
        return end


class _Stretch:
    """The differential equations while the same paths send.

    For each path d log w/dt = (I - q D)/tau, where slow start adds 1 - I in proportion to the
    probability s that there was no loss yet, ds/dt = -q x s; for each link dz/dt = (1 - p) y - c;
    for each file the packets delivered.
    """

    def __init__(self, network: Network, state: _State) -> None:
        self.network, self.state = network, state
        sending = state.sending
        self.model = Model(network.of_paths(sending))
        self.paths, self.links = int(sending.sum()), len(network.capacity)
        users = np.unique(network.user_of_path[sending])
        self.files = users[np.isfinite(state.unsent[users])]
        owner = network.user_of_path[sending]
        self.of_file = sparse.csr_array((owner[None, :] == self.files[:, None]) * 1.0)

    def run(self, begin: float, end: float, history: History, watch: Watch) -> float:
        """Integrate to the end of the stretch, or of a file; return that time, s."""
        state, n = self.state, self.paths

        def rates(time: float, values: Array) -> Array:
            watch(time)
            return self.rates(values)

        solution = solve_ivp(
            rates,
            (begin, end),
            np.concatenate(
                [
                    state.log_window[state.sending],
                    state.fresh[state.sending],
                    state.backlog,
                    state.unsent[self.files],
                ]
            ),
            method="BDF",
            jac=lambda _, values: self.jacobian(values),
            events=[_done(2 * n + self.links + k) for k in range(len(self.files))],
            dense_output=True,
            rtol=RELATIVE,
            atol=ABSOLUTE,
        )
        if solution.status < 0:
            at = solution.t[-1]
            raise NotConverged(f"the integration stopped at {at:g} s: {solution.message}", np.nan)
        until = float(solution.t[-1])
        for time in np.union1d(history.samples(begin, until), solution.t):
            point, _, backlog, _ = self._split(solution.sol(time))
            gained = self._gained(point, backlog)
            served = (1 - point.loss) * point.load - gained
            history.add(Moment.of(time, state.sending, point, served))
        self._keep(solution.y[:, -1], [len(times) > 0 for times in solution.t_events or []])
        return until

    def rates(self, values: Array) -> Array:
        """The time derivatives of log windows, slow-start probabilities, backlogs and files."""
        point, fresh, backlog, _ = self._split(values)
        lost = point.rate * point.path_loss
        return np.concatenate(
            [
                self._growth(point, fresh) * self._hold(point, fresh),
                -lost * fresh,
                self._gained(point, backlog),
                -(self.of_file @ (point.rate - lost)),
            ]
        )

    def jacobian(self, values: Array) -> sparse.csc_array:
        """The Jacobian of `rates`, without the derivative of I in slow start."""
        point, fresh, backlog, _ = self._split(values)
        increase, _ = point.increase_decrease
        rtt, q, x = point.states.rtt, point.path_loss, point.rate
        delay, loss = point.delay_derivatives(), point.loss_derivatives()
        drift_u, drift_z = point.drift_derivatives()
        excess_u, excess_z = point.excess_derivatives()
        hold = diagonal(self._hold(point, fresh) / rtt)
        slowing = diagonal(self._growth(point, fresh))
        below = diagonal(np.where(point.excess < 0, np.minimum(backlog / EMPTY, 1.0), 1.0))
        emptying = diagonal(np.where((point.excess < 0) & (backlog < EMPTY), point.excess, 0.0))
        rate_z = -diagonal(x / rtt) @ delay
        blocks = [
            [
                hold @ drift_u,
                hold @ diagonal(1 - increase),
                hold @ (drift_z - slowing @ delay),
                None,
            ],
            [
                diagonal(-q * x * fresh),
                diagonal(-q * x),
                -diagonal(fresh) @ (diagonal(x) @ loss + diagonal(q) @ rate_z),
                None,
            ],
            [below @ excess_u, None, below @ excess_z + emptying / EMPTY, None],
        ]
        if len(self.files):
            kept = self.of_file @ diagonal(1 - q)
            none = sparse.csr_array((len(self.files), len(self.files)))
            blocks.append([-kept @ diagonal(x), None, -kept @ rate_z, none])
        else:
            blocks = [row[:3] for row in blocks]
        return sparse.csc_array(sparse.block_array(blocks))

    def _split(self, values: Array) -> tuple[Point, Array, Array, Array]:
        n, links = self.paths, self.links
        log_window, fresh, backlog, unsent = np.split(values, [n, 2 * n, 2 * n + links])
        window = np.exp(np.clip(log_window, 0.0, LARGEST_LOG_WINDOW))
        backlog = np.maximum(backlog, 0.0)
        return self.model.at(window, backlog), np.clip(fresh, 0.0, 1.0), backlog, unsent

    def _growth(self, point: Point, fresh: Array) -> Array:
        """d log w/dt without the floor."""
        increase, _ = point.increase_decrease
        return np.asarray((fresh * (1 - increase) + point.drift) / point.states.rtt)

    def _hold(self, point: Point, fresh: Array) -> Array:
        """1; towards 0 for windows that shrink to their least value."""
        shrinks = self._growth(point, fresh) < 0
        return np.where(shrinks, np.minimum(np.log(point.window) / LEAST, 1.0), 1.0)

    def _gained(self, point: Point, backlog: Array) -> Array:
        excess = point.excess
        return np.where(excess < 0, excess * np.minimum(backlog / EMPTY, 1.0), excess)

    def _keep(self, values: Array, done: list[bool]) -> None:
        n, state = self.paths, self.state
        log_window, fresh, backlog, unsent = np.split(values, [n, 2 * n, 2 * n + self.links])
        state.log_window[state.sending] = np.maximum(log_window, 0.0)
        state.fresh[state.sending] = np.clip(fresh, 0.0, 1.0)
        state.backlog = np.maximum(backlog, 0.0)
        state.unsent[self.files] = np.where(done, 0.0, unsent)


def _done(place: int) -> Callable[[float, Array], float]:
    """The event that a file's last packet is delivered."""

    def unsent(_: float, values: Array) -> float:
        return float(values[place])

    unsent.terminal = True  # type: ignore[attr-defined]
    unsent.direction = -1  # type: ignore[attr-defined]
    return unsent
