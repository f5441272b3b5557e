"""Newton's method for the equilibrium, on an implicit step in pseudo-time.

Pseudo-transient continuation: small steps follow the windows' own equations, large ones are
Newton's method. Windows are at least 1 packet, as in the simulator, and backlogs at least 0; both
bounds are complementarity conditions.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from anabranch import _core
from anabranch.theory.array import Array
from anabranch.theory.errors import NotConverged
from anabranch.theory.fluid.elimination import Elimination
from anabranch.theory.fluid.model import Model
from anabranch.theory.network import Network

Tick = Callable[[], None]
"""Called at each step; it may raise to stop a search."""

TOLERANCE = 1e-9
SMOOTH_TOLERANCE = 1e-6
"""Tolerance of the search with OLIA's smooth switch."""

MOST_STEPS = 300
SMALLEST_STEP, FIRST_STEP, LARGEST_STEP = 0.05, 1.0, 1e12
"""Steps of pseudo-time, in which a window follows its rule at a rate of about 1."""
PATIENCE = 8.0
"""Steps without progress before the pseudo-time step shrinks."""
NEARLY_INFINITE = 1e9
"""Step at which a Jacobian is examined: the diagonal that is left keeps users' blocks regular."""
SINGULAR = 1e6
"""Norm of the inverse from which a Jacobian counts as singular. Regular ones are below 1000."""
QUEUE_SPEED = 10.0
"""Speed of queues relative to windows in pseudo-time: real queues follow windows at once."""
FIRST_SMOOTHING = 1e-2
"""The product of a bound's room and of the pull towards it, while bounds are smooth."""
LARGEST_SMOOTH_STEP = 1e7
"""With larger ones rounding moves windows along splits that are open."""
MOST_SMOOTH_STEPS, MOST_LAST_STEPS = 560, 40
CYCLE_STEPS, CYCLE_STEP, CYCLE_SHARES = 6, 1e3, (0.5, 0.7)
"""Steps without half the largest gap, each this long, after which shares of the next are taken."""
MANY_PATHS = 30_000
"""Paths beyond which OLIA's search begins with smooth bounds, and takes any open split."""
LARGEST_EXPONENT = 50.0
LARGEST_LOG_WINDOW = float(np.log(_core.MAX_WINDOW))
FIRST_LOSS = 3e-3
"""The largest loss probability of a queue at the start of the search."""


def search(network: Network, tolerance: float = TOLERANCE, tick: Tick | None = None) -> "Search":
    """The search at its end, with a residual of at most `tolerance`.

    Where OLIA leaves the split open, it starts again from the equilibrium of the smooth switch
    (`switching`): so it finds the split to which the integration tends, up to `MANY_PATHS`.

    Raises `NotConverged`, and `ScenarioError` for a rule without a fluid model.
    """
    model = Model(network, settled=True)
    many = model.switches and network.paths > MANY_PATHS
    made = Search(model)
    if not model.switches:
        made.run(tolerance, tick)
    elif not many:
        made.follow(np.mean, tolerance, tick)
    if made.residual > tolerance:
        made = Search(model)
        made.centre(tolerance, tick)
    if model.switches and not many and not (made.residual <= tolerance and made.isolated()):
        first, made = made, Search(Model(network))
        made.follow(np.max, SMOOTH_TOLERANCE, tick)
        if made.residual <= SMOOTH_TOLERANCE or first.residual > tolerance:
            made.use(model)
            made.run(tolerance, tick)
        if made.residual > tolerance >= first.residual:
            made = first  # the split is not open, only nearly so
    if made.residual > tolerance:
        raise NotConverged(_why(network, made), made.residual)
    return made


