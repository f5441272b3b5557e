"""A path over two drop-tail queues: equations, quiet hosts, and hosts with jitter.

    .venv/bin/python benches/theory/drop_tail_two_hops.py [seeds]

Three links, three users of each kind; `long` has one path over two full links. Prints the goodput
of a user of `long` in Mbps by rule: in the equilibrium of the equations, and in the simulator with
RED, with drop-tail, and with drop-tail and `tcp.host_jitter_us`, mean and 95 % interval.
"""

import sys

import anabranch

RULES = ["ewtcp", "lia", "olia", "balia"]
SCENARIO = """
algorithm = "lia"
measure = { duration_s = 120, warmup_s = 30, sample_ms = 1000 }
links.A = { rate_mbps = 30, delay_ms = 6, queue.drop_tail.packets = 300 }
links.B = { rate_mbps = 12, delay_ms = 40, queue.drop_tail.packets = 120 }
links.C = { rate_mbps = 18, delay_ms = 20, queue.drop_tail.packets = 180 }

[[flows]]
name = "wide"
count = 3
paths = [["A"], ["B", "C"]]
start_spread_s = 5

[[flows]]
name = "short"
count = 3
paths = [["B"], ["C"]]
start_spread_s = 5

[[flows]]
name = "long"
count = 3
paths = [["A", "C"]]
start_spread_s = 5
"""
RED = [(f"links.{link}.queue", "{ red = {} }") for link in "ABC"]
ROWS: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "equilibrium, RED": ("equilibrium", RED),
    "equilibrium, drop-tail": ("equilibrium", []),
    "sim, RED": ("sim", RED),
    "sim, drop-tail": ("sim", []),
    "sim, drop-tail, jitter of 100 us": ("sim", [("tcp.host_jitter_us", "100")]),
    "sim, drop-tail, jitter of 1000 us": ("sim", [("tcp.host_jitter_us", "1000")]),
}


def main(seeds: str = "5") -> None:
    """Print the table, as lines of Markdown."""
    print(f"| a user of `long`, Mbps | {' | '.join(RULES)} | utilization of A, B, C with lia |")
    print("|---|" + "--:|" * (len(RULES) + 1))
    for name, (backend, changes) in ROWS.items():
        scenario = anabranch.Scenario.parse(SCENARIO, set=changes)
        result = anabranch.run(scenario, RULES, int(seeds), on=backend, jobs=2)
        rows = result.summary().set_index(["flow", "algorithm"])
        cells = []
        for rule in RULES:
            row = rows.loc[("long", rule)]
            wide = f" ± {row['goodput_mbps_ci95']:.2f}" if backend == "sim" else ""
            cells.append(f"{row['goodput_mbps']:.2f}{wide}")
        used = result.link_summary()
        used = used[used["algorithm"] == "lia"]["utilization"]
        print(f"| {name} | {' | '.join(cells)} | {', '.join(f'{u:.2f}' for u in used)} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
