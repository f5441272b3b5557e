"""The cells of `links` in the simulator, beside what Linux had.

`python3 crates/kernel/kernel/benches/links/simulated.py` runs every cell of
docs/records/harm-held.csv in the simulator and prints goodput relative to the best path, which Reno
has alone: mean, least and largest of some seeds, and Linux'. `--record FILE` writes the table.
`--linux` is without the programs' hold-back, where only the simulator's figures are printed.
"""

import argparse
import csv
import statistics
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from anabranch import Scenario, run
from bed import Link
from cells import cell

RECORD = Path(__file__).parents[5] / "docs" / "records" / "harm-held.csv"
RULES = ("lia", "olia", "balia")
# Bytes of headers: IPv4, TCP with timestamps, and for several paths the data sequence signal.
ONE_PATH, SEVERAL = 52, 72


def scenario(links: list[Link], several: bool, seconds: float, settings: str) -> Scenario:
    """One bulk user over these links; `settings` are lines of `[tcp]`."""
    lines = [
        f'algorithm = "reno"\nmeasure.duration_s = {seconds}\n[tcp]\nprofile = "linux"',
        f"header_bytes = {SEVERAL if several else ONE_PATH}\n{settings}",
    ]
    for k, link in enumerate(links):
        queue = f"drop_tail.packets = {link.queue}"
        if link.policed_bytes:
            queue = f"policer = {{ rate_mbps = {link.rate_mbps}, burst_bytes = {link.policed_bytes} }}"
        lines.append(
            f"[links.L{k}]\nrate_mbps = {link.rate_mbps}\ndelay_ms = {link.rtt_ms / 2}\n"
            f"queue.{queue}\nloss.bernoulli.probability = {link.loss}"
        )
    paths = [[f"L{k}"] for k in range(len(links))]
    lines.append(f'[[flows]]\nname = "user"\npaths = {paths}\nstart_spread_s = 0')
    return Scenario.parse("\n".join(lines))


def goodput(task: tuple[list[Link], str, int, float, str]) -> float:
    """Mbps of a run; the algorithm "" is Reno over the best path."""
    links, algorithm, seed, seconds, settings = task
    if algorithm:
        found = run(scenario(links, True, seconds, settings), algorithm, seeds=[seed])
        return float(found.flows["goodput_mbps"][0])
    alone = [run(scenario([x], False, seconds, ""), "reno", seeds=[seed]) for x in links]
    return max(float(one.flows["goodput_mbps"][0]) for one in alone)


def recorded() -> Iterator[dict[str, str]]:
    """The rows of Linux' figures."""
    with RECORD.open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def main() -> None:
    """Prints a row per cell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", default=",".join(row["cell"] for row in recorded()))
    parser.add_argument("--algorithms", default=",".join(RULES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--linux", action="store_true", help="without the programs")
    parser.add_argument("--scheduler", default="linux")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    settings = f'scheduler = "{arguments.scheduler}"\n' + "\n".join(arguments.set)
    if arguments.linux:
        settings += "\nkernel_programs = false"
    known = {row["cell"]: row for row in recorded()}
    algorithms = arguments.algorithms.split(",")
    errors = []
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for name in arguments.cells.split(","):
            links = cell(name)
            tasks = [
                (links, a, seed, arguments.seconds, settings)
                for a in ("", *algorithms)
                for seed in range(1, arguments.seeds + 1)
            ]
            rates = list(pool.map(goodput, tasks))
            n = arguments.seeds
            best = statistics.mean(rates[:n])
            cells = [f"{name:5}", f"{best:6.1f} {known.get(name, {}).get('beside', ''):10}"]
            for i, a in enumerate(algorithms, 1):
                ratios = [rate / best for rate in rates[i * n : (i + 1) * n]]
                linux = known.get(name, {}).get(a)
                text = f"{statistics.mean(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
                if linux:
                    error = statistics.mean(ratios) / float(linux) - 1
                    errors.append(abs(error))
                    text += f" {float(linux):.2f} {error:+.0%}"
                cells.append(text)
            print(" | ".join(cells), flush=True)
    if errors:
        print(f"median error {statistics.median(errors):.1%}, largest {max(errors):.1%}")


if __name__ == "__main__":
    main()
