"""An equilibrium is found whatever the rate of the links, and scales with it."""

import json
import random

import numpy as np
import pytest

from anabranch.scenario import Scenario
from anabranch.theory.errors import NotConverged
from anabranch.theory.fluid.equilibrium import Equilibrium, equilibrium
from anabranch.theory.network import Network

RATES = (10, 100, 1000, 10_000)
RULES = ("lia", "olia", "coupled", "balia", "semicoupled", "ewtcp")

TWO_LINKS = """
algorithm = "{rule}"
measure.duration_s = 10
links.a = {{ rate_mbps = {rate}, delay_ms = 10 }}
links.b = {{ rate_mbps = {rate}, delay_ms = 20 }}
[[flows]]
name = "multi"
paths = [["a"], ["b"]]
[[flows]]
name = "single"
algorithm = "reno"
paths = [["b"]]
"""


def drawn(seed: int, rate: float, rule: str, red: bool) -> str:
    """2 to 4 links and 2 to 5 users of 1 to 3 paths, of one or two links each."""
    rng = random.Random(seed)
    links, users = rng.randint(2, 4), rng.randint(2, 5)
    lines = [f'algorithm = "{rule}"', "measure.duration_s = 10"]
    for link in range(links):
        mbps = rate * rng.choice([0.5, 1, 1, 2])
        packets = max(20, round(mbps * 1e6 / 12_000 * 0.05))
        queue = f"drop_tail.packets = {packets}"
        if red:
            queue = (
                f"red = {{ min_packets = {packets // 4}, mid_packets = {packets}, "
                f"max_packets = {2 * packets}, mid_probability = 0.1, "
                f"limit_packets = {8 * packets} }}"
            )
        delay = rng.choice([5, 10, 20, 40, 80])
        lines += [f"[links.l{link}]", f"rate_mbps = {mbps}", f"delay_ms = {delay}"]
        lines += [f"queue.{queue}"]
    for user in range(users):
        paths: list[list[str]] = []
        for _ in range(rng.randint(1, min(3, links))):
            path = [f"l{link}" for link in rng.sample(range(links), rng.choice([1, 1, 2]))]
            paths += [] if path in paths else [path]
        lines += ["[[flows]]", f'name = "u{user}"', f"paths = {json.dumps(paths)}"]
        lines += ['algorithm = "reno"'] if len(paths) == 1 else []
    return "\n".join(lines)


def found(text: str) -> Equilibrium:
    return equilibrium(Network.of(Scenario.parse(text)))


@pytest.mark.parametrize("rule", RULES)
def test_two_links_and_a_rival_at_any_rate(rule: str) -> None:
    # The queues are in proportion to the rate, so that shares tend to constants as windows grow
    # and the one packet of a probed path counts less.
    shares = [found(TWO_LINKS.format(rule=rule, rate=rate)).share for rate in RATES]
    assert np.abs(shares[-1] - shares[-2]).max() < 1e-3


@pytest.mark.parametrize("red", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_random_networks_at_four_rates(rule: str, red: bool) -> None:
    missing = []
    for seed in range(14):
        for rate in RATES if seed < 4 else RATES[2:3]:
            try:
                found(drawn(seed, rate, rule, red))
            except NotConverged as error:
                missing.append(f"{seed} at {rate}: {error}")
    assert missing == []


@pytest.mark.slow
@pytest.mark.parametrize("red", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_all_random_networks_at_four_rates(rule: str, red: bool) -> None:
    for seed in range(40):
        for rate in RATES:
            found(drawn(seed, rate, rule, red))


def test_a_window_without_losses_is_explained_by_what_limits_it() -> None:
    # A path of 1 Tbps and 1 s holds 83 million packets, more than the largest window, 2^24.
    text = TWO_LINKS.format(rule="reno", rate=1e6).replace("delay_ms = 10 ", "delay_ms = 500 ")
    with pytest.raises(NotConverged, match="meets no loss, but its window is at most 16,777,216"):
        found(text)
