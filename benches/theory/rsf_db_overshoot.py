"""RSF-DB after slow start: how long its window stays above the equilibrium.

    .venv/bin/python benches/theory/rsf_db_overshoot.py

One user with two paths without losses, whose queues are longer than the target delay of 100 ms. By
(1) the window of a path shrinks by less than a packet per round trip, however long the queue is:
the increase tends to -1/W as the delay grows. Prints windows and RTTs by time, in packets and ms,
with and without `tcp.initial_ssthresh`.
"""

import anabranch

SCENARIO = """
algorithm = "rsf-db"
measure = { duration_s = 810, warmup_s = 10, sample_ms = 1000 }
links.A = { rate_mbps = 20, delay_ms = 20, queue.drop_tail.packets = 1000 }
links.B = { rate_mbps = 60, delay_ms = 50, queue.drop_tail.packets = 3000 }

[[flows]]
name = "user"
paths = [["A"], ["B"]]
"""
TIMES_S = (20, 50, 100, 200, 400, 800)


def main() -> None:
    """Print a row for each path and setting, as lines of Markdown."""
    print("| initial_ssthresh, path | " + " | ".join(f"{t} s" for t in TIMES_S) + " |")
    print("|---|" + "--:|" * len(TIMES_S))
    for words, changes in {
        "default": [],
        "50 packets": [("tcp.initial_ssthresh_packets", "50")],
    }.items():
        result = anabranch.run(anabranch.Scenario.parse(SCENARIO, set=changes), seeds=1)
        samples = result.path_samples
        for path, rows in samples.groupby("path"):
            cells = []
            for time in TIMES_S:
                row = rows.iloc[(rows["time_s"] - time).abs().argmin()]
                cells.append(f"{row['window_packets']:.0f} ({row['rtt_ms']:.0f} ms)")
            print(f"| {words}, {path} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
