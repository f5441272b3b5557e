"""How long the equilibrium of 100 links and 1000 two-path flows takes, for each rule.

Prints seconds, residual and steps. `python benches/theory_equilibrium.py`
"""

import sys
import time

import numpy as np
from scipy import sparse

from anabranch.scenario import rules
from anabranch.theory.errors import NotConverged
from anabranch.theory.fluid.equilibrium import equilibrium
from anabranch.theory.network import Network, Queues

RULES = [rule["name"] for rule in rules() if rule["fluid"] and not rule["variant_of"]]


def network(rule: str, links: int = 100, flows: int = 1000, seed: int = 1) -> Network:
    """Each path crosses two links of 12 to 120 Mbps with RED queues; RTTs are 10 to 300 ms."""
    dice = np.random.default_rng(seed)
    capacity = dice.uniform(1000, 10_000, links)
    crossed = np.concatenate([dice.choice(links, 2, replace=False) for _ in range(2 * flows)])
    of_path = np.repeat(np.arange(2 * flows), 2)
    routes = sparse.csr_array((np.ones(4 * flows), (crossed, of_path)), shape=(links, 2 * flows))
    service = routes.T @ (1 / capacity)
    red = [np.array([[0.02 * c, 0.0], [0.04 * c, 0.1], [0.08 * c, 1.0]]) for c in capacity]
    return Network(
        links=[f"L{link}" for link in range(links)],
        capacity=capacity,
        queues=Queues(red, 0.08 * capacity, np.zeros(links)),
        routes=routes,
        base_rtt=dice.uniform(0.010, 0.300, 2 * flows) + service,
        service=service,
        starts=np.arange(0, 2 * flows + 1, 2, dtype=np.int64),
        algorithms=[rule] * flows,
        flows=[f"f{flow}" for flow in range(flows)],
        packet_bits=12_000.0,
        payload_bits=11_584.0,
    )


def main() -> None:
    equilibrium(network("reno", 5, 10))  # loads what is loaded once
    for rule in sys.argv[1:] or RULES:
        asked = network(rule)
        begun = time.perf_counter()
        try:
            found = equilibrium(asked)
            outcome = f"residual {found.residual:.0e}, {found.steps} steps"
        except NotConverged as error:
            outcome = str(error)
        print(f"{rule:12} {time.perf_counter() - begun:6.2f} s, {outcome}")


if __name__ == "__main__":
    main()
