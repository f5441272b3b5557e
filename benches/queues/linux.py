"""CoDel, FQ-CoDel, PIE and DualPI2 of the links beside Linux' own.

    .venv/bin/python benches/queues/linux.py [seconds] [seeds]

The first call downloads the source of Debian's newest kernel and makes User Mode Linux of it
(`guest/kernel`: some minutes); its time is virtual, so a busy machine changes nothing. Packets are
sent at drawn times through a link whose queue is Linux' (`guest/init`, `guest/replay.c`), and those
which arrive show how long they waited and whether they are marked. The times at which they were
sent then go through `cargo run -p anabranch-net --example queue`. Sizes include the Ethernet header
in both; parameters are the defaults of both, which are the published ones, but that CoDel and PIE
are told to mark. FQ-CoDel has a queue per flow in both. `drop_tail` shows what the method adds.
PIE and DualPI2 are also compared with the pseudocode (`pseudocode.py`) with what Linux does
otherwise: the delay of PIE is the wait of the last packet that left; DualPI2 drops and marks
nothing by its probability while less than two packets wait, and its step also marks a packet behind
which none waits.

Printed for each queue: median and 95th percentile of the wait, drops and marks of all seeds
together, Linux' and the link's with the deviation; then the deviation's smallest and largest value
among the seeds, and Linux' own between two runs with the same arrivals: its random numbers.
"""

import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from arrivals import MTU, RATE_MBPS, Fates, Packet, arrivals, by_link
from pseudocode import PSEUDOCODE, DualPi2Queue, PieQueue, by_pseudocode

ROOT = Path(__file__).parents[2]
GUEST = Path(__file__).parent / "guest"
KERNEL = ROOT / "target" / "user-mode-linux"

ETHERNET_BYTES = 14

QUEUES = {
    "drop_tail": ("pfifo limit 1000", ""),
    "codel": ("codel", "ecn"),
    "fq_codel": ("fq_codel", ""),
    "pie_derandomized": ("pie", "ecn"),
    "dualpi2": ("dualpi2", ""),
}
"""Linux' queue with its options for each of a link, and the option that makes it mark."""


class DualPi2OfLinux(DualPi2Queue):
    TH_LEN, MIN_BYTES = -1, 2 * MTU


class PieOfLinux(PieQueue):
    waited = 0.0

    def deque(self, now: float) -> Packet | None:
        packet = super().deque(now)
        if packet:
            self.waited = now - packet.at if len(self) else 0.0
        return packet

    def current_qdelay(self) -> float:
        return self.waited


OF_LINUX = {"pie_derandomized": "pie_of_linux", "dualpi2": "dualpi2_of_linux"}
PSEUDOCODE["pie_of_linux"] = lambda fates: PieOfLinux(fates, derandomize=True)
PSEUDOCODE["dualpi2_of_linux"] = DualPi2OfLinux


@dataclass(frozen=True)
class Run:
    queue: str
    capable: bool
    seed: int
    repeat: int

    @property
    def arrivals(self) -> str:
        return f"arrivals-{self.capable:d}-{self.seed}"

    @property
    def name(self) -> str:
        return f"{self.queue}-{self.capable:d}-{self.seed}-{self.repeat}"

    def line(self) -> str:
        queue, marks = QUEUES[self.queue]
        options = f"{queue} {marks if self.capable else ''}"
        return f"{self.name} {self.arrivals} {1000 * RATE_MBPS:.0f} {options}\n"


