"""`coupling=shared` in the kernel, over networks whose bottlenecks are known.

    .venv/bin/python benches/shared_bottlenecks_kernel.py [networks] [at a time] [rule]

As root, with `anabranch-kernel` and `anabranch-lab` (docs/reference/lab.md). Prints a Markdown
table, docs/records/shared-bottlenecks-kernel.csv: decisions at the end of each run, and the user's
goodput beside that with `coupling=always` and `coupling=never`, as a ratio of means with its 95 %
interval. The networks are those of `bottleneck_networks.py` with two paths. Networks that run at a
time have the same truth, so that it is known for each connection.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import numpy as np
from bottleneck_networks import Network, steady
from shared_bottlenecks import wilson

import anabranch
from anabranch.kernel import ALGORITHMS

PROGRAM = os.environ.get("ANABRANCH_KERNEL", "anabranch-kernel")
COUPLINGS = ("always", "shared", "never")
OVERRIDES = {"measure.duration_s": 24, "measure.warmup_s": 9}
DECISION = re.compile(r"token (\w+): groups ([\d ]+)$")


@contextmanager
def loaded(rule: str, coupling: str, output: Path) -> Iterator[None]:
    """The rule, registered with this coupling while the context is open."""
    command = [PROGRAM, "load", f"{rule}:coupling={coupling}"]
    with (
        output.open("w") as stdout,
        subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, text=True) as process,
    ):
        assert process.stderr is not None
        if not (said := process.stderr.readline()).startswith("registered"):
            sys.exit(said)
        try:
            yield
        finally:
            process.terminate()
            process.wait()
            # The kernel frees the name a little later.
            while rule in ALGORITHMS.read_text().split():
                time.sleep(0.05)


def decisions(output: Path) -> list[bool]:
    """Whether each connection that was decided on is separated at the end."""
    last = {}
    for line in output.read_text().splitlines():
        if found := DECISION.search(line):
            last[found[1]] = found[2].split()
    return [len(groups) == 2 and groups[0] != groups[1] for groups in last.values()]


def goodput(network: Network, rule: str, directory: Path) -> tuple[float, bool]:
    """The user's goodput, Mbps, and whether the emulation was late."""
    file = directory / f"{network.seed}.toml"
    file.write_text(network.text)
    result = anabranch.run(file, rule, [network.seed], set=OVERRIDES, on="kernel")
    of_user = result.flows[result.flows.flow == "user"]
    return float(of_user.goodput_mbps.iloc[0]), not result.late_runs().empty


def networks(shared: bool, count: int) -> list[Network]:
    """The first networks with two paths and this truth."""
    candidates = (steady(seed, profile="linux") for seed in range(7000, 9000))
    fitting = (one for one in candidates if one.truth == ((0, 0) if shared else (0, 1)))
    return list(islice(fitting, count))


def ratio(ours: list[float], others: list[float]) -> str:
    """The ratio of the sums, and its 95 % interval from 2000 bootstrap samples of networks."""
    a, b = np.array(ours), np.array(others)
    picked = np.random.default_rng(1).integers(0, len(a), (2000, len(a)))
    low, high = np.quantile(a[picked].sum(1) / b[picked].sum(1), (0.025, 0.975))
    return f"{a.sum() / b.sum():.3f} ({low:.3f} to {high:.3f})"


def row(shared: bool, count: int, at_a_time: int, rule: str) -> str:
    """A row of the table."""
    rates: dict[str, list[float]] = {coupling: [] for coupling in COUPLINGS}
    separated, late = [], 0
    todo = networks(shared, count)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(at_a_time) as pool:
        directory, output = Path(folder), Path(folder) / "decisions"
        for first in range(0, len(todo), at_a_time):
            batch = todo[first : first + at_a_time]
            for coupling in COUPLINGS:
                with loaded(rule, coupling, output):
                    for rate, was_late in pool.map(
                        lambda one: goodput(one, rule, directory), batch
                    ):
                        rates[coupling].append(rate)
                        late += was_late
                if coupling == "shared":
                    separated += decisions(output)
            print(f"{first + len(batch)} of {len(todo)}", file=sys.stderr, flush=True)
    wrong = sum(separated) if shared else len(separated) - sum(separated)
    ratios = [ratio(rates["shared"], rates[other]) for other in ("always", "never")]
    kind = "shared" if shared else "separate"
    return (
        f"| {kind} | {len(todo)} | {wilson(wrong, len(separated))} | {ratios[0]} | {ratios[1]} "
        f"| {late} of {3 * len(todo)} |"
    )


def main(count: str = "100", at_a_time: str = "4", rule: str = "lia") -> None:
    """Prints the table over `count` networks, half of them with a shared bottleneck."""
    print(
        "| bottlenecks | networks | wrong at the end, % | shared / always | shared / never | late |"
    )
    print("|---|--:|--:|--:|--:|--:|")
    for shared in (True, False):
        print(row(shared, int(count) // 2, int(at_a_time), rule), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
