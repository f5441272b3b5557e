"""OLIA in generated scenarios: packets beside the equilibrium and the model of single losses.

The worst and the median deviation of a flow's share, in per cent, as in
docs/notebook/theory-meets-packets.md. `python benches/olia_single_losses.py [17 18 19]`
"""

import sys

import numpy as np

from anabranch.theory.array import Array
from anabranch.theory.fluid import random_scenarios
from anabranch.theory.fluid.against_packets import compare_scenario
from anabranch.theory.fluid.loss_events import means
from anabranch.theory.network import Network

SCENARIOS = (17, 18, 19)
"""Generated scenarios in which OLIA's equilibrium is outside its band."""


def deviation(measured: Array, predicted: Array) -> str:
    """Worst and median of |measured / predicted - 1|."""
    away = 100 * np.abs(measured / predicted - 1)
    return f"{away.max():4.0f} ({np.median(away):.0f})"


def main() -> None:
    print("scenario  equilibrium  single losses")
    for number in map(int, sys.argv[1:] or SCENARIOS):
        shares = compare_scenario(number, ["olia"])
        network = Network.of(random_scenarios.scenario(number), "olia")
        goodput = network.sums @ means(network, copies=16, rounds=3000).goodput_mbps
        measured = shares.set_index("flow")["measured"][list(network.flows)].to_numpy()
        predicted = shares.set_index("flow")["predicted"][list(network.flows)].to_numpy()
        single = deviation(measured, goodput / goodput.sum())
        print(f"{number:8}  {deviation(measured, predicted):>11}  {single:>13}", flush=True)


if __name__ == "__main__":
    main()
