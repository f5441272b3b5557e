"""Shares of many named users in the simulator, beside the equilibrium of their rule, as CSV.

    .venv/bin/python benches/theory/users_in_packets.py [users] [rule,...] [Mbps] [queue]

Each user has two paths at random of one or two of 50 links, as in scale.py, with a capacity of 5
Mbps a user: with LIA 80 % of the windows are between 6 and 30 packets. A deviation is that of a
user's share in the simulator, a mean over 260 s of two seeds, from the equilibrium's; that of the
seeds is a share's with one seed from its share with the other.
"""

import sys

import numpy as np
from scale import random_routes

import anabranch
from anabranch.theory.fluid.equilibrium import equilibrium
from anabranch.theory.network import Network

LINKS = 50
QUEUES = {
    "drop_tail": "drop_tail.packets = 300",
    "drop_tail, jitter 1 ms": "drop_tail.packets = 300",
    "red": "red = { min_packets = 150, mid_packets = 450, max_packets = 900, "
    "mid_probability = 0.02 }",
}
RULES = "reno,ewtcp:a=0.5,lia,balia,olia"
DURATION_S, WARMUP_S = 300, 40
SEEDS = [1, 2]


def scenario(users: int, mbps: float, queue: str) -> anabranch.Scenario:
    """The users and their links."""
    delay_ms = np.random.default_rng(2).uniform(5, 60, LINKS)
    text = f"""
algorithm = "reno"
seeds = {SEEDS}
measure = {{ duration_s = {DURATION_S}, warmup_s = {WARMUP_S}, sample_ms = 100000 }}
tcp.header_bytes = 0
tcp.host_jitter_us = {1000 if "jitter" in queue else 0}
"""
    for link in range(LINKS):
        text += f"""
[links.L{link}]
rate_mbps = {mbps * users / LINKS:g}
delay_ms = {delay_ms[link]:.3f}
queue.{QUEUES[queue]}
"""
    routes = random_routes(users, LINKS)
    for user in range(users):
        paths = ", ".join(
            f"{{ links = {[f'L{link}' for link in route]}, "
            f"return_delay_ms = {delay_ms[route].sum():.3f} }}"
            for route in routes[2 * user : 2 * user + 2]
        )
        text += f"""
[[flows]]
name = "u{user}"
paths = [{paths}]
start_spread_s = 10
"""
    return anabranch.Scenario.parse(text, "users in packets")


def row(asked: anabranch.Scenario, queue: str, rule: str) -> str:
    """The row of a rule."""
    result = anabranch.run(asked, [rule], SEEDS)
    network = Network.of(asked, result.algorithms[0])
    found = equilibrium(network)
    goodput = result.flows.pivot(index="seed", columns="flow", values="goodput_mbps")
    shares = goodput[network.flows].to_numpy()
    shares = shares / shares.sum(axis=1, keepdims=True)
    off = np.abs(shares.mean(axis=0) / found.share - 1)
    of_seeds = np.abs(shares[1] / shares[0] - 1)
    links = result.links
    numbers = [
        *np.percentile(off, [50, 90, 100]),
        np.mean(off <= 0.1),
        *np.percentile(of_seeds, [50, 90]),
    ]
    dropped = links[["dropped_overflow", "dropped_red"]].to_numpy().sum()
    lost = dropped / links["arrived_packets"].sum()
    windows = np.percentile(found.window, [10, 50, 90])
    fields = [
        f'"{queue}"',
        rule,
        str(network.users),
        *(f"{100 * number:.1f}" for number in numbers),
        f"{100 * lost:.2f}",
        f"{100 * (found.loss * found.load).sum() / found.load.sum():.2f}",
        " ".join(f"{window:.0f}" for window in windows),
        "yes" if found.isolated else "open",
    ]
    return ",".join(fields)


def main(
    users: str = "2000", rules: str = RULES, mbps: str = "5", queue: str = "drop_tail"
) -> None:
    """Print the rows."""
    asked = scenario(int(users), float(mbps), queue)
    print(
        'queue,rule,users,"median, %","90th percentile, %","worst, %","within 10 %, %",'
        '"median of the seeds, %","90th percentile of the seeds, %","lost, %",'
        '"lost in the equilibrium, %","windows, 10th 50th 90th percentile",isolated'
    )
    for rule in rules.split(","):
        print(row(asked, queue, rule), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
