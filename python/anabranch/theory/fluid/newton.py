"""The equilibrium of a network: phi_r = q_r on used paths, (1 - p_l) y_l = c_l on full links."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from anabranch.theory.array import Array
from anabranch.theory.errors import NotConverged
from anabranch.theory.fluid.averaged_rule import samples_of
from anabranch.theory.fluid.model import Model, Point
from anabranch.theory.network import Network

Tick = Callable[[], None]
"""Is called now and then; it may raise to stop a search."""

TOLERANCE = 1e-9
AVERAGED_TOLERANCE = 3e-3
"""Where a rule is averaged over samples, whose mean moves in steps; with few samples these are the
tolerance."""

MOST_STEPS = 300
SMALLEST_STEP, FIRST_STEP, LARGEST_STEP = 0.05, 1.0, 1e12
"""Of pseudo-time, in which a window follows its rule at a rate of about 1."""
PATIENCE = 8.0
"""Steps without progress before the pseudo-time step shrinks."""
SINGULAR = 1e6
"""Norm of an inverse Jacobian that is none. Regular ones have norms below 1000."""
QUEUE_SPEED = 10.0
"""Of queues beside windows, in pseudo-time: real queues follow windows at once."""
LARGEST_LOG_WINDOW = float(np.log(1 << 24))
FIRST_LOSS = 3e-3
"""Loss probability of every queue at the start of the search."""


@dataclass(frozen=True, eq=False)
class Equilibrium:
    """Where windows and queues stand still."""

    network: Network
    window: Array
    """Of each path, packets; 1 on a path that is not in use but for probing."""
    rate: Array
    """x_r, packets/s sent."""
    rtt: Array
    path_loss: Array
    """q_r."""
    backlog: Array
    waiting: Array
    """Of each link, packets in the queue."""
    loss: Array
    """p_l: what the queue drops."""
    residual: float
    """Largest of |I - q D| / (q D + D/w^2) and |y - c| / c, where neither is held by its bound."""
    steps: int
    isolated: bool
    """Whether no other equilibrium is near. Where it is not, the rule leaves the split open."""

    @property
    def goodput_mbps(self) -> Array:
        """Of each path."""
        return self.network.goodput_mbps(self.rate * (1 - self.path_loss))

    @property
    def share(self) -> Array:
        """Of each user, its part of the goodput of all."""
        users = self.network.sums @ self.goodput_mbps
        return np.asarray(users / users.sum())


def equilibrium(
    network: Network, tolerance: float | None = None, tick: Tick | None = None
) -> Equilibrium:
    """Find it by pseudo-transient continuation: Newton's method on an implicit step in time.

    Windows are at least 1 packet, as in the simulator, and backlogs at least 0; both bounds are
    complementarity conditions. Raises `NotConverged`, and `ScenarioError` for a rule without model.
    """
    model = Model(network)
    if tolerance is None:
        coarse = 2 / samples_of(network.paths)
        tolerance = max(AVERAGED_TOLERANCE, coarse) if model.averaged else TOLERANCE
    search = _Search(model)
    steps = search.run(tolerance, tick)
    point, residual = search.point, search.residual
    if residual > tolerance:
        raise NotConverged(_why(network, point, residual, steps), residual)
    return Equilibrium(
        network=network,
        window=point.window,
        rate=point.rate,
        rtt=point.states.rtt,
        path_loss=point.path_loss,
        backlog=point.backlog,
        waiting=point.waiting,
        loss=point.loss,
        residual=residual,
        steps=steps,
        isolated=search.isolated(),
    )


class _Search:
    """Log windows and backlogs, one vector, on their way to the equilibrium."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.scale = model.backlogs.scale
        backlog = model.backlogs.at_loss(FIRST_LOSS)
        siblings = np.diff(model.network.starts)[model.network.user_of_path]
        q = np.maximum(model.at(np.ones(model.network.paths), backlog).path_loss, 1e-4)
        window = np.maximum(np.sqrt(2 / q) / siblings, 1.5)
        self._move_to(np.log(window), backlog)

    def run(self, tolerance: float, tick: Tick | None) -> int:
        """Step until the residual is below the tolerance; the number of steps.

        The pseudo-time step grows while states move little and shrinks where they leap. Large steps
        are Newton's method, which can go around a kink of a rule for ever: where the residual has
        not fallen for a while, smaller steps that grow more slowly follow the flow out of there.
        """
        step, growth, patience = FIRST_STEP, 3.0, PATIENCE
        best, since_best = np.inf, 0
        for taken in range(MOST_STEPS):
            if tick:
                tick()
            if self.residual <= tolerance:
                return taken
            moved = self._newton(step)
            if moved < 0.5:
                step = min(growth * step, LARGEST_STEP)
            elif moved >= 1.0:
                step = max(step / 2, SMALLEST_STEP)
            since_best += 1
            if self.residual < 0.9 * best:
                best, since_best = self.residual, 0
            elif since_best >= patience:
                step, growth, patience = FIRST_STEP, (1 + growth) / 2, 1.5 * patience
                best, since_best = np.inf, 0
        return MOST_STEPS

    def isolated(self) -> bool:
        """Whether the Jacobian at the end is regular: inverse iteration finds no null vector."""
        try:
            factors = _factors(self._matrix(np.inf))
        except RuntimeError:  # exactly singular
            return False
        vector, size = np.random.default_rng(0).standard_normal(len(self.gap)), 1.0
        for _ in range(3):
            vector = factors.solve(vector / np.linalg.norm(vector))
            size = float(np.linalg.norm(vector))
        return size < SINGULAR

    def _move_to(self, log_window: Array, backlog: Array) -> None:
        self.log_window, self.backlog = log_window, backlog
        self.point = self.model.at(np.exp(log_window), backlog)
        _, decrease = self.point.increase_decrease
        self.unit = decrease * (self.point.path_loss + self.point.window**-2)
        capacity = self.model.network.capacity
        pull = np.concatenate([self.point.drift / self.unit, self.point.excess / capacity])
        room = np.concatenate([log_window, backlog / self.scale])
        self.bound = room < -pull
        """Where the lower bound holds, instead of the law."""
        self.gap = np.where(self.bound, -room, pull)
        self.residual = float(np.abs(self.gap).max(initial=0.0))

    def _matrix(self, step: float) -> sparse.csr_array:
        """The Jacobian of the gaps, negative, and the inverse step on its diagonal."""
        of_drift, of_excess = self.point.drift_derivatives(), self.point.excess_derivatives()
        rows = sparse.diags_array(
            np.concatenate([1 / self.unit, 1 / self.model.network.capacity]) * ~self.bound
        )
        jacobian = rows @ sparse.block_array([list(of_drift), list(of_excess)], format="csr")
        paths = len(self.log_window)
        room = np.concatenate([np.ones(paths), 1 / self.scale])
        pace = np.concatenate([np.ones(paths), 1 / (QUEUE_SPEED * self.scale)])
        diagonal = np.where(self.bound, room, pace / step)
        return sparse.csr_array(sparse.diags_array(diagonal) - jacobian)

    def _newton(self, step: float) -> float:
        """Take one step; the largest relative change of a window or a backlog."""
        change = _factors(self._matrix(step)).solve(self.gap)
        paths = len(self.log_window)
        log_window = self.log_window + np.clip(change[:paths], -1.5, 1.5)
        backlog = self.backlog + np.clip(change[paths:], -self.scale, self.scale)
        before = np.concatenate([self.log_window, self.backlog / self.scale])
        self._move_to(np.clip(log_window, 0, LARGEST_LOG_WINDOW), np.maximum(backlog, 0))
        after = np.concatenate([self.log_window, self.backlog / self.scale])
        return float(np.abs(after - before).max(initial=0.0))


def _factors(matrix: sparse.csr_array) -> linalg.SuperLU:
    """Users' blocks go first and leave their Schur complement on the links: least fill."""
    return linalg.splu(
        matrix.tocsc(),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.01,
        options={"SymmetricMode": True},
    )


def _why(network: Network, point: Point, residual: float, steps: int) -> str:
    text = f"no equilibrium found: residual {residual:.1e} after {steps} steps"
    free = np.flatnonzero((point.path_loss <= 0) & (point.drift > 0))
    if len(free):
        user = network.user_of_path[free[0]]
        number = free[0] - network.starts[user]
        text += (
            f"; path {number} of {network.flows[user]} meets no loss, so its window has no limit: "
            "give a queue on it a limit"
        )
    return text
