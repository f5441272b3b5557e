"""The effect of acknowledgements over the first path (docs/notebook/quic-measured.md), isolated.

Two users with two paths of 20 and 160 ms, and two more on each link. Over QUIC the library returns
all acknowledgements over the first path; here the simulator does too, in the third row.

    .venv/bin/python benches/quic/return_delay.py
"""

import sys

import anabranch

SCENARIO = """
algorithm = "lia"
measure = { duration_s = 80, warmup_s = 20, sample_ms = 1000 }
links.A = { rate_mbps = 15, delay_ms = 10, queue.red = {} }
links.B = { rate_mbps = 15, delay_ms = 80, queue.red = {} }

[[flows]]
name = "two"
count = 2
paths = [["A"], ["B"]]
start_spread_s = 1

[[flows]]
name = "on A"
count = 2
paths = [["A"]]
start_spread_s = 1

[[flows]]
name = "on B"
count = 2
paths = [["B"]]
start_spread_s = 1
"""
ROWS = {
    "sim": ("sim", '["B"]'),
    "quic": ("quic", '["B"]'),
    "sim, B returns with A's delay": ("sim", '{ links = ["B"], return_delay_ms = 10 }'),
}
"""Backend and second path, by name."""


def main() -> None:
    """Print the goodput of both paths and the RTT of the second for each rule and row."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    for algorithm in ("reno", "lia", "olia", "balia", "wvegas"):
        for row, (on, path) in ROWS.items():
            text = SCENARIO.replace('[["A"], ["B"]]', f'[["A"], {path}]')
            scenario = anabranch.Scenario.parse(text)
            paths = anabranch.run(scenario, algorithm, seeds, on=on).paths
            both = paths[paths["flow"] == "two"].groupby("path")
            goodput_a, goodput_b = both["goodput_mbps"].mean()
            print(
                f"{algorithm:7} {row:30} A {goodput_a:5.2f} Mbps, B {goodput_b:5.2f} Mbps, "
                f"RTT of B {both['rtt_ms'].mean()[1]:4.0f} ms",
                flush=True,
            )


if __name__ == "__main__":
    main()
