"""Delay-based rules as a fluid: windows change once per round trip, queues follow them at once.

Every user has the project's own controller. Given all windows, first-in-first-out queues are such
that each path has its window in flight, w_r = x_r tau_r, and each link carries at most its capacity
(Mo and Walrand 2000); the queues give each path's round-trip time. A path loses a packet when the
expected number of losses since its last one reaches 1, so nothing is random. Controllers of
loss-based users run the same way.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from anabranch import _core
from anabranch.scenario import Scenario
from anabranch.theory.array import Array
from anabranch.theory.errors import NotConverged
from anabranch.theory.fluid.model import Backlogs
from anabranch.theory.fluid.newton import Tick
from anabranch.theory.fluid.tables import History, Moment, Watch
from anabranch.theory.law import row
from anabranch.theory.network import Network
from anabranch.theory.schedule import Schedule

ROUNDS = 1000
"""Length of the search, in round trips of the slowest path."""
SETTLED = 0.05
"""Largest relative change of a mean window over the last two quarters."""
LONGEST = 10
"""How often as many rounds may be added, a quarter at a time, until the means settle."""
STEPS_PER_ROUND = 4
"""Steps in a round trip of the fastest path."""
GOLDEN = 0.6180339887
MOST_STEPS = 100
TOLERANCE = 1e-9


def needed(network: Network) -> bool:
    """Whether a user's rule acts once per round trip."""
    return any(row(spec)["delay_based"] for spec in set(network.algorithms))


def simulate(scenario: Scenario, network: Network, schedule: Schedule, watch: Watch) -> History:
    """Simulate a scenario from 0 to its end; as `integrate.integrate`."""
    plain = scenario.network()
    history, users = History(plain["sample_s"]), network.user_of_path
    fluid = _Fluid(network, float(plain["initial_window_packets"]))
    unsent = 8 * schedule.bytes / network.payload_bits
    for begin, end in schedule.stretches((scenario.warmup_s,)):
        time = begin
        while time < end:
            watch(time)
            sending = schedule.sending((begin + end) / 2) & (unsent > 0)[users]
            fluid.send(sending, time)
            history.add(fluid.moment(time))
            step = min(fluid.step(), end - time)
            served = network.sums @ (fluid.rate * (1 - fluid.path_loss)) * step
            # A file that ends within the step shortens it.
            with np.errstate(divide="ignore", invalid="ignore"):
                left = np.where(served > 0, unsent / served, np.inf).min(initial=1.0)
            step *= min(left, 1.0)
            unsent = np.maximum(unsent - served * min(left, 1.0) * (1 + 1e-12), 0.0)
            time = end if time + step >= end * (1 - 1e-12) else time + step
            fluid.advance(time)
        history.add(fluid.moment(end))
    return history


@dataclass(frozen=True, eq=False)
class Means:
    """Means of windows and queues over time, in the units of `history.Moment`."""

    window: Array
    rate: Array
    rtt: Array
    path_loss: Array
    waiting: Array
    loss: Array
    residual: float
    """The largest relative change of a mean window against the quarter before."""
    rounds: int
    """Round trips of the slowest path until then."""

    @property
    def backlog(self) -> Array:
        """Queue of each link: there is no price beyond it."""
        return self.waiting


def settle(network: Network, tick: Tick | None = None) -> Means:
    """Means over the last quarter of `ROUNDS` round trips, or of up to `LONGEST` times as many.

    All paths know their RTT without queues at the start. Raises `NotConverged` where the change is
    above `SETTLED`.
    """
    fluid = _Fluid(network, 10.0)
    fluid.send(np.ones(network.paths, dtype=bool), 0.0)
    fluid.meet()
    quarter, means = ROUNDS * float(network.base_rtt.max()) / 4, []
    residual, number = np.inf, 0
    while number < 4 or (residual > SETTLED and number < 4 * LONGEST):
        time, begin = number * quarter, number * quarter
        sums = [np.zeros(network.paths)] * 3 + [np.zeros(len(network.capacity))] * 2
        while time < begin + quarter:
            if tick:
                tick()
            step = fluid.step()
            state = fluid.window, fluid.rate, fluid.path_loss, fluid.waiting, fluid.loss
            sums = [total + step * value for total, value in zip(sums, state, strict=True)]
            time += step
            fluid.advance(time)
        means.append([total / (time - begin) for total in sums])
        number += 1
        if number > 1:
            residual = float(np.abs(means[-1][0] / means[-2][0] - 1).max())
    window, rate, path_loss, waiting, loss = means[-1]
    if residual > SETTLED:
        raise NotConverged(
            f"no equilibrium found: after {LONGEST * ROUNDS} rounds a mean window still changes by "
            f"{100 * residual:.0f} % of itself: run it with --on fluid or sim",
            residual,
        )
    rtt = network.base_rtt + network.routes.T @ (waiting / network.capacity)
    rounds = number * ROUNDS // 4
    return Means(window, rate, rtt, path_loss, waiting, loss, residual, rounds)


