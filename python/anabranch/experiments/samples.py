"""Data of single runs for a figure: samples over time, or values to count."""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from anabranch.experiments.drawings import Distribution, Drawing, Time
from anabranch.result import Result


@dataclass(frozen=True)
class Samples:
    """The extracts of the runs that a figure draws; none for figures of measures."""

    drawing: Drawing | None
    parts: dict[tuple[str, str], dict[int, pd.DataFrame]] = field(default_factory=dict)
    """Extracts by case and rule, and by seed."""

    def takes(self, case: str) -> bool:
        """Whether the figure draws runs of a case."""
        return isinstance(self.drawing, Time | Distribution) and case in self.drawing.cases

    def add(self, case: str, rule: str, seed: int, result: Result) -> None:
        """Take what the figure needs of a run."""
        found = self.parts.setdefault((case, rule), {})
        if isinstance(self.drawing, Time):
            found[seed] = timed(self.drawing, result)
        elif isinstance(self.drawing, Distribution):
            found[seed] = counted(self.drawing, result)

    def of(self, case: str, rule: str | None = None) -> list[pd.DataFrame]:
        """The extracts of a case in the order of seeds, of a rule or of all."""
        return [
            one
            for (name, by), seeds in self.parts.items()
            if name == case and rule in (None, by)
            for _, one in sorted(seeds.items())
        ]


def timed(drawing: Time, result: Result) -> pd.DataFrame:
    """`time_s`, the middle of each bin, and `value`, the mean over the users of the flow."""
    table, _, column = drawing.column.partition(".")
    samples = result.tables()[table]
    chosen = samples[samples["flow"] == drawing.flow]
    chosen = chosen[chosen["time_s"].between(drawing.from_s, drawing.to_s, inclusive="right")]
    found = over_time(chosen, column, drawing.bin_s)
    return found.rename("value").rename_axis("time_s").reset_index()


def over_time(samples: pd.DataFrame, column: str, bin_s: float | None) -> pd.Series:
    """The sum over paths, then the mean over users and seeds, by time; or by the middle of bins."""
    each = [key for key in ("seed", "flow", "user", "link") if key in samples.columns]
    mean = samples.groupby([*each, "time_s"])[column].sum().groupby("time_s").mean()
    if bin_s is not None:
        # A sample belongs to the bin in which it ends.
        mean = mean.groupby(np.ceil(mean.index.to_numpy() / bin_s - 1e-9)).mean()
        mean.index = (mean.index - 0.5) * bin_s
    return mean


def counted(drawing: Distribution, result: Result) -> pd.DataFrame:
    """`value`, one row per transfer, or per bin of the samples of each user."""
    table, _, column = drawing.of.partition(".")
    rows = result.tables()[table]
    rows = rows[rows["flow"] == drawing.flow]
    if table == "transfers":
        return rows[[column]].rename(columns={column: "value"})
    rows = rows[rows["time_s"] > result.scenario.warmup_s]
    number = np.ceil(rows["time_s"] / drawing.bin_s - 1e-9)
    means = rows.groupby([rows["user"], number])[column].mean()
    return means.reset_index(drop=True).to_frame("value")
