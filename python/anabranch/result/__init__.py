"""The result of runs: tables with the same columns for every backend."""

import html
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import pandas as pd

from anabranch._core import VERSION
from anabranch.files import refuse_full, staged
from anabranch.formats import columns, latex_table, records
from anabranch.intervals import jain_index, mean_with_interval, median_with_interval
from anabranch.result import manifest
from anabranch.result import warnings as result_warnings
from anabranch.result.caveats import caveats
from anabranch.result.manifest import Manifest
from anabranch.scenario import Scenario

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def between(samples: pd.DataFrame, from_s: float | None, to_s: float | None) -> pd.DataFrame:
    """The samples that end after `from_s` and not after `to_s`; None is the end of the run.

    Raises LookupError where there are none.

    >>> between(pd.DataFrame({"time_s": [0.5, 1.0, 1.5]}), 0.5, None)["time_s"].tolist()
    [1.0, 1.5]
    """
    time = samples["time_s"]
    start = -float("inf") if from_s is None else from_s
    stop = float("inf") if to_s is None else to_s
    chosen = samples[(time > start) & (time <= stop)]
    if chosen.empty:
        raise LookupError(f"no samples from {start:g} to {stop:g} s")
    return chosen


__all__ = [
    "TABLES",
    "Result",
    "between",
    "jain_index",
    "mean_with_interval",
    "median_with_interval",
]

TABLES = (
    "flows",
    "paths",
    "links",
    "transfers",
    "flow_samples",
    "path_samples",
    "link_samples",
)


