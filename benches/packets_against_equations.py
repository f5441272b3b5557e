"""Why users who compete with multipath users get more from packets than from the equations.

Scenarios A and C of the OLIA draft with N1, N2 users and all capacities times a factor: the goodput
of a single-path user, and by how much packets exceed the equilibrium and the model of single losses
(`theory.fluid.loss_events`), to which effects are added one by one. The last column has RED without
its lag (averaging weight 1); the deviations are from that. `python
benches/packets_against_equations.py [A:5 C10:1 ...]`, about 1 minute for each.
"""

import sys
from pathlib import Path

import anabranch
from anabranch.scenario import Scenario, load
from anabranch.theory.array import Array
from anabranch.theory.fluid.equilibrium import equilibrium
from anabranch.theory.fluid.loss_events import Effects, means
from anabranch.theory.network import Network

PAPER = Path(__file__).parents[1] / "papers" / "olia"
RULES = ["lia", "balia", "semicoupled", "olia"]
CASES = ["A:1", "A:5", "C5:1", "C5:5", "C10:1", "C10:5"]
MODELS = [Effects(False, False), Effects(True, False), Effects(True, True)]
FLOOR = {"tcp.min_ssthresh_packets": 1}
"""The equations let a window fall to 1 packet; the paper's folder has 2."""
LONG = {"measure.duration_s": 900, "measure.warmup_s": 200}


def scenario(case: str, weight: float) -> tuple[Scenario, str]:
    """The scenario of a case such as C5:10 (N1 = 5, 10 Mbps a user), and its single-path flow."""
    name, factor = case[0], float(case.split(":")[1])
    users = 20 if name == "A" else int(case[1:].split(":")[0])
    own, shared, file, flow = {
        "A": ("R1", "R2", "scenario_a.toml", "type2"),
        "C": ("AP1", "AP2", "scenario_c.toml", "singlepath"),
    }[name]
    values = {
        "flows[0].count": users,
        f"links.{own}.rate_mbps": users * factor * (0.75 if name == "A" else 1),
        f"links.{shared}.rate_mbps": 10 * factor,
        **{f"links.{link}.queue.red.average_weight": weight for link in (own, shared)},
    }
    return load(PAPER / file, values | FLOOR | LONG), flow


def of_flow(network: Network, goodput_mbps: Array, flow: str) -> float:
    """Mean goodput of a user of the flow, Mbps."""
    users = network.sums @ goodput_mbps
    return float(users[[name == flow for name in network.flows]].mean())


def main() -> None:
    print("case   rule         packets  equilibrium   losses  +whole  +recovery | no lag")
    for case in sys.argv[1:] or CASES:
        measured = []
        for weight in (0.002, 1.0):
            asked, flow = scenario(case, weight)
            flows = anabranch.run(asked, RULES, seeds=[1, 2]).flows
            rows = flows[flows["flow"] == flow]
            measured.append(rows.groupby("algorithm")["goodput_mbps"].mean())
        for rule in RULES:
            network = Network.of(asked, rule)
            predicted = [of_flow(network, equilibrium(network).goodput_mbps, flow)]
            for effects in MODELS:
                found = means(network, effects, copies=16, rounds=3000, warmup_rounds=1000)
                predicted.append(of_flow(network, found.goodput_mbps, flow))
            packets, without_lag = measured[0][rule], measured[1][rule]
            above = "".join(f"{100 * (packets / value - 1):+9.1f}" for value in predicted)
            last = 100 * (without_lag / predicted[-1] - 1)
            print(f"{case:6} {rule:12} {packets:7.3f} {above} | {last:+.1f}", flush=True)


if __name__ == "__main__":
    main()
