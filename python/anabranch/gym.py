"""Environments of Gymnasium and PettingZoo in which agents set windows (docs/reference/agents.md).

Needs the extra "gym": pip install 'anabranch[gym]'.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from anabranch import _core
from anabranch.core_types import Flow
from anabranch.scenario import Scenario, ScenarioError, expected_one_of, load

try:
    import gymnasium
    from gymnasium.spaces import Box
    from pettingzoo import ParallelEnv
except ImportError:
    raise ScenarioError("Gymnasium is not installed: pip install 'anabranch[gym]'") from None

__all__ = ["COLUMNS", "FlowEnv", "FlowsEnv", "power"]

Observation = NDArray[np.float32]
Reward = Callable[[Observation], float]
Act = Literal["windows", "weights"]

COLUMNS = ("window_packets", "rtt_ms", "base_rtt_ms", "goodput_mbps", "loss")
"""The columns of an observation, which has a row per path: window, smoothed RTT, the smallest of
the smoothed RTTs seen so far, and over the last step goodput and lost over sent packets."""

HIGHEST = np.array([_core.MAX_WINDOW, 1e6, 1e6, 1e6, 1.0], dtype=np.float32)
"""Larger values are cut."""

FIRST_STEP_S = 0.1
"""The length of a step before there is an RTT."""

RANGES = {"windows": (1.0, 1e4), "weights": (1 / 64, 64.0)}
"""The lowest and highest values, packets."""

FLOW, WINDOW, RTT_S, SENT, LOST, BYTES = range(6)
"""The columns of `_core.Session.paths`."""


def power(observation: Observation) -> float:
    """Goodput (Mbps) of each path times its smallest over its present RTT, summed.

    Kleinrock's power: a path alone is best off with a window of a bandwidth-delay product, where
    this is its goodput; at twice that window it is half of it (L. Kleinrock, Proc. IEEE ICC 1979).

    >>> power(np.array([[20, 40, 40, 10, 0], [20, 80, 40, 10, 0]], dtype=np.float32))
    15.0
    """
    _, rtt_ms, base_ms, goodput_mbps, _ = observation.T
    measured = rtt_ms > 0
    return float(np.sum(goodput_mbps[measured] * base_ms[measured] / rtt_ms[measured]))


@dataclass(frozen=True)
class Task:
    """A scenario and the flows in it that agents steer."""

    scenario: Scenario
    flows: dict[str, int]
    """The index of each steered flow, by name."""
    paths: dict[str, int]
    """The number of paths of each, by name."""
    act: Act
    step_ms: float | None

    @staticmethod
    def of(
        file: str | os.PathLike[str],
        names: Sequence[str] | None,
        act: Act,
        step_ms: float | None,
        settings: Mapping[str, Any] | None,
    ) -> "Task":
        """Read the file; None is every flow of one user. Raises `ScenarioError`."""
        if act not in RANGES:
            raise ScenarioError(f"act = {act!r}: {expected_one_of(str(act), list(RANGES))}")
        if step_ms is not None and not step_ms > 0:
            raise ScenarioError(f"step_ms = {step_ms}: expected more than 0, or None")
        # Without slow start, in which a rule has no say.
        without = {"tcp.initial_ssthresh_packets": 1.0}
        scenario = load(file, without | dict(settings or {}), "reno")
        plain = {flow["name"]: flow for flow in scenario.network()["flows"]}
        if names is None:
            names = [name for name, flow in plain.items() if flow["count"] == 1]
        for name in names:
            _check(name, plain, scenario)
        flows = {name: list(plain).index(name) for name in names}
        paths = {name: len(plain[name]["paths"]) for name in names}
        return Task(scenario, flows, paths, act, step_ms)

    def begin(self, seed: int) -> "Steered":
        """A run at time 0."""
        return Steered(self, seed)


def _check(name: str, flows: Mapping[str, Flow], scenario: Scenario) -> None:
    if name not in flows:
        raise ScenarioError(
            f"{scenario.source}: no flow {name!r}: {expected_one_of(name, list(flows))}"
        )
    count = flows[name]["count"]
    if count != 1:
        raise ScenarioError(
            f"{scenario.source}: flow {name!r} has {count} users: an agent steers one; "
            "set count = 1, or give each user a flow of its own"
        )


class Steered:
    """A run that agents steer."""

    def __init__(self, task: Task, seed: int) -> None:
        self.task = task
        plain = task.scenario.network()
        first = plain["initial_window_packets"] if task.act == "windows" else 1.0
        self.values = {name: np.full(paths, first) for name, paths in task.paths.items()}
        values = {task.flows[name]: list(value) for name, value in self.values.items()}
        self._session = _core.Session(task.scenario, seed, values, task.act == "weights")
        self._before = self._session.paths()
        self._base_s = np.full(len(self._before), np.inf)

    @property
    def now_s(self) -> float:
        """The time that the run has reached."""
        return self._session.now_s

    @property
    def is_over(self) -> bool:
        """Whether the run has reached its end."""
        return self.now_s >= self.task.scenario.duration_s

    def step(self, actions: Mapping[str, NDArray[Any]]) -> dict[str, Observation]:
        """Multiply each value by 2 to the power of its action, and let a step pass."""
        low, high = RANGES[self.task.act]
        for name, action in actions.items():
            bounded = np.clip(np.asarray(action, dtype=float), -1, 1)
            self.values[name] = np.clip(self.values[name] * 2**bounded, low, high)
            self._session.set(self.task.flows[name], list(self.values[name]))
        began_s = self.now_s
        self._session.advance(self._step_s())
        return self._observe(self.now_s - began_s)

    def start(self) -> dict[str, Observation]:
        """First observations of the agents."""
        return self._observe(0.0)

    def _step_s(self) -> float:
        """A round trip of the slowest path, so that each step's effect is seen on all."""
        if self.task.step_ms is not None:
            return self.task.step_ms / 1e3
        steered = np.isin(self._before[:, FLOW], list(self.task.flows.values()))
        rtt_s = self._before[steered, RTT_S]
        known = rtt_s[np.isfinite(rtt_s)]
        return float(known.max()) if len(known) else FIRST_STEP_S

    def _observe(self, passed_s: float) -> dict[str, Observation]:
        now = self._session.paths()
        change = now - self._before
        self._before = now
        rtt_s = np.nan_to_num(now[:, RTT_S])
        self._base_s = np.where(rtt_s > 0, np.minimum(self._base_s, rtt_s), self._base_s)
        base_s = np.where(np.isfinite(self._base_s), self._base_s, 0)
        goodput_mbps = change[:, BYTES] * 8e-6 / passed_s if passed_s else np.zeros(len(now))
        loss = change[:, LOST] / np.maximum(change[:, SENT], 1)
        seen = np.column_stack([now[:, WINDOW], rtt_s * 1e3, base_s * 1e3, goodput_mbps, loss])
        bounded = np.clip(seen, 0, HIGHEST).astype(np.float32)
        return {name: bounded[now[:, FLOW] == flow] for name, flow in self.task.flows.items()}