@dataclass(frozen=True, repr=False)
class Result:
    """The tables of one or several runs. Totals are over [warmup_s, duration_s] of the scenario.

    Each table leads with the columns `keys`: what was swept (if anything), `algorithm` (what
    flows without one of their own ran) and `seed`.

    >>> from anabranch import run
    >>> short = {"measure.duration_s": 10, "measure.warmup_s": 2}
    >>> result = run("examples/two_links.toml", ["lia", "olia"], seeds=2, set=short)
    >>> result.keys, result.algorithms, result.seeds
    (('algorithm', 'seed'), ['lia', 'olia'], [1, 2])
    >>> result.links[["algorithm", "seed", "link", "utilization"]].head(2).round(1)
      algorithm  seed   link  utilization
    0       lia     1   left          1.0
    1       lia     1  right          1.0
    """

    scenario: Scenario
    """The scenario without the overrides of a sweep."""
    backend: str
    keys: tuple[str, ...]
    flows: pd.DataFrame
    """Per user of a flow: rule, which the flow ran; goodput_mbps, delivered_bytes, losses,
    timeouts, transfers_done."""
    paths: pd.DataFrame
    """Per path of a user: goodput_mbps, losses by cause, window_packets, rtt_ms."""
    links: pd.DataFrame
    """Per link: throughput_mbps, utilization, drops by cause, queue_packets, queue_ms."""
    transfers: pd.DataFrame
    """Per finished transfer: start_s, bytes, duration_s."""
    flow_samples: pd.DataFrame
    path_samples: pd.DataFrame
    link_samples: pd.DataFrame
    lateness: pd.DataFrame | None = None
    """Per run in real time: how late its packets were delivered, and whether it was too late to
    count (docs/reference/lab.md): packets, median_us, p99_us, worst_us, too_late. None on other
    backends."""
    media: pd.DataFrame | None = None
    """Per user that sends media: rate_mbps, packets, lost_packets, delay_median_ms, delay_p99_ms,
    frames, freezes (docs/reference/workloads.md). None where no flow does."""
    failures: Mapping[str, str] = field(default_factory=dict)
    """The algorithms that are not in the tables because a run failed, with the reason."""
    rules_in_python: tuple[str, ...] = ()
    """The algorithms that were objects of Python, not names."""

    @property
    def cases(self) -> list[str]:
        """The leading columns but the seed: what tells one line of a comparison from another."""
        return [key for key in self.keys if key != "seed"]

    @property
    def algorithms(self) -> list[str]:
        """The algorithms in the order in which they were asked for."""
        return list(self.links["algorithm"].unique())

    @property
    def seeds(self) -> list[int]:
        """The seeds in the order in which they were asked for."""
        return [int(seed) for seed in self.links["seed"].unique()]

    def of_seeds(self, seeds: Sequence[int]) -> "Result":
        """The result of these seeds alone."""
        parts = self.tables() | self.more_tables()
        return replace(self, **{n: t[t["seed"].isin(seeds)] for n, t in parts.items() if len(t)})

    def more_tables(self) -> dict[str, pd.DataFrame]:
        """The tables that only some results have, by name: `lateness` and `media`."""
        more = {"lateness": self.lateness, "media": self.media}
        return {name: table for name, table in more.items() if table is not None}

    def late_runs(self) -> pd.DataFrame:
        """The rows of `lateness` of the runs that were too late; none on other backends."""
        if self.lateness is None:
            return pd.DataFrame({key: [] for key in self.keys})
        return self.lateness[self.lateness["too_late"].astype(bool)]

    def summary(self) -> pd.DataFrame:
        """Per case and flow, mean and 95 % interval over seeds.

        `rule`, which the flow ran: the `algorithm` of the run, or its own; `users`;
        `goodput_mbps`, the mean over users; `loss_probability`, lost over sent packets; `rtt_ms`,
        the mean over paths, weighted by packets sent. Goodput is last, because pandas leaves out
        the columns in the middle where the terminal is narrow.

        >>> from anabranch import run
        >>> short = {"measure.duration_s": 10, "measure.warmup_s": 2}
        >>> result = run("examples/two_links.toml", seeds=2, set=short)
        >>> result.summary()[["algorithm", "flow", "rule", "goodput_mbps"]].round(1)
          algorithm          flow  rule  goodput_mbps
        0       lia      two-path   lia           2.5
        1       lia   on the left  reno           1.6
        2       lia  on the right  reno           1.7
        """
        by = [*self.keys, "flow"]
        flows = self.flows.groupby(by, sort=False).agg(
            rule=("rule", "first"),
            users=("user", "count"),
            goodput_mbps=("goodput_mbps", "mean"),
            sent=("sent_packets", "sum"),
            lost=("lost_packets", "sum"),
        )
        flows["loss_probability"] = flows["lost"] / flows["sent"]
        measured = self.paths[self.paths["rtt_ms"] > 0]
        weighted = measured.assign(rtt=measured["rtt_ms"] * measured["sent_packets"])
        sums = weighted.groupby(by, sort=False)[["rtt", "sent_packets"]].sum()
        flows["rtt_ms"] = sums["rtt"] / sums["sent_packets"]
        measures = ["loss_probability", "rtt_ms", "goodput_mbps"]
        rows = [*self.cases, "flow", "rule", "users"]
        return mean_with_interval(flows.reset_index(), rows, measures)

    def link_summary(self) -> pd.DataFrame:
        """Per case and link, mean and 95 % interval over seeds.

        >>> from anabranch import run
        >>> short = {"measure.duration_s": 10, "measure.warmup_s": 2}
        >>> result = run("examples/two_links.toml", seeds=2, set=short)
        >>> result.link_summary()[["algorithm", "link", "utilization"]].round(2)
          algorithm   link  utilization
        0       lia   left          1.0
        1       lia  right          1.0
        """
        measures = ["throughput_mbps", "utilization", "loss_probability", "queue_packets"]
        return mean_with_interval(self.links, [*self.cases, "link"], measures)

    def transfer_summary(self) -> pd.DataFrame:
        """Per case and flow with finished files, mean and 95 % interval over seeds.

        `transfers`, the number of files; `mean_s`, `median_s` and `p95_s` of the time from a file's
        arrival to its last byte. Files that arrive in the warm-up are excluded.
        """
        by, measures = [*self.keys, "flow"], ["transfers", "mean_s", "median_s", "p95_s"]
        if self.transfers.empty:
            return pd.DataFrame(columns=[*self.cases, "flow", *measures])
        files = self.transfers[self.transfers["start_s"] >= self.scenario.warmup_s]
        times = files.groupby(by, sort=False)["duration_s"].agg(
            transfers="count",
            mean_s="mean",
            median_s="median",
            p95_s=lambda durations: durations.quantile(0.95),
        )
        in_order = pd.MultiIndex.from_frame(self.flows[by].drop_duplicates())
        times = times.reindex(in_order[in_order.isin(times.index)])
        return mean_with_interval(times.reset_index(), [*self.cases, "flow"], measures)

    def media_summary(self) -> pd.DataFrame:
        """Per case and flow that sends media, mean over its users and 95 % interval over seeds.

        `rate_mbps`, `delay_p99_ms`, `loss_probability`, `freezes` and `frames`, of a user.
        """
        measures = ["rate_mbps", "delay_p99_ms", "loss_probability", "freezes", "frames"]
        if self.media is None:
            return pd.DataFrame(columns=[*self.cases, "flow", *measures])
        media = self.media.assign(
            loss_probability=self.media["lost_packets"] / self.media["packets"]
        )
        users = media.groupby([*self.keys, "flow"], sort=False)[measures].mean().reset_index()
        return mean_with_interval(users, [*self.cases, "flow"], measures)

    @cached_property
    def warnings(self) -> list[str]:
        """Warnings of the scenario, of the backend (`result/caveats.py`), and of these runs: a line
        each.
        """
        found = result_warnings.found(self.scenario, self.backend, self.tables())
        return [*self.scenario.warnings, *caveats(self.scenario, self.backend), *found]

    def is_deterministic(self) -> bool:
        """Whether every seed gave the same, because nothing in the scenario is random.

        Never in real time, where equal numbers are chance.
        """
        if self.lateness is not None:
            return False
        runs = self.flows.drop(columns="seed").groupby(self.cases, sort=False)
        seeds = len(self.seeds)
        return all(len(run.drop_duplicates()) * seeds == len(run) for _, run in runs)

    def one_trajectory(self) -> pd.DataFrame:
        """Per case whether its numbers are those of one trajectory, so that they have no interval.

        A single seed, or seeds that gave the same because nothing is random. What a backend
        computes without seeds is no trajectory.
        """
        backend = resolve_name("anabranch.runner:known_backend")(self.backend)  # above this module
        rows = self.flows.drop(columns="seed")
        runs = self.flows.groupby(self.cases, sort=False)["seed"].nunique()
        distinct = rows.drop_duplicates().groupby(self.cases, sort=False).size()
        users = rows.groupby(self.cases, sort=False).size() / runs
        fixed = (distinct == users) if self.lateness is None else runs == 1
        return (fixed & backend.random).rename("one_trajectory").reset_index()

    def is_one_trajectory(self) -> bool:
        """Whether that is so of every case."""
        return bool(self.one_trajectory()["one_trajectory"].all())

    def totals(self) -> pd.DataFrame:
        """Per case: `total_goodput_mbps` and `jain_index` over all users, with 95 % intervals.

        >>> from anabranch import run
        >>> short = {"measure.duration_s": 10, "measure.warmup_s": 2}
        >>> result = run("examples/two_links.toml", seeds=2, set=short)
        >>> result.totals()[["algorithm", "jain_index"]].round(2)
          algorithm  jain_index
        0       lia        0.93
        """
        goodput = self.flows.groupby(list(self.keys), sort=False)["goodput_mbps"]
        totals = goodput.agg(total_goodput_mbps="sum", jain_index=jain_index)
        measures = ["total_goodput_mbps", "jain_index"]
        return mean_with_interval(totals.reset_index(), self.cases, measures)

    def tables(self) -> dict[str, pd.DataFrame]:
        """The tables that every result has, by name.

        >>> from anabranch import run
        >>> short = {"measure.duration_s": 10, "measure.warmup_s": 2}
        >>> result = run("examples/two_links.toml", seeds=1, set=short)
        >>> list(result.tables())
        ['flows', 'paths', 'links', 'transfers', 'flow_samples', 'path_samples', 'link_samples']
        """
        return {name: getattr(self, name) for name in TABLES}

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain data for JSON, as `anabranch schema result` describes.

        `flows`, `links`, `totals` and `transfers` are the rows of the summaries; `tables` has the
        columns of those tables; `lateness`, `media` and `failures` are there if there are any.
        What was not measured is None.

        >>> from anabranch import run
        >>> short = {"measure.duration_s": 10, "measure.warmup_s": 2}
        >>> document = run("examples/two_links.toml", seeds=1, set=short).as_dict()
        >>> document["tables"]["links"]["link"]
        ['left', 'right']
        """
        return {
            "anabranch": VERSION,
            "backend": self.backend,
            "scenario": {
                "name": self.scenario.name,
                "description": self.scenario.description,
                "duration_s": self.scenario.duration_s,
                "warmup_s": self.scenario.warmup_s,
            },
            "algorithms": self.algorithms,
            "seeds": self.seeds,
            "one_trajectory": self.is_one_trajectory(),
            "flows": records(self.marked(self.summary())),
            "links": records(self.marked(self.link_summary())),
            "totals": records(self.marked(self.totals())),
            "transfers": records(self.marked(self.transfer_summary())),
            "warnings": self.warnings,
            "tables": {name: columns(table) for name, table in self.tables().items()},
            **{name: records(table) for name, table in self.more_tables().items()},
            **({"failures": dict(self.failures)} if self.failures else {}),
        }

    def marked(self, summary: pd.DataFrame) -> pd.DataFrame:
        """A summary with the column `one_trajectory`, for those who print its numbers."""
        return summary.merge(self.one_trajectory(), on=self.cases, how="left")

    def plot(
        self, kind: str = "goodput", *, ax: Any = None, width_cm: float | None = None
    ) -> "Figure":
        """Draw a figure with Matplotlib; docs/how-to/figures.md shows each kind.

        "goodput" per flow, "goodput-rtt" of each rule, "windows", "queues" and "rates" over time,
        "plane" of two windows, the distributions "rtt" and "completion", "network"; of the result
        of a sweep "sweep", curves or a heat map. `ax`: the axes to draw in, one for each panel.
        `width_cm`: of a new figure; a column of a paper has 8.8 cm.

        Raises ValueError for another kind, for what the result does not have, and for too few axes.
        """
        draw = resolve_name("anabranch.figures.result:draw")  # above this module
        figure: Figure = draw(self, kind, ax, width_cm)
        return figure

    def animate(self, file: str | os.PathLike[str], *, frames: int = 100) -> None:
        """Write windows and queues over time as an animated GIF, first seed and algorithm.

        Raises ValueError for the result of a sweep.
        """
        resolve_name("anabranch.figures.over_time:animate")(self, Path(file), frames)

    def latex_tables(self) -> dict[str, str]:
        """The summaries as LaTeX tables (booktabs), by name: flows, links, totals, transfers."""
        tables = {
            "flows": self.summary(),
            "links": self.link_summary(),
            "totals": self.totals(),
            "transfers": self.transfer_summary(),
        }
        return {name: latex_table(table) for name, table in tables.items() if not table.empty}

    def save(self, directory: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write a Parquet file per table, also of `more_tables`, the scenario and a manifest.

        All of them, or none. `anabranch run DIRECTORY` repeats the runs. Raises FileExistsError for
        a directory that is not empty, unless `force`.

        >>> import os, tempfile
        >>> from anabranch import run
        >>> short = {"measure.duration_s": 10, "measure.warmup_s": 2}
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     run("examples/two_links.toml", seeds=1, set=short).save(directory)
        ...     print(sorted(os.listdir(directory))[:3], Result.load(directory).seeds)
        ['flow_samples.parquet', 'flows.parquet', 'link_samples.parquet'] [1]
        """
        if not force:
            refuse_full(directory)
        with staged(directory) as stage:
            self.write(stage)

    def write(self, directory: Path, command: list[str] | None = None) -> None:
        """Write the files of `save` into an existing directory, one after the other.

        `command` is the command line that led to this result.
        """
        runs = manifest.Runs(
            backend=self.backend,
            keys=self.keys,
            algorithms=self.algorithms,
            seeds=self.seeds,
            rules_in_python=list(self.rules_in_python),
            failures=dict(self.failures),
        )
        tables = self.tables() | self.more_tables()
        manifest.write(directory, runs, self.scenario, tables, self.warnings, command)

    @staticmethod
    def load(directory: str | os.PathLike[str]) -> "Result":
        """Read what `save` has written.

        Raises `ScenarioError` for a directory without a manifest; FileNotFoundError where a table
        is missing.
        """
        stored = Manifest.read(directory)
        return Result(
            scenario=stored.scenario(),
            backend=stored.runs.backend,
            keys=stored.runs.keys,
            **stored.tables(),
            failures=stored.runs.failures,
            rules_in_python=tuple(stored.runs.rules_in_python),
        )

    def __repr__(self) -> str:
        return f"<Result {self._headline()}>"

    def _repr_html_(self) -> str:
        """The summaries, for notebooks."""
        tables = (self.summary(), self.link_summary())
        parts = (table.to_html(index=False, na_rep="", float_format="%.4g") for table in tables)
        return "\n".join([f"<p>{html.escape(self._headline())}</p>", *parts])

    def _headline(self) -> str:
        names = ", ".join(self.algorithms)
        few = f"seeds {', '.join(map(str, self.seeds))}"
        seeds = few if len(self.seeds) <= 10 else f"{len(self.seeds)} seeds"
        return f'"{self.scenario.name}" on {self.backend}: algorithms {names}; {seeds}'