def linux(runs: Sequence[Run], seconds: float, folder: Path) -> None:
    """Makes all runs in Linux; their results are in the folder."""
    subprocess.run([GUEST / "kernel", KERNEL], check=True)
    compile_ = ["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", folder / "replay"]
    subprocess.run([*compile_, GUEST / "replay.c"], check=True)
    for run in runs:
        offered = arrivals(run.capable, seconds, run.seed)
        text = "".join(
            f"{it.at:.9f} {it.flow} {it.size + ETHERNET_BYTES} {it.capable + it.low_delay}\n"
            for it in offered
        )
        (folder / run.arrivals).write_text(text)
    (folder / "list").write_text("".join(run.line() for run in runs))
    options = [
        *("mem=512M", "rootfstype=hostfs", "rootflags=/", "rw", "quiet", "time-travel=inf-cpu"),
        *(f"init={GUEST / 'init'}", f"runs={folder}", "con=null"),
    ]
    console = subprocess.run(
        [KERNEL / "linux", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    log = folder / "log"
    if not log.exists() or not log.read_text().endswith("done\n"):
        sys.exit(f"linux.py: {console.stdout}{log.read_text() if log.exists() else ''}")


@dataclass
class Observed:
    offered: list[Packet]
    """Packets with the times at which they were sent."""
    fates: Fates
    rate_mbps: float
    """The rate of transmissions between which the link did not rest."""
    late_ms: float
    """Largest lateness of a packet that was sent."""


def observed(run: Run, seconds: float, folder: Path) -> Observed:
    offered = arrivals(run.capable, seconds, run.seed)
    fates, late_ms = Fates(), 0.0
    transmitted = []
    lines = (folder / f"{run.name}.fates").read_text().splitlines()
    for packet, text in zip(offered, lines, strict=True):
        sent, received, marked = (int(field) for field in text.split())
        late_ms = max(late_ms, 1e-6 * sent - 1e3 * packet.at)
        packet.at, packet.size = 1e-9 * sent, packet.size + ETHERNET_BYTES
        if received:
            fates.waits_ms.append(1e-6 * (received - sent))
            fates.marks += marked
            transmitted.append((received, sent, packet.size))
        else:
            fates.drops += 1
    transmitted.sort()
    bits = busy_ns = 0
    for (before, _, size), (received, sent, _) in itertools.pairwise(transmitted):
        if sent < before:
            bits += 8 * size
            busy_ns += received - before
    return Observed(offered, fates, 1e3 * bits / busy_ns, late_ms)


def together(fates: Sequence[Fates]) -> Fates:
    waits = [wait for it in fates for wait in it.waits_ms]
    return Fates(waits, sum(it.drops for it in fates), sum(it.marks for it in fates))


def deviation(our: float, their: float) -> float:
    return 100 * (our / their - 1) if their else 0.0 if our == their else float("inf")


def cells(theirs: list[Fates], again: list[Fates], ours: list[Fates]) -> list[str]:
    rows = []
    for column in range(4):
        their, our = together(theirs).row()[column], together(ours).row()[column]
        seeds = [
            deviation(b.row()[column], a.row()[column]) for a, b in zip(theirs, ours, strict=True)
        ]
        chance = [
            deviation(b.row()[column], a.row()[column]) for a, b in zip(theirs, again, strict=True)
        ]
        rows.append(
            f"{their:.5g}, {our:.5g}: {deviation(our, their):+.1f} %"
            f" ({min(seeds):+.1f} to {max(seeds):+.1f}; {min(chance):+.1f} to {max(chance):+.1f})"
            if their or our
            else ""
        )
    return rows


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    seeds = range(int(sys.argv[2]) if len(sys.argv) > 2 else 3)
    keys = [(queue, capable) for queue in QUEUES for capable in (False, True)]
    keys.remove(("drop_tail", True))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs = [Run(*key, seed, repeat) for key in keys for seed in seeds for repeat in range(2)]
        linux(runs, seconds, folder)
        print("| queue, ECN | median wait, Linux and link, ms | 95 % | drops | marks |")
        print("|---|---|---|---|---|")
        rates, late_ms = [], 0.0
        for queue, capable in keys:
            ecn = "on" if capable else "off"
            first = [observed(Run(queue, capable, it, 0), seconds, folder) for it in seeds]
            again = [observed(Run(queue, capable, it, 1), seconds, folder).fates for it in seeds]
            theirs = [it.fates for it in first]
            ours = [by_link(queue, it.offered, it.rate_mbps) for it in first]
            print(f"| `{queue}`, {ecn} | {' | '.join(cells(theirs, again, ours))} |", flush=True)
            if queue in OF_LINUX:
                ours = [by_pseudocode(OF_LINUX[queue], it.offered) for it in first]
                row = " | ".join(cells(theirs, again, ours))
                print(f"| pseudocode as Linux, {ecn} | {row} |", flush=True)
            rates += [it.rate_mbps for it in first]
            late_ms = max(late_ms, *(it.late_ms for it in first))
    print(
        f"\nLinux' link had {min(rates):.4f} to {max(rates):.4f} Mbps, the links the same;", end=" "
    )
    print(f"packets were sent at most {1e3 * late_ms:.1f} us late.")


if __name__ == "__main__":
    os.chdir(ROOT)
    main()
