"""Mixed traffic for 20 minutes, and the memory of both gateways.

    sudo .venv/bin/python crates/gateway/acceptance/soak.py --seconds 1200

Hashed connections come and go in both directions beside a game and bulk data. Passes if every
connection is intact and the memory of the last third exceeds the second third's by at most 5 %.
"""

import time

from gateways import SOCKS, Gateways, options, verdict
from hosts import Link, load, start

ROUND_S = 20


def main() -> None:
    """Print the memory each minute, and a line per carrier."""
    chosen = options(__doc__, seconds=1200, connections=50)
    for carrier in chosen.carrier:
        with start([Link(40, 10), Link(20, 30)]) as lab:
            lab.serve()
            gateways = Gateways(lab, carrier, chosen.algorithm)
            way = ["--way", f"socks={SOCKS}"]
            begin = time.monotonic()
            memory: list[tuple[float, float]] = []
            rounds = intact = connections = 0
            while time.monotonic() - begin < chosen.seconds:
                count = ["--connections", chosen.connections, "--seconds", ROUND_S - 5]
                hashed = lab.script("hashed", "run", *way, *count, "--kbps", 200)
                game = lab.script("game", "play", *way, "--seconds", ROUND_S - 5)
                direction = ("down", "up")[rounds % 2]
                bulk = lab.script("flood", direction, *way, "--seconds", ROUND_S - 8)
                for program in (bulk, game):
                    program.report()
                report = hashed.report()
                intact += report["intact"]
                connections += report["connections"]
                rounds += 1
                memory.append(gateways.rss_mb())
                if rounds % 3 == 0:
                    age_s = time.monotonic() - begin
                    print(f"  {age_s:5.0f} s: near, far {memory[-1]} MB; {load()}", flush=True)
            third = max(1, len(memory) // 3)
            growth = [
                max(now[side] for now in memory[-third:])
                / max(now[side] for now in memory[-2 * third : -third] or memory[-third:])
                - 1
                for side in (0, 1)
            ]
            holds = intact == connections and max(growth) <= 0.05
            print(
                f"{carrier}: {intact} of {connections} connections intact; memory of the last "
                f"third beside the second: near {growth[0]:+.1%}, far {growth[1]:+.1%}; "
                f"{verdict(holds)}"
            )


if __name__ == "__main__":
    main()
