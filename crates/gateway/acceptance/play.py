"""Delay of a game's UDP through the gateway while bulk data runs.

    sudo .venv/bin/python crates/gateway/acceptance/play.py

60 packets per second over links of 40 and 20 Mbit/s, 20 and 60 ms RTT, through UDP ASSOCIATE, and
at the same time directly over each path, so that these have the same queues. Passes if the 99th
percentile of the one-way delay is at most 20 ms above the best path's of the same time. Beside bulk
data it also opens connections, one after the other.
"""

import sys

from gateways import SOCKS, Gateways, options, verdict
from hosts import HERE, Lab, Link, address, load, start

LINKS = [Link(40, 10), Link(20, 30)]
MARGIN_MS = 20
OPENED = 25


def delays(lab: Lab, seconds: int) -> dict[str, dict[str, object]]:
    """The reports of the tunnel and of each path, measured at the same time."""
    ways = {"tunnel": f"socks={SOCKS}"} | {
        f"path{path}": f"from={address(path)}" for path in range(len(LINKS))
    }
    running = {
        name: lab.script("game", "play", "--way", way, "--seconds", seconds)
        for name, way in ways.items()
    }
    return {name: program.report() for name, program in running.items()}


def main() -> None:
    """Print a table."""
    chosen = options(__doc__, seconds=20, connections=4)
    print("99th percentile (median) of the one-way delay, ms; share lost")
    for carrier in chosen.carrier:
        with start(LINKS) as lab:
            lab.serve()
            Gateways(lab, carrier, chosen.algorithm)
            for bulk in ("", "down", "up"):
                if bulk:
                    arguments = ["--connections", chosen.connections, "--seconds"]
                    arguments += [chosen.seconds + 8, "--way", f"socks={SOCKS}"]
                    running = lab.script("flood", bulk, *arguments)
                    lab.run("near", ["sleep", "4"])
                    opening = lab.spawn("near", [sys.executable, *opening_arguments(lab)])
                reports = delays(lab, chosen.seconds)
                for direction in ("down", "up"):
                    print(row(carrier, bulk or "none", direction, reports), flush=True)
                if bulk:
                    times = opening.report()
                    print(
                        f"  bulk {bulk}: {running.report()['mbps']:.1f} Mbit/s; a connection opens "
                        f"in {times['p50']:.0f} ms, 9 of 10 in {times['p90']:.0f} ms; {load()}"
                    )


def opening_arguments(lab: Lab) -> list[object]:
    """The arguments of Python that open connections through the tunnel."""
    return [HERE / "ways.py", f"socks={SOCKS}", lab.server, "7000", OPENED]


def row(carrier: str, bulk: str, direction: str, reports: dict[str, dict[str, object]]) -> str:
    """One direction of one measurement."""
    of = {name: report[f"{direction}_ms"] for name, report in reports.items()}
    best = min(delay["p99"] for name, delay in of.items() if name != "tunnel")
    cells = [
        f"{name} {delay['p99']:7.2f} ({delay['p50']:6.2f}) {reports[name]['lost']:5.1%}"
        for name, delay in of.items()
    ]
    holds = of["tunnel"]["p99"] <= best + MARGIN_MS
    return f"{carrier:6} bulk {bulk:4} {direction:4} {'  '.join(cells)}  {verdict(holds)}"


if __name__ == "__main__":
    main()
