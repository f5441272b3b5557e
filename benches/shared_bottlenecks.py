"""Errors of shared-bottleneck detection, and its effect: docs/notebook/shared-bottlenecks.md.

    .venv/bin/python benches/shared_bottlenecks.py [errors|today|cells|moves|goodput] [runs] [first]

Prints Markdown tables. A pair of paths is an error if it is coupled at the end of the run although
it shares no bottleneck ("false shared"), or the reverse ("false separate"); intervals are Wilson's,
95 %. Seeds begin at `first`: 7000, of `moves` 6000; in `benches/detector_choice.py` at 1000.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from bottleneck_networks import AQM, Network, link, moving, path, scenario, steady, user

import anabranch

ROOT = Path(__file__).parent.parent
DETECTORS = ("shared", "rfc8382")
SETTLED_S = 20.0


def wilson(errors: int, n: int) -> str:
    """The share of errors and its 95 % interval, in percent."""
    if n == 0:
        return "-"
    z, p = 1.96, errors / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return f"{100 * p:.1f} ({100 * max(0, middle - half):.1f} to {100 * (middle + half):.1f})"


def observe(networks: Iterator[Network], rule: str = "lia") -> pd.DataFrame:
    """A row per network, detector and pair: the truth, and over time whether it is coupled."""
    rows = []
    algorithms = [f"{rule}:coupling={detector}" for detector in DETECTORS]
    with tempfile.TemporaryDirectory() as directory:
        for network in networks:
            file = Path(directory) / "network.toml"
            file.write_text(network.text)
            overrides = {"measure.sample_ms": 200}
            result = anabranch.run(file, algorithms, [network.seed], set=overrides)
            samples = result.path_samples
            for algorithm, of_user in samples[samples.flow == "user"].groupby("algorithm"):
                groups = of_user.pivot(index="time_s", columns="path", values="group")
                for i, j, shared in network.pairs():
                    coupled = (groups[i] == groups[j]).to_numpy()
                    rows.append(
                        {
                            "detector": algorithm.partition("=")[2],
                            "seed": network.seed,
                            "shared": shared,
                            "times": groups.index.to_numpy(),
                            "coupled": coupled,
                            "last": bool(coupled[-1]),
                            **network.cell,
                        }
                    )
    return pd.DataFrame(rows)


def decided_at(row: "pd.Series[object]", right: bool, since_s: float = 0.0) -> float:
    """When the decision was first as it should be, and stayed so for 5 s; infinite if never."""
    times, coupled = np.asarray(row["times"]), np.asarray(row["coupled"])
    after = times >= since_s
    correct = coupled[after] == right
    runs = np.convolve(correct, np.ones(25), "valid") == 25
    first = np.flatnonzero(runs)
    return float(times[after][first[0]] - since_s) if len(first) else float("inf")


def line(name: str, rows: pd.DataFrame) -> str:
    """A row of a table: both errors at the end, and the share of the time after it settled."""
    shared, apart = rows[rows["shared"]], rows[~rows["shared"]]
    late = [np.mean(c[t > SETTLED_S]) for c, t in zip(rows.coupled, rows.times, strict=True)]
    wrong = np.where(rows["shared"], 1 - np.array(late), late)
    waits = [decided_at(row, False) for _, row in apart.iterrows()]
    quantiles = [np.quantile(waits, q, method="higher") for q in (0.5, 0.9)] if waits else []
    return (
        f"| {name} | {len(shared)} | {wilson(int((~shared['last']).sum()), len(shared))} "
        f"| {len(apart)} | {wilson(int(apart['last'].sum()), len(apart))} "
        f"| {100 * wrong.mean():.1f} | {' / '.join(f'{q:.0f}' for q in quantiles)} |"
    )


HEADER = """
| {} | shared pairs | false separate, % | separate pairs | false shared, % | \
time wrong after 20 s, % | separated after, s (median / 90 %) |
|---|--:|--:|--:|--:|--:|--:|"""


def errors(networks: int, first: int = 7000) -> None:
    """Errors of both detectors, under several conditions."""
    conditions: dict[str, Callable[[int], Network]] = {
        "endpoints as in RFCs": steady,
        "endpoints as Linux": lambda seed: steady(seed, profile="linux"),
        "a user that pauses": lambda seed: steady(seed, pauses=True),
    }
    _conditions(conditions, range(first, first + networks))


def today(networks: int, first: int = 7000) -> None:
    """Errors where queues are managed, and where traffic goes both ways; endpoints as Linux."""
    linux = partial(steady, profile="linux")
    conditions: dict[str, Callable[[int], Network]] = {
        **{name: partial(linux, queue=name) for name in AQM},
        "two-way traffic": partial(linux, two_way=True),
    }
    _conditions(conditions, range(first, first + networks))


def _conditions(conditions: dict[str, Callable[[int], Network]], seeds: range) -> None:
    """A row for each condition and detector."""
    print(HEADER.format("detector, condition"))
    for name, make in conditions.items():
        seen = observe(make(seed) for seed in seeds)
        for detector in DETECTORS:
            print(line(f"`{detector}`, {name}", seen[seen.detector == detector]), flush=True)


def cells(networks: int, first: int = 7000) -> None:
    """Errors of both detectors by the conditions of the network."""
    seen = observe(steady(seed) for seed in range(first, first + networks))
    for detector in DETECTORS:
        print(HEADER.format(f"`{detector}`"))
        rows = seen[seen.detector == detector]
        for key in steady(0).cell:
            for value, part in rows.groupby(key, sort=False):
                print(line(f"{key}: {value}", part))


def moves(networks: int, first: int = 6000) -> None:
    """How long detection takes after the bottleneck has moved."""
    seen = observe(moving(seed) for seed in range(first, first + networks))
    print(
        "\n| detector | from | pairs | right at 60 s, % | right at 120 s, % | after, s (median) |"
    )
    print("|---|---|--:|--:|--:|--:|")
    for (detector, source), rows in seen.groupby(["detector", "from"], sort=False):
        at_60 = [row["coupled"][row["times"] <= 60][-1] for _, row in rows.iterrows()]
        first = (np.array(at_60) == rows["shared"]).mean()
        last = (rows["last"] != rows["shared"]).mean()
        waits = [decided_at(row, not row["shared"], 60) for _, row in rows.iterrows()]
        wait = np.quantile(waits, 0.5, method="higher")
        print(
            f"| `{detector}` | {source} | {len(rows)} "
            f"| {100 * first:.0f} | {100 * last:.0f} | {wait:.0f} |"
        )


RULES = ("lia", "olia", "balia")
COUPLINGS = ("always", "shared", "rfc8382", "never")
SPECS = [f"{rule}:coupling={coupling}" for rule in RULES for coupling in COUPLINGS]


def goodput(seeds: int) -> None:
    """The share of a user with two paths on one link, and goodput over separate links."""
    print("\n| share of the two-path user |", " | ".join(COUPLINGS), "|")
    print("|---" + "|--:" * len(COUPLINGS) + "|")
    flows = anabranch.run(ROOT / "examples" / "two_against_one.toml", SPECS, seeds).flows
    rates = flows.pivot_table(index=["algorithm", "seed"], columns="flow", values="goodput_mbps")
    shares = (rates["two paths"] / rates.sum(axis=1)).groupby("algorithm").mean()
    for rule in RULES:
        print(f"| {rule} |", " | ".join(f"{x:.3f}" for x in _of(shares, rule)), "|")
    print(
        "\n| goodput, Mbps: links, endpoints | rule |", " | ".join(COUPLINGS), "| shared / never |"
    )
    print("|---|---" + "|--:" * (len(COUPLINGS) + 1) + "|")
    for name, links in SEPARATE.items():
        for profile in ("rfc", "linux"):
            means = _goodput(links, profile, seeds)
            for rule in RULES:
                values = _of(means, rule)
                row = " | ".join(f"{x:.1f}" for x in values)
                print(f"| {name}, {profile} | {rule} | {row} | {values[1] / values[3]:.3f} |")


# Rate, Mbps; RTT, ms; probability of loss.
SEPARATE = {
    **{
        f"20 + 20 Mbps, 20 and 60 ms, {100 * loss:g} % loss on the slow path": [
            (20, 20, 0),
            (20, 60, loss),
        ]
        for loss in (0, 0.005, 0.01, 0.02)
    },
    "30 + 20 + 10 Mbps, 20, 60 and 120 ms": [(30, 20, 0), (20, 60, 0), (10, 120, 0)],
}


def _of(means: "pd.Series[float]", rule: str) -> list[float]:
    return [means[_canonical(f"{rule}:coupling={coupling}")] for coupling in COUPLINGS]


def _canonical(spec: str) -> str:
    return spec.removesuffix(":coupling=always")


def _goodput(
    links: list[tuple[float, float, float]], profile: str, seeds: int
) -> "pd.Series[float]":
    """The mean goodput of a user alone on these links, Mbps."""
    names = [f"link{number}" for number in range(len(links))]
    parts = [
        link(name, rate, rtt / 2, loss=p) for name, (rate, rtt, p) in zip(names, links, strict=True)
    ]
    text = scenario(120, [*parts, user([path([name]) for name in names])], profile)
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "separate.toml"
        file.write_text(text)
        flows = anabranch.run(file, SPECS, seeds, set={"measure.sample_ms": 1000}).flows
    return flows.groupby("algorithm")["goodput_mbps"].mean()


def main(what: str = "errors", runs: str = "600", *first: str) -> None:
    """Prints one of the groups of tables over `runs` networks from a first seed on, or seeds."""
    tables: dict[str, Callable[..., None]] = {
        "errors": errors,
        "today": today,
        "cells": cells,
        "moves": moves,
        "goodput": goodput,
    }
    tables[what](int(runs), *map(int, first))


if __name__ == "__main__":
    main(*sys.argv[1:])
