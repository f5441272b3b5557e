"""Goodput of the gateway on loopback beside its library alone, fairness, memory.

    .venv/bin/python crates/gateway/acceptance/loopback.py

Rounds of the library alone (`cargo bench -p anabranch-carrier --bench loopback -- library`) and
of downloads through both gateways alternate, and the medians are compared: at least 0.8. Then 1000
connections download at once: Jain's index of their bytes at least 0.95, and the memory of both
gateways.

On the machine's own loopback: four processes (server, far, near, client) share its processors,
while the library's two ends are one process.
"""

import statistics
import subprocess

from gateways import SOCKS, Gateways, options, verdict
from hosts import ROOT, Lab, load, this_machine

LEAST_SHARE, LEAST_JAIN = 0.8, 0.95


def library(carrier: str) -> float:
    """Goodput of the library below a carrier, Mbit/s."""
    command = ["cargo", "bench", "-q", "-p", "anabranch-carrier", "--bench", "loopback", "--"]
    done = subprocess.run(
        [*command, "library", carrier], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    return float(done.stdout)


def download(lab: Lab, connections: int, seconds: int, warmup: int) -> dict[str, object]:
    """Download from `server` through the gateways."""
    arguments = ["--way", f"socks={SOCKS}", "--connections", connections]
    arguments += ["--seconds", seconds, "--warmup", warmup]
    return lab.script("flood", "down", *arguments).report()


def main() -> None:
    """Print two lines per carrier."""
    chosen = options(__doc__, rounds=5, connections=1000, seconds=20)
    for carrier in chosen.carrier:
        with this_machine() as lab:
            lab.serve()
            library(carrier)  # builds it
            gateways = Gateways(lab, carrier, chosen.algorithm, [0])
            alone, through = [], []
            for _ in range(chosen.rounds):
                alone.append(library(carrier))
                through.append(float(download(lab, 1, 4, 1)["mbps"]))
            share = statistics.median(through) / statistics.median(alone)
            print(
                f"{carrier}: library {statistics.median(alone):.0f} Mbit/s "
                f"({min(alone):.0f} to {max(alone):.0f}), gateway "
                f"{statistics.median(through):.0f} ({min(through):.0f} to {max(through):.0f}): "
                f"{share:.2f}; {verdict(share >= LEAST_SHARE)}; {load()}",
                flush=True,
            )
            before = gateways.rss_mb()
            report = download(lab, chosen.connections, chosen.seconds, chosen.seconds // 4)
            during = gateways.rss_mb()
            holds = report["jain"] >= LEAST_JAIN and not report["failed"]
            print(
                f"{carrier}: {report['connections']} connections, {report['failed']} failed, "
                f"{report['mbps']:.0f} Mbit/s, Jain's index {report['jain']:.3f}; memory of near, "
                f"far {before} MB before, {during} MB after; {verdict(holds)}; {load()}"
            )


if __name__ == "__main__":
    main()
