"""Theory refuses by name what it does not know, and knows a policer's rate as capacity."""

from typing import Any

import pytest

import anabranch
from anabranch.scenario import Scenario, ScenarioError
from anabranch.theory.optimum.fixed_points import fixed_point_of
from anabranch.theory.optimum.optimum import optima
from anabranch.theory.schedule import intervals

TEXT = """
algorithm = "reno"
seeds = [1]
measure = { duration_s = 20, warmup_s = 5 }
[links.L]
rate_mbps = 100
delay_ms = 10
[[flows]]
name = "user"
paths = [["L"]]
"""
ALL = ("optimum", "fixed point", "equilibrium", "fluid")


def answer(model: str, settings: dict[str, str]) -> Any:
    scenario = Scenario.parse(TEXT, "known.toml", list(settings.items()))
    if model == "optimum":
        return optima(scenario)
    if model == "fixed point":
        return fixed_point_of(scenario, "reno", intervals(scenario)[0], None, False)
    return anabranch.run(scenario, on=model)


@pytest.mark.parametrize(
    ("key", "value", "models", "words"),
    [
        ("links.L.queue", "{ policer = { rate_mbps = 3, burst_bytes = 30000 } }", ALL[2:],
         "links.L.queue: a policer"),
        ("links.L.queue", "{ codel = {} }", ALL[2:], "links.L.queue: codel"),
        ("links.L.queue", "{ fq_codel = {} }", ALL[2:], "links.L.queue: fq_codel"),
        ("links.L.queue", "{ pie = {} }", ALL[2:], "links.L.queue: pie"),
        ("links.L.queue", "{ dualpi2 = {} }", ALL[2:], "links.L.queue: dualpi2"),
        ("links.L.loss", "{ bernoulli = { probability = 0.01 } }", ALL[:2],
         "links.L.loss: random losses"),
        ("tcp.ecn", "true", ALL[2:], "tcp.ecn: ECN"),
        ("tcp.receive_buffer_packets", "20", ("optimum", "fixed point", "equilibrium"),
         "tcp.receive_buffer_packets: 20 packets, and flow user needs windows of "),
    ],
)  # fmt: skip
def test_what_a_model_does_not_know_is_refused_by_name(
    key: str, value: str, models: tuple[str, ...], words: str
) -> None:
    for model in ALL:
        if model in models:
            with pytest.raises(ScenarioError) as refused:
                answer(model, {key: value})
            assert str(refused.value).startswith(f"known.toml: {words}")
            assert "is not available" in str(refused.value)
            assert "run it with --on " in str(refused.value)
        elif key != "tcp.receive_buffer_packets":
            answer(model, {key: value})


def test_a_policer_is_a_capacity_in_the_optimum() -> None:
    policer = "{ policer = { rate_mbps = 3, burst_bytes = 30000 } }"
    (best,) = answer("optimum", {"links.L.queue": policer})
    # Payload of 1448 in packets of 1500 bytes: 3 x 1448/1500.
    assert best.rate[0] == pytest.approx(3 * 1448 / 1500, rel=1e-4)
    found = answer("fixed point", {"links.L.queue": policer})
    assert found.user_mbps()["user"] == pytest.approx(3 * 1448 / 1500, rel=1e-4)