class Search:
    """Log windows and marks of the links, one vector, on their way to the equilibrium.

    A link's mark is its backlog as long as nothing is lost. Beyond that it is logarithmic in the
    loss probability, as that is inversely proportional to the square of a rate: at 10 Gbps a
    thousandth of a packet more may double it.
    """

    def __init__(self, model: Model) -> None:
        self.model, network = model, model.network
        self.scale = model.backlogs.scale
        self.first = model.backlogs.knots[:, 0]
        self.unit_beyond = model.backlogs.at_loss(typical_loss(network))
        """Packets beyond the first knot at which the loss probability is typical."""
        self.steps, self.smoothing = 0, 0.0
        mark = np.minimum(self.first + np.log(2) * self.scale, 2 * self.scale)
        siblings = np.diff(network.starts)[network.user_of_path]
        backlog, beyond, _ = self._at_mark(mark)
        q = model.at(np.ones(network.paths), backlog, beyond).path_loss
        q = np.maximum(q, typical_loss(network).min(initial=FIRST_LOSS))
        window = np.maximum(np.sqrt(2 / q) / siblings, 1.5)
        self._move_to(np.log(np.minimum(window, _core.MAX_WINDOW)), mark)

    def use(self, model: Model) -> None:
        """Continue with another model of the same network."""
        self.model = model
        self._move_to(self.log_window, self.mark)

    def run(self, tolerance: float, tick: Tick | None) -> None:
        """Search until the residual is at most the tolerance.

        Progress is a smaller mean gap, as among many users single ones change branches at any step.
        Where a few cycle around a kink the mean hides them: a second search takes the largest gap.
        """
        begin = self.log_window, self.mark
        for size in (np.mean, np.max):
            self._move_to(*begin)
            self.follow(size, tolerance, tick)
            if self.residual <= tolerance:
                return

    def follow(self, size: Callable[[Array], Any], tolerance: float, tick: Tick | None) -> None:
        """Step until the residual is at most the tolerance, or `MOST_STEPS` times.

        The pseudo-time step grows while states change little and shrinks where they change much.
        Large steps are Newton's method, which can cycle around a kink of a rule: where the size of
        the gaps has not fallen for `PATIENCE` steps, it starts again with small steps that grow
        more slowly.
        """
        step, growth, patience = FIRST_STEP, 3.0, PATIENCE
        best, since_best = np.inf, 0
        for self.steps in range(MOST_STEPS):
            if tick:
                tick()
            if self.residual <= tolerance:
                return
            step = _next_step(step, growth, self._newton(step), LARGEST_STEP)
            since_best += 1
            gap = float(size(np.abs(self.gap)))
            if gap < 0.9 * best:
                best, since_best = gap, 0
            elif since_best >= patience:
                step, growth, patience = FIRST_STEP, (1 + growth) / 2, 1.5 * patience
                best, since_best = np.inf, 0
        self.steps = MOST_STEPS

    def centre(self, tolerance: float, tick: Tick | None) -> None:
        """Step with smooth bounds, `room * -pull = smoothing`, which falls as the gaps do.

        Among many users thousands can have a path that is nearly as good as the one in use, so
        without it each step changes where bounds are active. Single users cycle around a kink at
        full steps: shares of a step end that. The last steps are those of the bounds themselves.
        """
        self._smooth(FIRST_SMOOTHING)
        step, share, best, since_best = FIRST_STEP, 1.0, np.inf, 0
        for self.steps in range(MOST_SMOOTH_STEPS):
            if tick:
                tick()
            if self.residual <= tolerance:
                break
            step = _next_step(step, 3.0, self._newton(step, share) / share, LARGEST_SMOOTH_STEP)
            largest = float(np.abs(self.gap).max(initial=0.0))
            since_best += 1
            if largest < 0.5 * best:
                best, since_best = largest, 0
            cycles = since_best >= CYCLE_STEPS and step > CYCLE_STEP
            share = CYCLE_SHARES[since_best % 2] if cycles else 1.0
            if largest**2 < 4 * self.smoothing and self.smoothing > tolerance**2 / 10:
                self._smooth(self.smoothing / 10)
                best, since_best = np.inf, 0
        self._smooth(0.0)
        for last in range(MOST_LAST_STEPS):
            if self.residual <= tolerance:
                return
            if tick:
                tick()
            self._newton(LARGEST_STEP, CYCLE_SHARES[0] if last % 2 else 1.0)
            self.steps += 1

    def _smooth(self, smoothing: float) -> None:
        self.smoothing = smoothing
        self._move_to(self.log_window, self.mark)

    def isolated(self) -> bool:
        """Whether the Jacobian at the end is regular: inverse iteration finds no null vector."""
        try:
            factors = self._factors(NEARLY_INFINITE)
        except RuntimeError:  # exactly singular
            return False
        vector, size = np.random.default_rng(0).standard_normal(len(self.gap)), 1.0
        for _ in range(3):
            vector = factors.solve(vector / np.linalg.norm(vector))
            size = float(np.linalg.norm(vector))
        return size < SINGULAR

    def _at_mark(self, mark: Array) -> tuple[Array, Array, Array]:
        """The backlog, what of it is beyond its first knot, and its derivative in the mark."""
        share = np.maximum(mark - self.first, 0.0) / self.scale
        grown = self.unit_beyond * np.expm1(np.minimum(share, LARGEST_EXPONENT))
        lossless = mark < self.first
        beyond = np.where(lossless, mark - self.first, grown)
        slope = np.where(lossless, 1.0, (self.unit_beyond + grown) / self.scale)
        return np.where(lossless, mark, self.first + grown), beyond, slope

    def _move_to(self, log_window: Array, mark: Array) -> None:
        self.log_window, self.mark = log_window, mark
        self.backlog, beyond, self.slope = self._at_mark(mark)
        self.point = self.model.at(np.exp(log_window), self.backlog, beyond)
        _, decrease = self.point.increase_decrease
        self.unit = decrease * (self.point.path_loss + self.point.window**-2)
        capacity = self.model.network.capacity
        pull = np.concatenate([self.point.drift / self.unit, self.point.excess / capacity])
        room = np.concatenate([log_window, mark / self.scale])
        self.residual = float(np.abs(np.where(room < -pull, -room, pull)).max(initial=0.0))
        if self.smoothing:
            distance = np.hypot(room + pull, 2 * np.sqrt(self.smoothing))
            self.bound = (1 - (room + pull) / distance) / 2
            self.gap = -(room - pull - distance) / 2
        else:
            self.bound = (room < -pull) * 1.0
            self.gap = np.where(room < -pull, -room, pull)

    def _factors(self, step: float) -> Elimination:
        """Factors of the negative Jacobian of the gaps, plus the inverse step on its diagonal.

        Marks are in units of their scale.
        """
        unit = self.slope * self.scale
        of_drift, of_excess = (
            (in_window, in_backlog @ sparse.diags_array(unit))
            for in_window, in_backlog in (
                self.point.drift_derivatives(),
                self.point.excess_derivatives(),
            )
        )
        rows = sparse.diags_array(
            np.concatenate([1 / self.unit, 1 / self.model.network.capacity]) * (1 - self.bound)
        )
        jacobian = rows @ sparse.block_array([list(of_drift), list(of_excess)], format="csr")
        pace = np.repeat([1.0, 1 / QUEUE_SPEED], [len(self.log_window), len(self.mark)])
        diagonal = self.bound + (1 - self.bound) * pace / step
        matrix = sparse.csr_array(sparse.diags_array(diagonal) - jacobian)
        return Elimination(matrix, self.model.network.starts)

    def _newton(self, step: float, share: float = 1.0) -> float:
        """Take a share of a step; return the largest relative change of a window or a backlog."""
        change = self._factors(step).solve(self.gap)
        paths = len(self.log_window)
        log_window = self.log_window + share * np.clip(change[:paths], -1.5, 1.5)
        mark = self.mark + share * self.scale * np.clip(change[paths:], -1, 1)
        before = np.concatenate([self.log_window, self.mark / self.scale])
        self._move_to(np.clip(log_window, 0, LARGEST_LOG_WINDOW), np.maximum(mark, 0))
        after = np.concatenate([self.log_window, self.mark / self.scale])
        return float(np.abs(after - before).max(initial=0.0))


