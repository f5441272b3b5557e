"""Equilibria and optimum of many users: residual, seconds and memory of each, as CSV.

    .venv/bin/python benches/theory/scale.py [users,...] [rule,...] [GRAPH.json ...]

Users of two paths at random over links with 20 Mbps for each user and a drop-tail queue of 300
packets: paths of one or two links of 5 to 60 ms, of 100 users a link, or of the least hops in
graphs, which need networkx (such as those of PyPI's topohub). Each row is a process of its own.
"""

import json
import resource
import sys
import time
from dataclasses import replace
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from scipy import sparse

from anabranch.theory.errors import NotConverged
from anabranch.theory.fluid.newton import search
from anabranch.theory.network import Network, Queues
from anabranch.theory.optimum.maximise import AlphaFair, Problem, solve

USERS = (1000, 5000, 20_000, 100_000)
RULES = (
    "reno,multcp:kappa=2,ewtcp:a=0.5,coupled,semicoupled,lia,olia,linked:phi=0.5,balia,generalized,"
    "rsf-db,rsf-lb:mu=0.5,optimum"
)
PACKET_BITS = 12_000.0


def random_routes(users: int, links: int) -> list[list[int]]:
    """Two paths of each user, of one or two links."""
    dice = np.random.default_rng(1)
    return [
        dice.choice(links, int(dice.integers(1, 3)), replace=False).tolist()
        for _ in range(2 * users)
    ]


def graph_routes(file: str, users: int) -> tuple[list[list[int]], int]:
    """Paths of the least hops from two random nodes to a third, and the number of links."""
    import networkx

    graph = networkx.Graph()
    graph.add_edges_from(
        (e["source"], e["target"]) for e in json.loads(Path(file).read_text())["edges"]
    )
    graph = graph.subgraph(max(networkx.connected_components(graph), key=len))
    links = {frozenset(edge): number for number, edge in enumerate(graph.edges)}
    paths, nodes = dict(networkx.all_pairs_shortest_path(graph)), list(graph.nodes)
    dice, routes = np.random.default_rng(1), list[list[int]]()
    for _ in range(users):
        *sources, end = dice.choice(len(nodes), size=3, replace=False)
        for source in sources:
            way = paths[nodes[source]][nodes[end]]
            routes.append([links[frozenset(hop)] for hop in pairwise(way)])
    return routes, len(links)


def network(routes: list[list[int]], links: int) -> Network:
    """Users of two of the routes each."""
    users = len(routes) // 2
    rows = np.concatenate(routes)
    columns = np.repeat(np.arange(2 * users), [len(route) for route in routes])
    shape = (links, 2 * users)
    matrix = sparse.csr_array(sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape=shape))
    capacity = np.full(links, 20e6 * users / links / PACKET_BITS)
    service = matrix.T @ (1 / capacity)
    delay = np.random.default_rng(2).uniform(0.005, 0.060, links)
    return Network(
        links=[f"l{link}" for link in range(links)],
        capacity=capacity,
        queues=Queues([None] * links, np.full(links, 300.0), np.zeros(links)),
        routes=matrix,
        base_rtt=2 * (matrix.T @ delay) + service,
        service=service,
        starts=np.arange(0, 2 * users + 1, 2, dtype=np.int64),
        algorithms=["reno"] * users,
        flows=[f"u{user}" for user in range(users)],
        packet_bits=PACKET_BITS,
        payload_bits=PACKET_BITS,
    )


def measure(name: str, users: int, rule: str) -> str:
    """A row of the table."""
    if name == "random":
        links = max(users // 100, 50)
        routes = random_routes(users, links)
    else:
        routes, links = graph_routes(name, users)
    asked = replace(network(routes, links), algorithms=[rule] * users)
    begin = time.perf_counter()
    try:
        if rule == "optimum":
            best = solve(Problem.of(asked), AlphaFair())
            residual, steps = best.gap, str(best.iterations)
        else:
            found = search(asked)
            residual, steps = found.residual, str(found.steps)
    except NotConverged as error:
        residual, steps = error.residual, "not found"
    seconds = time.perf_counter() - begin
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    label = Path(name).stem
    return f"{label},{users},{links},{rule},{residual:.1e},{steps},{seconds:.1f},{mib:.0f}"


def main(users: str = "", rules: str = RULES, *graphs: str) -> None:
    """Print the rows."""
    sizes = [int(size) for size in users.split(",")] if users else USERS
    print("network,users,links,rule,residual,steps,seconds,MiB", flush=True)
    for name in graphs or ("random",):
        for size in sizes:
            for rule in rules.split(","):
                with get_context("spawn").Pool(1) as pool:
                    print(pool.apply(measure, (name, size, rule)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
