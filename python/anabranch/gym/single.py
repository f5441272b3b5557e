"""One agent, which steers one flow."""

import os
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from anabranch.gym.steered import HIGHEST, Act, Observation, Reward, Steered, Task, power


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