def _next_step(step: float, growth: float, moved: float, largest: float) -> float:
    """A longer step after one in which states changed little, a shorter one after another."""
    if moved < 0.5:
        return min(growth * step, largest)
    return max(step / 2, SMALLEST_STEP) if moved >= 1.0 else step


def typical_loss(network: Network) -> Array:
    """The loss probability at which NewReno has an equal share of each link, at most FIRST_LOSS."""
    paths = np.maximum(network.routes.sum(axis=1), 1)
    rtt = (network.routes @ network.base_rtt) / paths
    window = np.maximum(network.capacity * rtt / paths, 1.0)
    return np.asarray(np.minimum(2 / window**2, FIRST_LOSS))


def _why(network: Network, made: Search) -> str:
    text = f"no equilibrium found: residual {made.residual:.1e} after {made.steps} steps"
    queues = network.queues
    lossless = np.isinf(queues.limit) & (queues.random_loss == 0)
    lossless &= np.array([red is None for red in queues.red], dtype=bool)
    never = network.routes.T @ (~lossless).astype(float) == 0
    free = np.flatnonzero(never | ((made.point.path_loss <= 0) & (made.point.drift > 0)))
    if len(free):
        path = int(free[0])
        why = (
            "so its window has no limit: give a queue on it a limit"
            if never[path]
            else f"but its window is at most {_core.MAX_WINDOW:,.0f} packets: lower its rate"
        )
        return f"{text}; {_name(network, path)} meets no loss, {why}"
    worst = int(np.abs(made.gap).argmax())
    paths = network.paths
    place = f"link {network.links[worst - paths]}" if worst >= paths else _name(network, worst)
    return f"{text}, largest at {place}: run it with --on fluid or sim"


def _name(network: Network, path: int) -> str:
    user = network.user_of_path[path]
    return f"path {path - network.starts[user]} of {network.flows[user]}"
