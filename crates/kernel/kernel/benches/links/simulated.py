"""The cells of `links` in the simulator, beside what Linux had.

`python3 crates/kernel/kernel/benches/links/simulated.py` runs the cells of the record `harm-held`
with profile `linux` and prints goodput relative to the best path, which Reno has alone: mean (least
to largest) of the seeds, and Linux' one run with the programs. `--record FILE` writes the table.
`--algorithms reno` is beside two runs of Linux' own Reno (14 s; t6: 30 s), without programs.
"""

import argparse
import csv
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from bed import Link
from cells import cell

from anabranch import Scenario, run

RECORD = Path(__file__).parents[5] / "docs" / "records" / "harm-held.csv"
# Linux 6.18 on 27 November 2026, as the record.
RENO = {
    "q": (0.72, 0.88),
    "v3l": (0.72, 0.94),
    "v4l": (0.57, 0.66),
    "sat": (0.32, 0.32),
    "big": (0.82, 0.85),
    "t6": (0.23, 0.23),
}
# Bytes of headers: IPv4, TCP with timestamps, and over several paths the data sequence signal.
ONE_PATH, SEVERAL = 52, 72
BEST = ""


def scenario(links: list[Link], seconds: float, tcp: str) -> Scenario:
    """One bulk user over these links; `tcp` are lines of `[tcp]`."""
    header = SEVERAL if len(links) > 1 else ONE_PATH
    lines = [
        f'algorithm = "reno"\nmeasure.duration_s = {seconds}',
        f'[tcp]\nprofile = "linux"\nheader_bytes = {header}\n{tcp}',
    ]
    for k, link in enumerate(links):
        rate, queue = link.rate_mbps, f"drop_tail.packets = {link.queue}"
        if link.policed_bytes:
            queue = f"policer = {{ rate_mbps = {rate}, burst_bytes = {link.policed_bytes} }}"
            rate = 1000
        lines.append(
            f"[links.L{k}]\nrate_mbps = {rate}\ndelay_ms = {link.rtt_ms / 2}\nqueue.{queue}\n"
            f"loss.bernoulli.probability = {link.loss}"
        )
    paths = [[f"L{k}"] for k in range(len(links))]
    lines.append(f'[[flows]]\nname = "user"\npaths = {paths}\nstart_spread_s = 0')
    return Scenario.parse("\n".join(lines))


def goodput(task: tuple[list[Link], str, int, float, str]) -> float:
    """Mbps of a run, or of Reno over the best path (`BEST`)."""
    links, algorithm, seed, seconds, tcp = task

    def mbps(links: list[Link], rule: str, tcp: str) -> float:
        found = run(scenario(links, seconds, tcp), rule, seeds=[seed])
        return float(found.flows["goodput_mbps"][0])

    if algorithm == BEST:
        return max(mbps([link], "reno", "") for link in links)
    return mbps(links, algorithm, tcp)


def of_linux(name: str, algorithm: str, rows: dict[str, dict[str, str]]) -> tuple[float, ...]:
    """Linux' ratios, least and largest."""
    if algorithm == "reno":
        return RENO.get(name, ())
    ratio = rows.get(name, {}).get(algorithm)
    return (float(ratio), float(ratio)) if ratio else ()


def options(cells: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", default=",".join(cells))
    parser.add_argument("--algorithms", default="lia,olia,balia")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of [tcp]")
    parser.add_argument("--record", type=Path, metavar="FILE.csv")
    return parser.parse_args()


def main() -> None:
    """Prints a row per cell."""
    with RECORD.open(newline="", encoding="utf-8") as file:
        rows_of_linux = list(csv.DictReader(file))
    known = {row["cell"]: row for row in rows_of_linux if row["measure"].startswith("goodput")}
    arguments = options(list(known))
    algorithms, seeds = arguments.algorithms.split(","), range(1, arguments.seeds + 1)
    tcp, seconds = "\n".join(arguments.set), arguments.seconds
    rows, errors = [], []
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for name in arguments.cells.split(","):
            tasks = [(cell(name), a, s, seconds, tcp) for a in (BEST, *algorithms) for s in seeds]
            rates = dict(zip([task[1:3] for task in tasks], pool.map(goodput, tasks), strict=True))
            best = statistics.mean(rates[BEST, s] for s in seeds)
            row = {"cell": name, "best_mbps": f"{best:.1f}"}
            for a in algorithms:
                ratios = [rates[a, s] / best for s in seeds]
                mean = statistics.mean(ratios)
                row[a] = f"{mean:.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
                if linux := of_linux(name, a, known):
                    row[f"{a} in Linux"] = " to ".join(f"{x:.2f}" for x in dict.fromkeys(linux))
                    errors.append(abs(mean / min(max(mean, linux[0]), linux[1]) - 1))
            rows.append(row)
            print(" | ".join(row.values()), flush=True)
    if arguments.record:
        with arguments.record.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    if not errors:
        sys.exit("simulated: Linux has no figures of these cells and algorithms")
    print(f"from Linux' range: median {statistics.median(errors):.1%}, most {max(errors):.1%}")


if __name__ == "__main__":
    main()
