"""Two paths against one at a drop-tail queue: periodic packets, and with jitter.

    .venv/bin/python benches/drop_tail_phase.py [sim|kernel] [seeds]

Prints the share of the two-path user, mean and 95 % interval over runs of 40 s. With jitter each
path begins with a link of 96 Mbps whose opportunities come in random milliseconds, half of them,
so that packets meet the bottleneck up to a few ms later than they would have. With delayed ACKs
the simulator sends packets in pairs, as Linux does anyway. `kernel` needs `make lab`, root, and
`anabranch-kernel load lia`; two runs at a time.
"""

import random
import sys
import tempfile
from pathlib import Path

import anabranch
from anabranch.result import mean_with_interval

EXAMPLE = Path(__file__).parent.parent / "examples" / "two_against_one.toml"
PERIOD_MS = 20_011
IN_A_MILLISECOND = 16


def write_trace(file: Path, seed: int) -> None:
    """Half of all milliseconds, chosen at random, with 16 opportunities each."""
    dice = random.Random(seed)
    chosen = [ms for ms in range(1, PERIOD_MS) if dice.random() < 0.5]
    lines = [str(ms) for ms in chosen for _ in range(IN_A_MILLISECOND)]
    file.write_text("\n".join([*lines, str(PERIOD_MS)]) + "\n")


def with_jitter(directory: Path) -> Path:
    """The example with a link of its own before each path."""
    text = EXAMPLE.read_text()
    for path in range(3):
        write_trace(directory / f"{path}.trace", path + 1)
        text += f'\n[links.jitter{path}]\ntrace_file = "{path}.trace"\ndelay_ms = 0.001\n'
        text = text.replace('["bottleneck"]', f'["jitter{path}", "bottleneck"]', 1)
    file = directory / "jitter.toml"
    file.write_text(text)
    return file


def main(backend: str = "sim", seeds: str = "6") -> None:
    """Prints a line per algorithm, without jitter and with it."""
    overrides: dict[str, object] = {
        "links.bottleneck.queue": {"drop_tail": {"packets": 80}},
        "measure.duration_s": 40,
    }
    with tempfile.TemporaryDirectory() as directory:
        jitter = with_jitter(Path(directory))
        for name, file, delayed in [
            ("clockwork", EXAMPLE, False),
            ("jitter", jitter, False),
            ("jitter, delayed ACKs", jitter, True),
        ]:
            overrides["tcp.delayed_acks"] = delayed
            result = anabranch.run(
                file, ["reno", "lia"], int(seeds), set=overrides, on=backend, jobs=2
            )
            rates = result.flows.pivot(
                index=["algorithm", "seed"], columns="flow", values="goodput_mbps"
            )
            rates["share"] = rates["two paths"] / rates.sum(axis=1)
            for row in mean_with_interval(
                rates.reset_index(), ["algorithm"], ["share"]
            ).itertuples():
                print(
                    f"{name:10} {row.algorithm:5} {row.share:.3f} ± {row.share_ci95:.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main(*sys.argv[1:])