class _Fluid:
    """Controllers, and the queues that their windows give."""

    def __init__(self, network: Network, initial_window: float) -> None:
        self.network = network
        sizes = np.diff(network.starts)
        self.rounds = _core.Rounds(list(network.algorithms), sizes.tolist(), initial_window)
        self.backlogs = Backlogs.of(network)
        self.is_red = np.array([curve is not None for curve in network.queues.red], dtype=bool)
        self.limit = network.queues.limit
        self.wait = np.zeros(len(network.capacity))
        self.sending = np.zeros(network.paths, dtype=bool)
        self.ends = np.full(network.paths, np.inf)
        self.losses = np.zeros(network.paths)
        """Expected losses of each path since its last one."""
        self._settle()

    def send(self, sending: Array, time: float) -> None:
        """These paths send from this time on."""
        if not np.array_equal(sending, self.sending):
            begins = sending & ~self.sending
            self.rounds.leave(np.flatnonzero(self.sending & ~sending))
            self.sending = sending
            self._settle()
            # First rounds differ in length: paths in step would fill and empty the queues together.
            phase = np.modf(GOLDEN * (1 + np.arange(len(sending))))[0]
            first = time + (1 + phase) * self.rtt
            self.ends = np.where(sending, np.where(begins, first, self.ends), np.inf)

    def meet(self) -> None:
        """Let every path measure its RTT without queues once."""
        paths = np.arange(self.network.paths)
        never = np.zeros(len(paths), dtype=bool)
        self.rounds.end_round(0.0, paths, self.network.base_rtt, self.network.service, never)
        self._settle()

    def step(self) -> float:
        """How long windows and queues are taken as constant, s: less than any round trip."""
        return float(self.rtt[self.sending].min(initial=np.inf)) / STEPS_PER_ROUND

    def advance(self, time: float) -> None:
        """Change the windows of the paths whose round trip has ended, and the queues with them."""
        due = np.flatnonzero(self.ends <= time * (1 + 1e-12))
        if len(due) == 0:
            return
        self.losses[due] += self.window[due] * self.path_loss[due]
        lost = self.losses[due] >= 1
        self.losses[due[lost]] = 0.0
        delay = self.rtt[due] - self.network.base_rtt[due] + self.network.service[due]
        window, rate = self.window[due], self.rate[due]
        self.rounds.end_round(time, due, self.rtt[due], delay, lost)
        self._settle()
        # Nothing is sent until a lowered window has room, and the round begins then. Without this
        # pause paths of equal RTT keep their phase, and with it whatever shares they start from.
        pause = np.maximum(window - self.window[due], 0.0) / rate
        self.ends[due] += self.rtt[due] + pause

    def moment(self, time: float) -> Moment:
        sends = self.sending
        return Moment(
            time=time,
            window=np.where(sends, self.window, np.nan),
            rate=self.rate,
            rtt=np.where(sends, self.rtt, np.nan),
            path_loss=np.where(sends, self.path_loss, np.nan),
            waiting=self.waiting,
            loss=self.loss,
            load=self.load,
            served=np.minimum((1 - self.loss) * self.load, self.network.capacity),
        )

    def _settle(self) -> None:
        """Find the queues at the present windows, and all that depends on them."""
        network = self.network
        self.window = np.asarray(self.rounds.windows())
        in_flight = np.where(self.sending, self.window, 0.0)
        self.wait = waits(network, in_flight, self.wait)
        backlog = self.wait * network.capacity
        spilled = np.maximum(1 - self.limit / np.maximum(backlog, 1e-12), 0.0)
        self.loss = np.where(self.is_red, self.backlogs.loss(backlog)[0], spilled)
        self.waiting = np.minimum(backlog, self.limit)
        self.rtt = network.base_rtt + network.routes.T @ (self.waiting / network.capacity)
        self.rate = in_flight / self.rtt
        self.load = network.routes @ self.rate
        kept = np.log1p(-np.minimum(self.loss, 0.99)) + np.log1p(-network.queues.random_loss)
        self.path_loss = -np.expm1(network.routes.T @ kept)


def waits(network: Network, windows: Array, guess: Array) -> Array:
    """The queueing delay of each link while these windows are in flight, s.

    The minimum of the convex `sum_l c_l v_l - sum_r w_r log(d_r + sum_l v_l)` over waits `v >= 0`,
    by Newton's method on the links without an active bound. Raises `NotConverged`.
    """
    wait, capacity, routes = guess, network.capacity, network.routes
    for _ in range(MOST_STEPS):
        rtt = network.base_rtt + routes.T @ wait
        rate = windows / rtt
        excess = routes @ rate - capacity
        free = (wait > 0) | (excess > 0)
        gap = np.where(wait > 0, np.abs(excess), np.maximum(excess, 0.0)) / capacity
        if gap.max(initial=0.0) <= TOLERANCE:
            return wait
        chosen = routes[np.flatnonzero(free)]
        slope = (chosen @ sparse.diags_array(rate / rtt) @ chosen.T).toarray()
        slope += 1e-9 * np.diag(capacity[free])
        step = np.linalg.lstsq(slope, excess[free], rcond=None)[0]
        wait = wait.copy()
        wait[free] = np.maximum(wait[free] + step, 0.0)
    residual = float(gap.max())
    raise NotConverged(f"no queues found for given windows: residual {residual:.1e}", residual)
