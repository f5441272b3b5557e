"""A path over two drop-tail queues: equations, quiet hosts, and hosts with jitter.

    .venv/bin/python benches/theory/drop_tail_two_hops.py [seeds]

Three links, three users of each kind; `long` has one path over two full links. Prints the goodput
of a user of `long` in Mbps by rule: in the equilibrium of the equations, and in the simulator with
RED, with drop-tail, and with drop-tail and what real hosts and networks add, mean and 95 %
interval; then the utilization of the links with `lia`, and the ratios in the warnings of unequal
losses.
"""

import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import anabranch

LINKS = re.compile("^links.*", re.M)
WARNING = re.compile("is drop-tail and dropped ([0-9.]+) times")
RULES = ["ewtcp", "lia", "olia", "balia"]
SCENARIO = Path(__file__).with_suffix(".toml").read_text()
RED = [(f"links.{link}.queue", "{ red = {} }") for link in "ABC"]
FILES = "".join(
    f"""
[[flows]]
name = "files {link}"
paths = [["{link}"]]
algorithm = "reno"
workload.poisson = {{ rate_per_s = {rate / 4}, size.exponential = {{ mean_bytes = 25000 }} }}
"""
    for link, rate in {"A": 30, "B": 12, "C": 18}.items()
)
"""A twentieth of the rate of each link."""

UPLOADS = "".join(
    f"""
[[flows]]
name = "uploads {link}"
count = 3
paths = [{{ links = ["{link}-up"], back = ["{link}"] }}]
algorithm = "reno"
start_spread_s = 5
"""
    for link in "ABC"
)


@dataclass(frozen=True)
class Row:
    """A row of the table: the backend, and what differs from `SCENARIO`."""

    backend: str
    changes: list[tuple[str, str]] = field(default_factory=list)
    flows: str = ""
    two_way: bool = False

    def scenario(self) -> anabranch.Scenario:
        """The scenario of the row."""
        text = SCENARIO + self.flows
        if self.two_way:
            text = both_ways(SCENARIO) + UPLOADS
        return anabranch.Scenario.parse(text, set=self.changes)


ROWS = {
    "equilibrium, RED": Row("equilibrium", RED),
    "equilibrium, drop-tail": Row("equilibrium"),
    "sim, RED": Row("sim", RED),
    "sim, drop-tail": Row("sim"),
    "jitter of 100 us": Row("sim", [("tcp.host_jitter_us", "100")]),
    "jitter of 1000 us": Row("sim", [("tcp.host_jitter_us", "1000")]),
    "delayed ACKs": Row("sim", [("tcp.delayed_acks", "true")]),
    "delayed ACKs, jitter of 100 us": Row(
        "sim", [("tcp.delayed_acks", "true"), ("tcp.host_jitter_us", "100")]
    ),
    "profile `linux`": Row("sim", [("tcp.profile", "linux")]),
    "short files, 5 % of each link": Row("sim", flows=FILES),
    "uploads, with ACKs in the queues": Row("sim", two_way=True),
    "files, delayed ACKs, jitter of 100 us": Row(
        "sim", [("tcp.delayed_acks", "true"), ("tcp.host_jitter_us", "100")], FILES
    ),
}


def both_ways(text: str) -> str:
    """The scenario with a link for the way back of each, over which acknowledgements return."""
    upward = re.sub(r"links\.(\w) = ", r'links."\1-up" = ', "\n".join(LINKS.findall(text)))

    def path(match: re.Match[str]) -> str:
        back = [f"{name}-up" for name in reversed(json.loads(match[0]))]
        return f"{{ links = {match[0]}, back = {json.dumps(back)} }}"

    return re.sub(r'\["[^]]*\]', path, text).replace("\n[[flows]]", f"{upward}\n\n[[flows]]", 1)


def main(seeds: str = "5") -> None:
    """Print the table, as lines of Markdown."""
    print(f"| a user of `long`, Mbps | {' | '.join(RULES)} | A, B, C | warning |")
    print("|---|" + "--:|" * (len(RULES) + 2))
    for name, row in ROWS.items():
        result = anabranch.run(row.scenario(), RULES, int(seeds), on=row.backend, jobs=2)
        rows = result.summary().set_index(["flow", "algorithm"])
        cells = []
        for rule in RULES:
            goodput = rows.loc[("long", rule)]
            wide = f" ± {goodput['goodput_mbps_ci95']:.2f}" if row.backend == "sim" else ""
            cells.append(f"{goodput['goodput_mbps']:.2f}{wide}")
        used = result.link_summary()
        used = used[(used["algorithm"] == "lia") & used["link"].isin([*"ABC"])]["utilization"]
        warned = [match[1] for line in result.warnings if (match := WARNING.search(line))]
        print(
            f"| {name} | {' | '.join(cells)} | {', '.join(f'{u:.2f}' for u in used)} "
            f"| {', '.join(warned) or 'none'} |",
            flush=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
