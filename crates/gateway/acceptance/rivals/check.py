"""The bed itself: TCP over each of its links, without a program, beside what the link should give.

    sudo .venv/bin/python crates/gateway/acceptance/rivals/check.py 25/30+12/70

Goodput is at most the rate less the headers of packets of 1500 bytes: IPv4 20, TCP 20, timestamps
12. It is less where four connections of `cubic` do not fill a queue of 100 ms. A keystroke on an
idle link takes its RTT and what the hosts need.
"""

import sys
import tempfile
from pathlib import Path

from bed import Bed, Network, compiled
from isolation import enter
from series import three
from session import Load

SECONDS, WARM_S, IDLE_S = 8, 3, 3
PAYLOAD = 1448 / 1500
CONGESTION_CONTROL = "cubic"


def main() -> None:
    """Print a row per link."""
    try:
        network = Network.parse(sys.argv[1] if len(sys.argv) > 1 else "25/30+12/70")
    except ValueError as error:
        sys.exit(str(error))
    enter(CONGESTION_CONTROL)
    with (
        tempfile.TemporaryDirectory() as folder,
        Bed(network, CONGESTION_CONTROL, compiled(Path(folder)), Path(folder)) as bed,
    ):
        check(bed)


def check(bed: Bed) -> None:
    """Measure each link."""
    Load(bed, ()).serve()
    for number, link in enumerate(bed.network.links, 1):
        load = Load(bed, ("--source", f"10.1.{number}.2"))
        load.wait()
        _, keys = load.touch_ms(IDLE_S)
        goodput = []
        for direction in ("down", "up"):
            bulk = load.bulk(direction, 4, SECONDS)
            goodput.append(bulk.finish().mbps(bulk.begin + WARM_S, bulk.begin + SECONDS))
        print(
            f"link {number}, {link}: {goodput[0]:.1f} down and {goodput[1]:.1f} up of "
            f"{link.rate_mbps * PAYLOAD:.1f} Mbit/s; keystroke "
            f"{' / '.join(f'{value:.1f}' for value in three(keys))} ms",
            flush=True,
        )
    latest_ms = max(direction["latest_ms"] for direction in bed.counters()["directions"])
    print(f"the emulator was late by up to {latest_ms:.1f} ms")


if __name__ == "__main__":
    main()
