"""Errors of shared-bottleneck detection: docs/records/shared-bottlenecks.csv.

    .venv/bin/python benches/shared_bottlenecks.py [errors|today] [networks] [first seed]

Prints Markdown tables. A pair of paths is an error if it is coupled at the end of the run although
it shares no bottleneck ("false shared"), or the reverse ("false separate"); intervals are Wilson's,
95 %.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from bottleneck_networks import AQM, Network, steady
from scipy.stats import binomtest

import anabranch

DETECTORS = ("shared", "rfc8382")
SETTLED_S = 20.0


def wilson(errors: int, n: int) -> str:
    """The share of errors and its 95 % interval, in percent."""
    if n == 0:
        return "-"
    low, high = binomtest(errors, n).proportion_ci(method="wilson")
    return f"{100 * errors / n:.1f} ({100 * low:.1f} to {100 * high:.1f})"


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
                        }
                    )
    return pd.DataFrame(rows)


def separated_at(row: "pd.Series[object]") -> float:
    """When the pair was first separate, and stayed so for 5 s; infinite if never."""
    separate = ~np.asarray(row["coupled"])
    first = np.flatnonzero(np.convolve(separate, np.ones(25), "valid") == 25)
    return float(np.asarray(row["times"])[first[0]]) if len(first) else float("inf")


def line(name: str, rows: pd.DataFrame) -> str:
    """A row of a table: both errors at the end, and the share of the time after it settled."""
    shared, apart = rows[rows["shared"]], rows[~rows["shared"]]
    late = [np.mean(c[t > SETTLED_S]) for c, t in zip(rows.coupled, rows.times, strict=True)]
    wrong = np.where(rows["shared"], 1 - np.array(late), late)
    waits = [separated_at(row) for _, row in apart.iterrows()]
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


def main(what: str = "errors", networks: str = "600", *first: str) -> None:
    """Prints one of the tables over so many networks from a first seed on."""
    tables: dict[str, Callable[..., None]] = {"errors": errors, "today": today}
    tables[what](int(networks), *map(int, first))


if __name__ == "__main__":
    main(*sys.argv[1:])
