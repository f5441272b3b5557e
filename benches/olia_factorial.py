"""Do the authors' code and Linux 3.0's endpoint together give the OLIA draft's printed numbers?

A full two-level factorial of five factors over claims l7 (p2 beside LIA, printed 0.05), v6 (a
single-path user beside OLIA, 0.88 and 0.72 Mbps) and o10 (what the upgrade to OLIA costs, 2.5 %),
with three seeds per cell: the cells without and with all factors, the cell nearest to the printed
number, and the main effects with half their 95 % intervals. `python benches/olia_factorial.py`,
about 4 minutes of one core.

p2 is also counted over the whole run, warm-up included, as counters in Click would be. The minimum
ssthresh is 2 packets and the initial window 10, as in Linux 3.0. A path in recovery counts with its
ssthresh in every cell, as in the authors' code, because the simulator's window is that already.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np
from olia_in_whole_packets import Lia, Olia

import anabranch

PAPER = Path(__file__).parents[1] / "papers" / "olia"
SEEDS = 3
FACTORS: Mapping[str, Mapping[str, object]] = {
    # mptcp_olia.c, mptcp_coupled.c: whole packets, ties between them, one increase per ACK.
    "code": {},
    "acks": {"tcp.delayed_acks": True, "tcp.quick_acks": True},
    "undo": {"tcp.undo": True},
    # With its send buffer, and hosts that are no clocks.
    "scheduler": {"tcp.scheduler": "linux", "tcp.host_jitter_us": 100},
    # 36 kB, between iperf's 16 and 64 kB.
    "buffer": {"tcp.receive_buffer_packets": 24},
}
RED_ALONE = {"flows[1].paths": [{"links": ["T", "Z", "Y"], "return_delay_ms": 60}]}
PRINTED = {
    "l7: p2": 0.05,
    "l7: p2, whole run": 0.05,
    "v6: Mbps, N1 = 10": 0.88,
    "v6: Mbps, N1 = 30": 0.72,
    "o10: %": 2.5,
}

Cell = tuple[bool, ...]


def main() -> None:
    """Run all cells and print the effects."""
    cells = list(product((False, True), repeat=len(FACTORS)))
    measured = [measure(cell) for cell in cells]
    for name, printed in PRINTED.items():
        values = np.array([of_cell[name] for of_cell in measured])
        report(name, printed, cells, values)


def measure(cell: Cell) -> dict[str, list[float]]:
    """The four numbers of each seed in a cell."""
    on = dict(zip(FACTORS, cell, strict=True))
    values: dict[str, object] = {}
    for name in FACTORS:
        values |= FACTORS[name] if on[name] else {}
    per_packet = 0.5 if on["acks"] else 1.0
    lia = Lia(True, per_packet) if on["code"] else "lia"
    olia = Olia(True, per_packet) if on["code"] else "olia"
    thirty = {"flows[0].count": 30, **values}
    a = run("scenario_a.toml", lia, {"links.R1.rate_mbps": 30, **thirty})
    c = (
        run("scenario_c.toml", olia, values),
        run("scenario_c.toml", olia, {"links.AP1.rate_mbps": 30, **thirty}),
    )
    before = run("scenario_b.toml", olia, {**values, **RED_ALONE})
    after = run("scenario_b.toml", olia, values)
    r2 = a.links[a.links["link"] == "R2"]
    single = [
        of.flows[of.flows["flow"] == "singlepath"].groupby("seed")["goodput_mbps"].mean()
        for of in c
    ]
    total = [of.flows.groupby("seed")["goodput_mbps"].sum() for of in (before, after)]
    return {
        "l7: p2": list(r2["loss_probability"]),
        "l7: p2, whole run": whole_run(a),
        "v6: Mbps, N1 = 10": list(single[0]),
        "v6: Mbps, N1 = 30": list(single[1]),
        "o10: %": list(100 * (1 - total[1] / total[0])),
    }


def run(file: str, rule: anabranch.Rule | str, values: Mapping[str, object]) -> anabranch.Result:
    """One scenario with all seeds."""
    return anabranch.run(PAPER / file, rule, seeds=SEEDS, set=values)


def whole_run(result: anabranch.Result) -> list[float]:
    """Drops over arrivals at R2 from the start of the run, per seed."""
    samples = result.link_samples[result.link_samples["link"] == "R2"]
    packets = samples["throughput_mbps"] * 1e6 / (8 * 1500)  # per sample of 1 s
    totals = samples.assign(packets=packets).groupby("seed")[["dropped_packets", "packets"]].sum()
    return list(totals["dropped_packets"] / totals.sum(axis="columns"))


def report(name: str, printed: float, cells: Sequence[Cell], values: np.ndarray) -> None:
    """Print one number: its extreme cells and the main effects."""
    means = values.mean(axis=1)
    nearest = int(np.abs(means - printed).argmin())
    # The variance within cells is pooled; an effect is the difference of two means of half of all.
    half = 1.96 * np.sqrt(values.var(axis=1, ddof=1).mean() * 4 / values.size)
    chosen = "+".join(f for f, on in zip(FACTORS, cells[nearest], strict=True) if on) or "none"
    print(f"{name}: printed {printed:g}; no factor {means[0]:.3g}, all {means[-1]:.3g}, ", end="")
    print(f"nearest {means[nearest]:.3g} ({chosen}); {means.min():.3g} to {means.max():.3g}")
    for i, factor in enumerate(FACTORS):
        high = np.array([cell[i] for cell in cells])
        effect = means[high].mean() - means[~high].mean()
        print(f"  {factor:8} {effect:+.4f} ± {half:.4f}", flush=True)


if __name__ == "__main__":
    main()
