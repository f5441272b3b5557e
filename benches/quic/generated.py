"""Generated networks: goodput over QUIC and others (docs/notebook/quic-measured.md).

A network has 3 to 6 links and 2 to 5 flows of one to three users, each with 1 to 3 paths of one or
two links; its number is the seed. The fourth column is the simulator with what is known of QUIC:
headers, and acknowledgements that return over the first path. What then remains is not explained.

    .venv/bin/python benches/quic/generated.py
    .venv/bin/python benches/quic/generated.py --networks 10 --algorithms lia
"""

import argparse
import random
from typing import Any

import anabranch

HEADER_BYTES = 62
"""Headers in a packet of 1500 bytes: IP and UDP, QUIC's short header and tag, the head of a STREAM
frame."""


def network(seed: int) -> dict[str, Any]:
    """Links (Mbps, ms) and flows (users, paths as lists of links) of a random network."""
    draw = random.Random(seed)
    names = "ABCDEF"[: draw.randint(3, 6)]
    links = {name: (draw.randint(5, 40), draw.randint(2, 60)) for name in names}
    flows = []
    for _ in range(draw.randint(2, 5)):
        paths: list[list[str]] = []
        for _ in range(draw.randint(1, 3)):
            path = sorted(draw.sample(names, draw.randint(1, 2)))
            if path not in paths:
                paths.append(path)
        flows.append((draw.randint(1, 3), paths))
    return {"links": links, "flows": flows}


def toml(net: dict[str, Any], as_quic: bool) -> str:
    """The network as a scenario; `as_quic` with the headers and return delays of QUIC."""
    lines = ["algorithm = 'lia'", "tcp.min_ssthresh_packets = 1"]
    lines += ["measure = { duration_s = 80, warmup_s = 20, sample_ms = 1000 }"]
    if as_quic:
        lines.append(f"tcp.header_bytes = {HEADER_BYTES}")
    for name, (rate_mbps, delay_ms) in net["links"].items():
        lines.append(
            f"links.{name} = {{ rate_mbps = {rate_mbps}, delay_ms = {delay_ms}, queue.red = {{}} }}"
        )
    for number, (users, paths) in enumerate(net["flows"]):
        delay_ms = sum(net["links"][link][1] for link in paths[0])
        returns = f", return_delay_ms = {delay_ms}" if as_quic else ""
        listed = ", ".join(f"{{ links = {path}{returns} }}" for path in paths)
        lines += ["[[flows]]", f"name = 'f{number}'", f"count = {users}"]
        lines += [f"paths = [{listed}]", "start_spread_s = 1"]
    return "\n".join(lines)


def goodput(
    net: dict[str, Any], algorithm: str, seeds: int, on: str, as_quic: bool = False
) -> dict[tuple[str, int], float]:
    """Goodput of a user, Mbps, by flow and path; path -1 is the sum."""
    scenario = anabranch.Scenario.parse(toml(net, as_quic))
    result = anabranch.run(scenario, algorithm, seeds, on=on)
    by_path = result.paths.groupby(["flow", "path"])["goodput_mbps"].mean()
    rates = {(str(flow), int(path)): float(rate) for (flow, path), rate in by_path.items()}
    for flow in {flow for flow, _ in rates}:
        rates[flow, -1] = sum(rate for (other, path), rate in rates.items() if other == flow)
    return rates


def main() -> None:
    """Print a table per network and algorithm."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--networks", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--algorithms", default="reno,lia,olia,balia")
    options = parser.parse_args()
    for seed in range(1, options.networks + 1):
        net = network(seed)
        print(f"\nNetwork {seed}: {net['links']}")
        for number, (users, paths) in enumerate(net["flows"]):
            print(f"  f{number}: {users} users, {' or '.join('+'.join(path) for path in paths)}")
        for algorithm in options.algorithms.split(","):
            columns = [
                goodput(net, algorithm, options.seeds, "sim"),
                goodput(net, algorithm, 1, "equilibrium"),
                goodput(net, algorithm, options.seeds, "quic"),
                goodput(net, algorithm, options.seeds, "sim", as_quic=True),
            ]
            print(f"\n| {algorithm} | sim | equilibrium | quic | sim as quic | q/s | q/s' |")
            for key in sorted(columns[0]):
                sim, _, quic, as_quic = (column[key] for column in columns)
                name = key[0] if key[1] < 0 else f"{key[0]}, path {key[1]}"
                values = " | ".join(f"{column[key]:.2f}" for column in columns)
                change, left = quic / sim - 1, quic / as_quic - 1
                print(f"| {name} | {values} | {change:+.0%} | {left:+.0%} |", flush=True)


if __name__ == "__main__":
    main()
