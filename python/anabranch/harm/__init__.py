"""Does a second path harm? Every rule beside the best single path, over a grid of networks."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from typing import Any

import pandas as pd

from anabranch.intervals import Difference, paired_difference
from anabranch.result import Result
from anabranch.runner import Progress, collect_parts, known_backend, plan
from anabranch.runner.asked import Algorithm, Seeds, seeds_of
from anabranch.scenario import load, settings

# The harm suite: each rule over two paths beside the best single path.
#
# RFC 6356 asks that a multipath connection gets at least what a single-path connection would get
# on the best of its paths. The grid is in cells.toml, the network in scenario.toml.


HARMLESS = 0.95
"""A rule harms where it gets less than this share of the best single path's goodput."""

UNCOUPLED = ("reno", "cubic")
"""Rules with which every other is compared."""

SINGLE = "reno"
"""Rules of the single paths: over one path every loss-based rule but CUBIC is Reno."""


@dataclass(frozen=True)
class Cell:
    """One network of the grid."""

    name: str
    overrides: Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """A cell's goodput, Mbps; of transfers, their size by the mean of their durations."""

    cell: str
    single: Mapping[str, float]
    """Over each path alone, with Reno."""
    goodput: Mapping[str, float]
    """Over both paths, by algorithm."""
    late: Sequence[str] = ()
    """The algorithms with a run in real time that was too late."""
    margin: Mapping[str, Difference] = field(default_factory=dict)
    """Per algorithm, how far its goodput is above `HARMLESS` of the best single path's, Mbps, by
    the differences of runs with the same seed."""

    @property
    def best(self) -> float:
        """Over the best single path."""
        return max(self.single.values())

    def harms(self, algorithm: str) -> bool:
        """Whether the algorithm gets less than the best single path, outside the interval."""
        return self.margin[algorithm].decided and self.margin[algorithm].mean < 0

    def undecided(self, algorithm: str) -> bool:
        """Whether the seeds do not tell if it harms."""
        return not self.margin[algorithm].decided

    def ratio(self, algorithm: str) -> float:
        """An algorithm's goodput relative to the best single path's."""
        return self.goodput[algorithm] / self.best


@dataclass(frozen=True)
class Harm:
    """The table of the suite."""

    backend: str
    algorithms: Sequence[str]
    rows: Sequence[Row]
    seeds: int
    """The number of seeds."""

    def harmed(self, algorithm: str) -> list[Row]:
        """The cells where an algorithm harms."""
        return [row for row in self.rows if row.harms(algorithm)]

    def undecided(self, algorithm: str) -> list[Row]:
        """The cells of which the seeds do not tell whether it harms."""
        return [row for row in self.rows if row.undecided(algorithm)]

    def as_dict(self) -> dict[str, Any]:
        """The table as plain data for JSON."""
        rows = [
            {
                **{name: value for name, value in vars(row).items() if name != "margin"},
                "best": row.best,
                "ratio": {a: row.ratio(a) for a in self.algorithms},
                "harms": {a: None if row.undecided(a) else row.harms(a) for a in self.algorithms},
            }
            for row in self.rows
        ]
        return {"backend": self.backend, "seeds": self.seeds, "harmless": HARMLESS, "rows": rows}


def harm(
    algorithms: Sequence[Algorithm] = ("lia", "olia", "balia"),
    seeds: Seeds = 3,
    *,
    on: str = "sim",
    set: Mapping[str, Any] | None = None,
    quick: bool = False,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Harm:
    """Run the suite.

    `algorithms` are compared over both paths with the best single path, and with uncoupled Reno and
    CUBIC. `set` replaces values of every cell, by dotted key. `quick`: the first network
    without its variations, for backends that run in real time. The rest is as in `run`.

    Raises `ScenarioError` for what cannot be run.
    """
    known_backend(on)
    chosen = seeds_of(seeds)
    compared: list[Algorithm] = list(dict.fromkeys([*UNCOUPLED, *algorithms]))
    cells = list(_cells(quick))
    parts = []
    with as_file(files(__package__) / "scenario.toml") as file:
        for cell in cells:
            for paths, names in ("ab", compared), ("a", [SINGLE]), ("b", [SINGLE]):
                used = {"flows.user.paths": [[link] for link in paths]}
                scenario = load(file, {**cell.overrides, **settings(set), **used})
                parts.append(plan(scenario, names, chosen, on=on))
        results = collect_parts(scenario, parts, on, jobs, progress)
    rows = []
    for cell in cells:
        both, *alone = (next(results) for _ in range(3))
        runs = _goodput(both)
        of_link = {link: _goodput(one)[SINGLE] for link, one in zip("ab", alone, strict=True)}
        single = {link: float(values.mean()) for link, values in of_link.items()}
        best = of_link[max(single, key=lambda link: single[link])]
        goodput = {name: float(values.mean()) for name, values in runs.items()}
        margin = {name: paired_difference(v, HARMLESS * best) for name, v in runs.items()}
        late = list(both.late_runs()["algorithm"].unique())
        rows.append(Row(cell.name, single, goodput, late, margin))
    return Harm(on, list(rows[0].goodput), rows, len(chosen))


def _cells(quick: bool) -> Iterator[Cell]:
    grid = tomllib.loads((files(__package__) / "cells.toml").read_text(encoding="utf-8"))
    first = grid["networks"][0]
    for network in [first] if quick else grid["networks"]:
        for losses in grid["losses"]:
            yield _cell(network, losses)
    if quick:
        return
    variations = grid["variations"]
    for losses in variations["losses"]:
        for size in variations["transfer_bytes"]:
            values = {"flows.user.workload": {"file": {"bytes": size}}, "measure.warmup_s": 0}
            yield _cell(first, losses, f"{size:,} bytes".replace(",", " "), values)
        for key in "receive_buffer_packets", "notsent_bytes":
            for value in variations[key]:
                yield _cell(first, losses, f"{key} {value}", {f"tcp.{key}": value})


def _cell(
    network: Mapping[str, Sequence[float]],
    losses: Sequence[float],
    what: str = "",
    values: Mapping[str, Any] | None = None,
) -> Cell:
    rates, rtts = network["rates"], network["rtts"]
    overrides = dict(values or {})
    for link, rate, rtt, loss in zip("ab", rates, rtts, losses, strict=True):
        overrides[f"links.{link}.rate_mbps"] = rate
        overrides[f"links.{link}.delay_ms"] = rtt / 2
        overrides[f"links.{link}.loss.bernoulli.probability"] = loss
    numbers = [" + ".join(f"{value:g}" for value in pair) for pair in (rates, rtts)]
    percents = " + ".join(f"{loss:.1%}".replace(".0%", "%") for loss in losses)
    name = f"{numbers[0]} Mbps, {numbers[1]} ms, {percents}"
    return Cell(f"{name}, {what}" if what else name, overrides)


def _goodput(result: Result) -> dict[str, pd.Series]:
    """Per algorithm the goodput by seed, Mbps; of a finished transfer, its size by its duration."""
    runs = result.flows.set_index(["algorithm", "seed"])["goodput_mbps"]
    finished = result.transfers.set_index(["algorithm", "seed"])
    runs.update(finished["bytes"] * 8e-6 / finished["duration_s"])
    return {name: runs[name] for name in result.algorithms}
