"""Bulk goodput of the gateway over two links, up and down, beside the faster link alone.

    sudo .venv/bin/python crates/gateway/acceptance/goodput.py --carrier quic

A case passes if the goodput is at least 95 % of the sum of the links' rates less headers (40 + 20
Mbit/s), or not below the same gateway's over the faster link alone (the other cases; for
these the margin is 2 %, because both are measured). `idle` is the share of this machine's processor
time that was left. `--direct 1` measures plain TCP over each link instead, without a gateway.
"""

from pathlib import Path

from gateways import SOCKS, Gateways, options, payload_share, verdict
from hosts import Lab, Link, address, load, start

CASES = {
    "40 + 20": ([Link(40, 10), Link(20, 30)], True),
    "800 + 100": ([Link(800, 10), Link(100, 15)], False),
    "400 + 50": ([Link(400, 10), Link(50, 15)], False),
    "40 + 2, 300 ms": ([Link(40, 10), Link(2, 150)], False),
}
"""Links, RTT twice their delay, and whether the sum is expected or only the faster link."""


def goodput(lab: Lab, way: str, direction: str, connections: int, seconds: int) -> float:
    """Goodput after a third of the time, Mbit/s."""
    arguments = ["--way", way, "--connections", connections, "--seconds", seconds]
    arguments += ["--warmup", seconds / 3]
    report = lab.script("flood", direction, *arguments).report()
    if report["failed"]:
        print(f"  {report['failed']} of {connections} connections failed")
    return float(report["mbps"])


def main() -> None:
    """Print a table."""
    chosen = options(__doc__, seconds=15, connections=4, case="", direct=0)
    print(f"{'links, Mbit/s':16} {'carrier':12} {'alone':>7} {'both':>7} {'share':>7} {'idle':>5}")
    for name, (links, expects_sum) in CASES.items():
        if chosen.case not in name:
            continue
        if chosen.direct:
            direct(links, chosen.connections, chosen.seconds)
            continue
        for carrier in chosen.carrier:
            alone = measure(links, carrier, [0], chosen)
            both = measure(links, carrier, [0, 1], chosen)
            for direction, (mbps, idle) in both.items():
                most = sum(link.rate_mbps for link in links) * payload_share(carrier)
                share = mbps / most
                fastest = alone[direction][0]
                holds = share >= 0.95 if expects_sum else mbps >= 0.98 * fastest
                print(
                    f"{name:16} {carrier:7} {direction:4} {fastest:7.2f} {mbps:7.2f} "
                    f"{share:7.1%} {idle:5.0%} {verdict(holds)}  {load()}",
                    flush=True,
                )


def measure(
    links: list[Link], carrier: str, paths: list[int], chosen: object
) -> dict[str, tuple[float, float]]:
    """Goodput in both directions over some of the paths, and the processors' idle share."""
    with start(links) as lab:
        lab.serve()
        Gateways(lab, carrier, chosen.algorithm, paths)
        measured = {}
        for direction in ("down", "up"):
            idle, total = processor_time()
            way = f"socks={SOCKS}"
            mbps = goodput(lab, way, direction, chosen.connections, chosen.seconds)
            idle_now, total_now = processor_time()
            measured[direction] = mbps, (idle_now - idle) / (total_now - total)
        return measured


def processor_time() -> tuple[int, int]:
    """Idle time of all processors, and all their time, in ticks."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split()[1:9]]
    return ticks[3], sum(ticks)


def direct(links: list[Link], connections: int, seconds: int) -> None:
    """Plain TCP over each link."""
    with start(links) as lab:
        lab.serve()
        for path, link in enumerate(links):
            for direction in ("down", "up"):
                mbps = goodput(lab, f"from={address(path)}", direction, connections, seconds)
                print(
                    f"{link.rate_mbps:<16g} TCP     {direction:4} {mbps:7.2f}  {load()}", flush=True
                )


if __name__ == "__main__":
    main()
