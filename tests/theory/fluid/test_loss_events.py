"""The model of single losses: a closed form, and packets."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import anabranch
from anabranch.scenario import Scenario, load
from anabranch.theory.fluid.equilibrium import equilibrium
from anabranch.theory.fluid.loss_events import Effects, means
from anabranch.theory.network import Network

PAPER = Path(__file__).parents[3] / "papers" / "olia"

LOSSY = """
algorithm = "reno"
[measure]
duration_s = 10
[tcp]
header_bytes = 0
[links.L]
rate_mbps = 1000
delay_ms = 50
loss.bernoulli = { probability = 0.001 }
[[flows]]
name = "f"
paths = [["L"]]
"""


def test_reno_at_random_losses_has_the_known_mean_window() -> None:
    # w^2 grows by 2 per packet and falls to a quarter at a loss, at the rate q per packet: at a
    # random packet w^2 = (2/q) (E_0 + E_1/4 + E_2/16 + ...), each E exponential with mean 1. The
    # mean over time is 1/E[1/w] over packets = 1.31/sqrt(q), not the fluid's 1.414/sqrt(q).
    dice = np.random.default_rng(0)
    square = (dice.exponential(size=(200_000, 12)) * 4.0 ** -np.arange(12)).sum(axis=1)
    expected = np.sqrt(2 / 0.001) / np.mean(square**-0.5)
    assert expected == pytest.approx(1.31 / np.sqrt(0.001), rel=0.005)
    network = Network.of(Scenario.parse(LOSSY))
    found = means(network, Effects(False, False), copies=400, rounds=900, warmup_rounds=300)
    assert found.window[0] == pytest.approx(expected, rel=0.015)


def test_whole_packets_lower_the_rate_by_half_a_packet_per_rtt() -> None:
    network = Network.of(Scenario.parse(LOSSY))
    found = means(network, Effects(True, False), copies=50, rounds=400, warmup_rounds=300)
    rtt = network.base_rtt[0]
    sent = found.goodput_mbps[0] / 0.012 / 0.999
    assert sent == pytest.approx((found.window[0] - 0.5) / rtt, rel=1e-6)


# Measured: against the equilibrium LIA +4.6 and OLIA -16 %, against single losses +2 and +4 %.
@pytest.mark.parametrize(
    ("rule", "beyond_equilibrium", "beyond_single_losses"),
    [("lia", +0.035, 0.03), pytest.param("olia", -0.12, 0.06, marks=pytest.mark.slow)],
)
def test_single_losses_explain_what_packets_give_beyond_the_equilibrium(
    rule: str, beyond_equilibrium: float, beyond_single_losses: float
) -> None:
    # Scenario A with N1 = 20, C1/C2 = 0.75 and 5 times the capacity: windows of 12 to 40 packets.
    values = {
        "flows[0].count": 20,
        "links.R1.rate_mbps": 75,
        "links.R2.rate_mbps": 50,
        "measure.duration_s": 600,
        "measure.warmup_s": 200,
        "tcp.min_ssthresh_packets": 1,  # as the equations' smallest window
    }
    scenario = load(PAPER / "scenario_a.toml", values)
    flows = anabranch.run(scenario, rule, seeds=[1, 2]).flows
    measured = flows[flows["flow"] == "type2"]["goodput_mbps"].mean()
    network = Network.of(scenario, rule)
    single = [name == "type2" for name in network.flows]
    found = means(network, copies=16, rounds=2000, warmup_rounds=700)
    of_equilibrium, of_single_losses = (
        measured / (network.sums @ goodput)[single].mean() - 1
        for goodput in (equilibrium(network).goodput_mbps, found.goodput_mbps)
    )
    assert of_equilibrium / beyond_equilibrium > 1  # at least as large, in the same direction
    assert abs(of_single_losses) < beyond_single_losses


def test_a_rule_without_a_fluid_model_is_an_error() -> None:
    network = replace(Network.of(Scenario.parse(LOSSY)), algorithms=["cubic"])
    with pytest.raises(anabranch.ScenarioError, match="cubic has no fluid model"):
        means(network)
