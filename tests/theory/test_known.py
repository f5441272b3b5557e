"""Theory refuses by name what it does not know, and knows a policer's rate as capacity."""

from typing import Any

import pytest

import anabranch
from anabranch._core import features
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
        ("links.L.loss.gilbert_elliott",
         "{ good_to_bad = 0.01, bad_to_good = 0.5 }", ALL, "links.L.loss: losses in bursts"),
        ("links.L.loss.periodic", "{ packets = 100 }", ALL,
         "links.L.loss: losses in equal distances"),
        ("links.L.jitter_ms", "4", ALL[1:], "links.L.jitter_ms: jitter"),
        ("links.L.reorder", "{ share = 0.01, packets = 5 }", ALL[1:], "links.L.reorder: reorder"),
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


FEATURES = {
    "newreno": {"tcp.recovery": "newreno"},
    "hystart++": {"tcp.slow_start": "hystart++"},
    "ECN": {"tcp.ecn": "true"},
    "codel": {"links.L.queue": "{ codel = {} }"},
    "fq_codel": {"links.L.queue": "{ fq_codel = {} }"},
    "pie": {"links.L.queue": "{ pie = {} }"},
    "dualpi2": {"links.L.queue": "{ dualpi2 = {} }"},
    "a policer": {"links.L.queue": "{ policer = { rate_mbps = 3, burst_bytes = 30000 } }"},
    "a rate that changes": {"links.L": "{ trace_file = 't.csv', delay_ms = 1 }"},
    "a delay that changes": {"links.L": "{ trace_file = 'd.csv', rate_mbps = 9, delay_ms = 1 }"},
    "jitter": {"links.L.jitter_ms": "4"},
    "reordering": {"links.L.reorder": "{ share = 0.01, packets = 5 }"},
    "losses in bursts": {
        "links.L.loss": "{ gilbert_elliott = { good_to_bad = 0.01, bad_to_good = 0.5 } }"
    },
    "losses in equal distances": {"links.L.loss": "{ periodic = { packets = 100 } }"},
    "a loss probability that changes": {
        "links.L": "{ trace_file = 'l.csv', rate_mbps = 9, delay_ms = 1 }"
    },
    "retransmissions of the link (ARQ)": {
        "links.L.loss": "{ bernoulli = { probability = 0.1 } }",
        "links.L.arq": "{ retries = 3, delay_ms = 8 }",
    },
    "data without limit and silence in turn": {
        "flows[0].workload": "{ on_off = { on_s = 1, off_s = 1 } }"
    },
    "files at random": {
        "flows[0].workload": "{ poisson = { rate_per_s = 1, size.exponential.mean_bytes = 1e4 } }"
    },
    "a gateway": {
        "flows[0].workload": "{ gateway = { clients = 2, rate_per_s = 1, "
        "size.exponential.mean_bytes = 1e4 } }"
    },
    "a workload of messages": {
        "flows[0].workload": "{ messages = { size_bytes = 9, interval_ms = 9 } }"
    },
    "a media source": {"flows[0].workload": "{ media = { rate_mbps = 1 } }"},
    "a packet size of its own": {"flows[0].packet_bytes": "900"},
    "drops of RED that are spaced by count (uniform)": {
        "links.L.queue": "{ red = { uniform = true } }"
    },
    "another backoff at marks (beta_ecn)": {"flows[0].algorithm": "lia:beta_ecn=0.8"},
    "a way back over links (back)": {"flows[0].paths": "[{ links = ['L'], back = ['L'] }]"},
}
TRACES = {
    "t.csv": b"time_s,rate_mbps\n0,9\n10,8\n",
    "d.csv": b"time_s,delay_ms\n0,1\n10,2\n",
    "l.csv": b"time_s,loss\n0,0.01\n10,0.02\n",
}


@pytest.mark.parametrize(("feature", "backends"), features())
@pytest.mark.parametrize("backend", ["fluid", "equilibrium"])
def test_the_table_of_features_is_true_of_the_equations(
    feature: str, backends: list[str], backend: str
) -> None:
    settings = list(FEATURES[feature].items())
    scenario = Scenario.parse(TEXT, "known.toml", settings, TRACES)
    if backend in backends:
        anabranch.run(scenario, on=backend)
    else:
        with pytest.raises(ScenarioError):
            anabranch.run(scenario, on=backend)
