"""Several agents, each of which steers a flow."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray
from pettingzoo import ParallelEnv

from anabranch.gym.steered import HIGHEST, Act, Observation, Reward, Steered, Task, power

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
