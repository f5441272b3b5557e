"""One of two links fails every 10 s under 100 connections with hashed data in both directions.

    sudo .venv/bin/python crates/gateway/acceptance/kills.py --seconds 300

Links of 40 and 20 Mbit/s with 20 and 60 ms, in turn down for 5 s; with `--together 3` both at once
for 3 s, every 20 s. Passes if every byte arrives unchanged; prints the longest stalls.
"""

from gateways import SOCKS, Gateways, options, verdict
from hosts import Link, load, start

EVERY_S, DOWN_S = 10, 5
FIRST_S = 15
"""The lab's age at the first failure: after the tunnel has opened."""


def main() -> None:
    """Print a line per carrier."""
    chosen = options(__doc__, seconds=300, connections=100, kbps=100.0, together=0.0)
    failures = range(FIRST_S, FIRST_S + chosen.seconds, EVERY_S)
    if chosen.together:
        downs = [[(at, at + chosen.together) for at in failures[::2]]] * 2
    else:
        downs = [[(at, at + DOWN_S) for at in failures[turn::2]] for turn in (0, 1)]
    links = [
        Link(rate, delay, down=down)
        for (rate, delay), down in zip([(40, 10), (20, 30)], downs, strict=True)
    ]
    for carrier in chosen.carrier:
        with start(links) as lab:
            lab.serve()
            gateways = Gateways(lab, carrier, chosen.algorithm)
            arguments = ["--way", f"socks={SOCKS}", "--connections", chosen.connections]
            arguments += ["--seconds", chosen.seconds, "--kbps", chosen.kbps]
            report = lab.script("hashed", "run", *arguments).report(chosen.seconds + 120)
            print(
                f"{carrier}: {report['intact']} of {report['connections']} connections intact, "
                f"{report['down_bytes'] / 1e6:.0f} MB down, {report['up_bytes'] / 1e6:.0f} MB up; "
                f"longest stall {report['stall_down_s']:.2f} s down, {report['stall_up_s']:.2f} s "
                f"up, of all connections at once {report['stall_all_s']:.2f} s; "
                f"{verdict(report['intact'] == report['connections'])}"
            )
            print(f"  errors: {report['errors']}; memory {gateways.rss_mb()} MB; {load()}")


if __name__ == "__main__":
    main()
