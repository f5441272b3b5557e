"""The mean length of a full drop-tail queue in the simulator, and its shares in the fluid model.

The queue of docs/notebook/theory-fluid.md, and its loss. `python benches/standing_queue.py`
"""

import anabranch
from anabranch.theory.fluid import model
from anabranch.theory.fluid.equilibrium import equilibrium
from anabranch.theory.network import Network

BDP = 120  # packets: 24 Mbps, 60 ms

HEAD = """
algorithm = "reno"
seeds = [1, 2]
[measure]
duration_s = 200
warmup_s = 50
[links.L]
rate_mbps = 24
delay_ms = 10
queue.drop_tail = {{ packets = {limit} }}
"""

FLOW = """
[[flows]]
name = "f{number}"
paths = [{{ links = ["L"], return_delay_ms = {back} }}]
start_spread_s = 5
"""


def main() -> None:
    print(
        "flows, limit/BDP: queue/limit, utilisation, loss, share of the shortest RTT over longest"
    )
    for flows in (1, 4, 16):
        for size in (0.5, 1, 2):
            limit = int(size * BDP)
            text = HEAD.format(limit=limit)
            for number in range(flows):
                text += FLOW.format(number=number, back=30 + 40 * (number + 0.5) / flows)
            compare(anabranch.Scenario.parse(text), flows, size, limit)


def compare(scenario: anabranch.Scenario, flows: int, size: float, limit: int) -> None:
    result = anabranch.run(scenario)
    link = result.links.mean(numeric_only=True)
    shares = result.flows.groupby("flow", sort=False)["goodput_mbps"].mean()
    print(
        f"{flows:2} {size:3}: {link.queue_packets / limit:.2f}, {link.utilization:.3f}, "
        f"{link.loss_probability:.5f}, {shares.iloc[0] / shares.iloc[-1]:.2f}"
    )
    for standing in (0.6, 0.8, 1.0):
        model.STANDING_SHARE = standing
        found = equilibrium(Network.of(scenario))
        print(
            f"    fluid, {standing} of the limit: loss {found.loss[0]:.5f}, "
            f"shares {found.share[0] / found.share[-1]:.2f}"
        )


if __name__ == "__main__":
    main()
