"""Environments: their libraries' own checks, the effect of actions, repeatable episodes."""

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from pettingzoo.test import parallel_api_test, parallel_seed_test

from anabranch import ScenarioError
from anabranch.gym import COLUMNS, FlowEnv, FlowsEnv

ALONE = """\
algorithm = "reno"

[measure]
duration_s = 5

[links.R1]
rate_mbps = 12
delay_ms = 20

[links.R2]
rate_mbps = 6
delay_ms = 20

[[flows]]
name = "two"
paths = [["R1"], ["R2"]]

[[flows]]
name = "one"
paths = [["R1"]]
algorithm = "cubic"
"""
# A bandwidth-delay product of 12 Mbps and 40 ms, and its payload of 1448 of 1500 bytes.
PRODUCT = 40
FULL_MBPS = 12 * 1448 / 1500


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "alone.toml"
    file.write_text(ALONE)
    return file


@pytest.mark.parametrize("act", ["windows", "weights"])
def test_gymnasium_finds_no_fault(act: Any, file: Path) -> None:
    check_env(FlowEnv(file, "two", act=act), skip_render_check=True)


def test_pettingzoo_finds_no_fault(file: Path) -> None:
    env = FlowsEnv(file)
    assert env.possible_agents == ["two", "one"]
    parallel_api_test(env, num_cycles=200)
    parallel_seed_test(lambda: FlowsEnv(file, set={"measure.duration_s": 1}))


def column(observation: np.ndarray, name: str) -> float:
    """The value of the first path."""
    return float(observation[0, COLUMNS.index(name)])


# At the bandwidth-delay product the link is full and its queue empty: power is the goodput. At
# twice that the RTT doubles, at half of it the goodput is half. An action of 1 doubles the window.
@pytest.mark.parametrize(
    ("products", "goodput", "round_trips"), [(1, 1, 1), (2, 1, 2), (0.5, 0.5, 1)]
)
def test_the_window_that_is_set_decides_goodput_and_rtt(
    products: float, goodput: float, round_trips: float, file: Path
) -> None:
    settings = {"flows": [{"name": "one", "paths": [["R1"]]}], "tcp.initial_window_packets": 10}
    env = FlowEnv(file, "one", set=settings, step_ms=500)
    env.reset(seed=1)
    steps = [1.0] * round(np.log2(products * PRODUCT / 10)) + [0.0] * 4
    for action in steps:
        observation, reward, _, truncated, _ = env.step(np.array([action], dtype=np.float32))
    assert not truncated
    assert column(observation, "window_packets") == products * PRODUCT
    assert column(observation, "goodput_mbps") == pytest.approx(goodput * FULL_MBPS, rel=0.03)
    # A packet of 1500 bytes takes 1 ms.
    assert column(observation, "base_rtt_ms") == pytest.approx(41, abs=1)
    assert column(observation, "rtt_ms") == pytest.approx(40 * round_trips, rel=0.05)
    assert reward == pytest.approx(goodput / round_trips * FULL_MBPS, rel=0.05)


def test_a_weight_is_the_growth_per_round_trip(file: Path) -> None:
    env = FlowEnv(file, "two", act="weights", step_ms=400)
    env.reset(seed=1)
    # Weights of 4 and 1/4 from a window of 10, and 10 round trips of 40 ms without queue.
    for action in ([1.0, -1.0], [1.0, -1.0]):
        observation, *_ = env.step(np.array(action, dtype=np.float32))
    before = observation[:, 0]
    observation, *_ = env.step(np.array([0.0, 0.0], dtype=np.float32))
    grown = observation[:, 0] - before
    assert grown[1] == pytest.approx(10 / 4, rel=0.2)
    assert grown[0] > 5 * grown[1]


def test_a_seed_repeats_an_episode_and_another_does_not(file: Path) -> None:
    env = FlowEnv(file, "two", set={"links.R1.loss": {"bernoulli": {"probability": 0.01}}})

    def episode(seed: int) -> list[float]:
        env.reset(seed=seed)
        rewards, over = [], False
        while not over:
            _, reward, _, over, info = env.step(np.array([0.1, 0.1], dtype=np.float32))
            rewards.append(float(reward))
        assert info["time_s"] == 5.0
        return rewards

    first = episode(3)
    assert episode(3) == first
    assert episode(4) != first


def test_a_step_is_a_round_trip_of_the_slowest_path(file: Path) -> None:
    env = FlowEnv(
        file,
        "two",
        set={
            "links.R2.delay_ms": 100,
            "links.R1.queue.drop_tail.packets": 10,
            "flows.two.start_spread_s": 0,
        },
    )
    env.reset(seed=1)
    calm = np.array([0.0, 0.0], dtype=np.float32)
    times = [0.0] + [env.step(calm)[4]["time_s"] for _ in range(30)]
    lengths = np.diff(times)
    # Without an RTT, of R1 alone, and of both, once R2 has joined after 0.44 s.
    assert lengths[[0, 1, -1]] == pytest.approx([0.1, 0.04, 0.2], rel=0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"flow": "tow"}, "no flow 'tow': expected one of two, one (did you mean two?)"),
        ({"flow": "two", "set": {"flows[0].count": 2}}, "flow 'two' has 2 users"),
        ({"flow": "two", "act": "window"}, "act = 'window': expected one of windows, weights"),
        ({"flow": "two", "step_ms": 0}, "step_ms = 0: expected more than 0, or None"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], message: str, file: Path) -> None:
    with pytest.raises(ScenarioError) as error:
        FlowEnv(file, **arguments)
    assert message in str(error.value)


def test_the_agent_of_the_tutorial_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).parents[2]
    monkeypatch.chdir(root)
    agent = runpy.run_path("examples/gym_agent.py")
    # A part of the tutorial's training, which ends at 17.45.
    agent["train"].__globals__.update(GENERATIONS=3, POLICIES=10, BEST=3)
    env = FlowEnv("examples/two_links.toml", "two-path", set=agent["ALONE"])
    before = agent["episode"](env, np.zeros(3), 100)
    after = agent["episode"](env, agent["train"](env), 100)
    assert after > 1.3 * before
    assert after <= agent["BEST_REWARD"]
