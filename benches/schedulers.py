"""Schedulers and rules over two paths: goodput beside the best path, and times of short files.

`python benches/schedulers.py` prints the tables of
docs/notebook/schedulers-measured.md: networks with different
ratios of RTT, rate and loss, and one of LTE and a satellite link. About ten minutes.
"""

from pathlib import Path

from anabranch import run
from anabranch.formats import markdown_table
from anabranch.scenario import Scenario, schedulers

LTE = Path(__file__).parents[1] / "examples" / "lte.trace"
SATELLITE = (
    "rate_mbps = 100, delay_ms = 25, loss.gilbert_elliott = "
    "{ good_to_bad = 0.0005, bad_to_good = 0.2 }, "
    "down = [{ from_s = 7, to_s = 7.1 }, { from_s = 22, to_s = 22.1 }]"
)
NETWORKS = {
    "20 + 20 Mbps, 20 + 20 ms": ["rate_mbps = 20, delay_ms = 10"] * 2,
    "20 + 20 Mbps, 20 + 200 ms": [
        "rate_mbps = 20, delay_ms = 10",
        "rate_mbps = 20, delay_ms = 100",
    ],
    "20 + 2 Mbps, 20 + 200 ms": [
        "rate_mbps = 20, delay_ms = 10",
        "rate_mbps = 2, delay_ms = 100",
    ],
    "20 + 20 Mbps, 20 + 60 ms, 1 % on the slow path": [
        "rate_mbps = 20, delay_ms = 10",
        "rate_mbps = 20, delay_ms = 30, loss.bernoulli.probability = 0.01",
    ],
    "LTE and satellite": ["trace_file = 'lte.trace', delay_ms = 30", SATELLITE],
}
RULES = ["cubic", "lia", "olia", "balia"]
BUFFERS = [200, 100_000]
FILES = {"100 kB": 100_000, "1 MB": 1_000_000}
SEEDS = 3


def scenario(links: list[str], scheduler: str, buffer: int, workload: str) -> Scenario:
    """A user with a path over each link, and the endpoints of Linux but for the scheduler."""
    names = "AB"[: len(links)]
    tables = "".join(
        f"links.{name} = {{ {link} }}\n" for name, link in zip(names, links, strict=True)
    )
    text = (
        f"{tables}"
        "measure = { duration_s = 30, warmup_s = 0, sample_ms = 1000 }\n"
        f"tcp = {{ profile = 'linux', scheduler = '{scheduler}', "
        f"receive_buffer_packets = {buffer} }}\n"
        "[[flows]]\nname = 'user'\nstart_spread_s = 1\n"
        f"paths = [{', '.join(f'[{name!r}]' for name in names)}]\nworkload = {workload}\n"
    )
    return Scenario.parse(text, inputs={"lte.trace": LTE.read_bytes()}, algorithm="lia")


def goodput(links: list[str], scheduler: str, buffer: int) -> dict[str, float]:
    """Goodput by rule, Mbps, the mean over seeds."""
    means = run(scenario(links, scheduler, buffer, "'bulk'"), RULES, SEEDS).summary()
    return dict(zip(means["algorithm"], means["goodput_mbps"], strict=True))


def duration_ms(links: list[str], scheduler: str, size: int) -> float:
    """Time until a file of `size` bytes is complete with LIA, ms, the mean over seeds."""
    workload = f"{{ file.bytes = {size} }}"
    result = run(scenario(links, scheduler, BUFFERS[-1], workload), "lia", SEEDS)
    return 1e3 * float(result.transfers["duration_s"].mean())


def row(links: list[str], scheduler: str, best: dict[int, dict[str, float]]) -> list[str]:
    """Row of a scheduler over these links: for each buffer and rule goodput relative to the best
    path, then the times of files."""
    found = [scheduler]
    for buffer in BUFFERS:
        both = goodput(links, scheduler, buffer)
        found += [f"{both[rule] / best[buffer][rule]:.2f}" for rule in RULES]
    return found + [f"{duration_ms(links, scheduler, size):.0f}" for size in FILES.values()]


def main() -> None:
    """Prints a table per network."""
    header = ["scheduler"]
    for buffer in BUFFERS:
        header += [f"{rule}, {buffer}" for rule in RULES]
    header += [f"{size}, ms" for size in FILES]
    for name, links in NETWORKS.items():
        alone = {b: [goodput([link], "min-rtt", b) for link in links] for b in BUFFERS}
        best = {b: {rule: max(one[rule] for one in alone[b]) for rule in RULES} for b in BUFFERS}
        files = [
            min(duration_ms([link], "min-rtt", size) for link in links) for size in FILES.values()
        ]
        print(f"\n{name}\n")
        mbps = [f"{best[b][rule]:.1f} Mbps" for b in BUFFERS for rule in RULES]
        rows = [["the best path alone", *mbps, *(f"{ms:.0f}" for ms in files)]]
        rows += [row(links, scheduler, best) for scheduler in schedulers()]
        print(*markdown_table(header, rows), sep="\n", flush=True)


if __name__ == "__main__":
    main()