# Several agents, each of which steers a flow.


Infos = dict[str, dict[str, Any]]


class FlowsEnv(ParallelEnv[str, Observation, NDArray[Any]]):  # type: ignore[misc]
    """As `FlowEnv` with an agent per flow, all of which act at the same time.

    Agents have the names of `flows`; by default they are all flows of one user.

    >>> env = FlowsEnv("examples/two_links.toml", set={"measure.duration_s": 30})
    >>> observations, _ = env.reset(seed=1)
    >>> env.agents, observations["two-path"].shape
    (['two-path'], (2, 5))
    """

    metadata = {"name": "anabranch_flows", "render_modes": []}  # noqa: RUF012 (of PettingZoo)

    def __init__(
        self,
        file: str | os.PathLike[str],
        flows: Sequence[str] | None = None,
        *,
        act: Act = "windows",
        step_ms: float | None = None,
        reward: Reward = power,
        set: Mapping[str, Any] | None = None,
    ) -> None:
        self._task = Task.of(file, flows, act, step_ms, set)
        self._reward = reward
        self._run: Steered | None = None
        self._random = np.random.default_rng()
        self.render_mode = None
        self.possible_agents = list(self._task.flows)
        self.agents: list[str] = []
        sizes = self._task.paths.items()
        high = {name: np.tile(HIGHEST, (paths, 1)) for name, paths in sizes}
        self.observation_spaces = {name: Box(0, high[name], dtype=np.float32) for name in high}
        self.action_spaces = {name: Box(-1, 1, (n,), dtype=np.float32) for name, n in sizes}

    def observation_space(self, agent: str) -> gymnasium.Space[Observation]:
        """The observations of an agent."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gymnasium.Space[NDArray[Any]]:
        """The actions of an agent."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], Infos]:
        """Begin a run, with the next seed of this environment's generator."""
        if seed is not None:
            self._random = np.random.default_rng(seed)
        self._run = self._task.begin(int(self._random.integers(2**32)))
        self.agents = list(self.possible_agents)
        return self._run.start(), {name: {"time_s": 0.0} for name in self.agents}

    def step(
        self, actions: dict[str, NDArray[Any]]
    ) -> tuple[dict[str, Observation], dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        """Set all agents' values and let a round trip pass."""
        if self._run is None:
            raise gymnasium.error.ResetNeeded("call reset before step")
        seen = self._run.step(actions)
        agents, over = self.agents, self._run.is_over
        rewards = {name: self._reward(seen[name]) for name in agents}
        infos = {name: {"time_s": self._run.now_s} for name in agents}
        if over:
            self.agents = []
        ends = dict.fromkeys(agents, False), dict.fromkeys(agents, over)
        return seen, rewards, *ends, infos


# One agent, which steers one flow.


class FlowEnv(gymnasium.Env[Observation, NDArray[Any]]):
    """An agent sets the windows (or weights) of the paths of one flow, once per round trip.

    An episode is a run of the scenario `file`, which ends, truncated, after its `duration_s`. An
    action has a number from -1 to 1 per path: each window, or with `act="weights"` each window's
    growth per round trip, is multiplied by 2 to that power. An observation has a row per path and
    the columns `COLUMNS`; `reward` maps it to a number. A step takes `step_ms`, or by default the
    longest RTT of the paths. `set` replaces values of the scenario, as in `anabranch.run`.

    The flow must have one user. There is no slow start but after a timeout; a loss leaves windows
    to the agent, and halves those with weights. `reset(seed=n)` chooses the run's seed.

    Raises `ScenarioError`.

    >>> at_once = {"measure.duration_s": 30, "flows.two-path.start_spread_s": 0}
    >>> env = FlowEnv("examples/two_links.toml", "two-path", set=at_once)
    >>> observation, _ = env.reset(seed=1)
    >>> for _ in range(4):
    ...     observation, reward, terminated, truncated, info = env.step([0.5, -0.5])
    >>> observation[:, 0] # windows, packets
    array([40. ,  2.5], dtype=float32)
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (of Gymnasium)

    def __init__(
        self,
        file: str | os.PathLike[str],
        flow: str,
        *,
        act: Act = "windows",
        step_ms: float | None = None,
        reward: Reward = power,
        set: Mapping[str, Any] | None = None,
    ) -> None:
        self._task = Task.of(file, [flow], act, step_ms, set)
        self._flow = flow
        self._reward = reward
        self._run: Steered | None = None
        paths = self._task.paths[flow]
        self.observation_space = Box(0, np.tile(HIGHEST, (paths, 1)), dtype=np.float32)
        self.action_space = Box(-1, 1, (paths,), dtype=np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin a run, with the next seed of this environment's generator."""
        super().reset(seed=seed)
        self._run = self._task.begin(int(self.np_random.integers(2**32)))
        return self._run.start()[self._flow], {"time_s": 0.0}

    def step(self, action: NDArray[Any]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Set the values and let a round trip pass."""
        if self._run is None:
            raise gymnasium.error.ResetNeeded("call reset before step")
        observation = self._run.step({self._flow: action})[self._flow]
        info = {"time_s": self._run.now_s}
        return observation, self._reward(observation), False, self._run.is_over, info
