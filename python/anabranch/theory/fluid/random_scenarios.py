"""Scenarios generated from a seed, for the comparison of packets with the fluid model."""

import numpy as np

from anabranch.scenario import Scenario

PACKET_BITS = 12_000
WINDOW = (15.0, 40.0)
"""The window of a path with its part of a full link, packets: loss is about 2 / w^2, so between
1e-3 and 1e-2 there."""
RTT_S = (0.010, 0.300)

TEXT = """\
name = "generated {seed}"
description = "{links} links, {users} flows"
algorithm = "reno"
seeds = [1, 2, 3]

[measure]
duration_s = {duration_s:g}
warmup_s = {warmup_s:g}
sample_ms = 1000

[tcp]
header_bytes = 0
"""

LINK = """
[links.L{number}]
rate_mbps = {rate_mbps:.6g}
delay_ms = 1
[links.L{number}.queue.red]
min_packets = {least:.0f}
mid_packets = {middle:.0f}
max_packets = {most:.0f}
mid_probability = 0.02
"""

FLOW = """
[[flows]]
name = "f{number}"
paths = [{paths}]
start_spread_s = 10
{algorithm}"""


def scenario(seed: int, duration_s: float = 800.0, warmup_s: float = 200.0) -> Scenario:
    """2 to 6 links, 2 to 20 flows, RTTs of 10 to 300 ms, RED queues with low loss.

    About half of the flows have one path and run NewReno, the others two or three; a path crosses
    one link or two. A link's rate gives its paths windows of tens of packets. Its queue drops few
    packets, with a slope so small that it neither empties nor oscillates.
    """
    dice = np.random.default_rng(seed)
    links, users = int(dice.integers(2, 7)), int(dice.integers(2, 21))
    flows = [_routes(dice, links, first=user) for user in range(users)]
    rtts = [_log_uniform(dice, RTT_S, len(flow)) for flow in flows]
    demand, crossing = np.zeros(links), np.zeros(links)
    for flow, rtt in zip(flows, rtts, strict=True):
        for route, seconds in zip(flow, rtt, strict=True):
            demand[route] += 1 / seconds / len(flow)
            crossing[route] += 1 / len(flow)
    used = np.flatnonzero(demand)
    target = _log_uniform(dice, WINDOW, links)
    text = TEXT.format(
        seed=seed, links=len(used), users=users, duration_s=duration_s, warmup_s=warmup_s
    )
    for link in used:
        rate, in_flight = target[link] * demand[link], target[link] * crossing[link]
        # Packets in flight over the square root of the number of flows (Appenzeller 2004).
        least = in_flight / np.sqrt(crossing[link])
        text += LINK.format(
            number=link,
            rate_mbps=rate * PACKET_BITS / 1e6,
            least=least,
            middle=3 * least,
            most=6 * least,
        )
    for number, (flow, rtt) in enumerate(zip(flows, rtts, strict=True)):
        paths = ", ".join(_path(route, seconds) for route, seconds in zip(flow, rtt, strict=True))
        own = "" if len(flow) > 1 else 'algorithm = "reno"\n'
        text += FLOW.format(number=number, paths=paths, algorithm=own)
    return Scenario.parse(text, f"generated {seed}")


def _routes(dice: np.random.Generator, links: int, first: int) -> list[list[int]]:
    """The distinct routes of one flow. The first begins at link `first`, if there is one."""
    # The first flow has two paths, so that there is something to couple.
    wanted = 2 if first == 0 else int(dice.choice([1, 2, 3], p=[0.5, 0.4, 0.1]))
    routes: list[list[int]] = []
    while len(routes) < wanted:
        hops = int(dice.choice([1, 2], p=[0.7, 0.3]))
        route = [int(link) for link in dice.choice(links, hops, replace=False)]
        if not routes and first < links:
            route = [first, *(link for link in route[1:] if link != first)]
        if sorted(route) not in [sorted(other) for other in routes]:
            routes.append(route)
    return routes


def _log_uniform(dice: np.random.Generator, bounds: tuple[float, float], size: int) -> np.ndarray:
    low, high = np.log(bounds)
    return np.asarray(np.exp(dice.uniform(low, high, size)))


def _path(route: list[int], rtt_s: float) -> str:
    names = ", ".join(f'"L{link}"' for link in route)
    return f"{{ links = [{names}], return_delay_ms = {1e3 * rtt_s - len(route):.3f} }}"
