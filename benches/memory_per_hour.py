"""Memory of hour-long runs, while they run and with their result.

I-TCP's two gateways (`papers/itcp/scenario_two.toml`) for 1, 2, 4 and 8 simulated hours, each in a
process of its own. "Running" is the growth from the first percent of the run to the last: the state
of the simulation should not grow, its record does, by a row per finished file and sample. "Result"
is the peak above the start, with the tables as they come to Python.
"""

import resource
import subprocess
import sys
from pathlib import Path

import anabranch

SCENARIO = Path(__file__).parent.parent / "papers" / "itcp" / "scenario_two.toml"
HOURS = (1, 2, 4, 8)
PAGE_MIB = resource.getpagesize() / 2**20


def measure(hours: int) -> None:
    """Print files, MiB of growth while running, of the peak, and of the numbers in the tables."""
    before = resident_mib()
    running: list[float] = []

    def note(fraction: float) -> None:
        if 0.01 < fraction < 1:
            running.append(resident_mib())

    overrides = {"measure.duration_s": 3600 * hours}
    result = anabranch.run(SCENARIO, seeds=[1], set=overrides, progress=note)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    numbers = sum(
        table.select_dtypes("number").memory_usage(index=False).sum()
        for table in result.tables().values()
    )
    print(len(result.transfers), running[-1] - running[0], peak - before, numbers / 2**20)


def resident_mib() -> float:
    """Resident memory of this process now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_MIB


def main() -> None:
    """A line per run."""
    print(" hours     files   running MiB   result MiB   numbers in it MiB")
    for hours in HOURS:
        command = [sys.executable, __file__, str(hours)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        files, running, peak, numbers = map(float, text.split())
        print(f"{hours:6} {files:9.0f} {running:13.1f} {peak:12.1f} {numbers:19.1f}")


if __name__ == "__main__":
    measure(int(sys.argv[1])) if len(sys.argv) > 1 else main()
