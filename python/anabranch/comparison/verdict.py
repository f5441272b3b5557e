"""What a comparison shows, in words: a difference counts where the intervals do not overlap."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from anabranch.result import Result, mean_with_interval

NEAR = 0.01
"""Means that differ relatively by less than this are called the same."""

LEAST_PERCENT = 0.1
"""The least difference of goodputs that is told."""

MOST_NAMES = 3
"""More names than these are counted."""


@dataclass(frozen=True)
class Measure:
    """A quantity of each algorithm: mean and half its interval, 0 where there is none."""

    mean: pd.Series
    half: pd.Series

    def best(self, least: bool) -> list[str]:
        """The best algorithm and those that cannot be told from it."""
        first = self.mean.idxmin() if least else self.mean.idxmax()
        return [str(name) for name in self.mean.index if self._same(name, first)]

    def spread(self) -> float:
        """The relative difference of the greatest and the least mean."""
        top = float(self.mean.max())
        return (top - float(self.mean.min())) / top if top > 0 else 0.0

    def _same(self, a: object, b: object) -> bool:
        apart = abs(self.mean[a] - self.mean[b])
        return bool(
            apart <= max(self.half[a] + self.half[b], NEAR * max(self.mean[a], self.mean[b]))
        )


def in_words(result: Result) -> str:
    """The best algorithms by goodput, times of files, fairness and queues, in a line.

    Empty for one algorithm.
    """
    if len(result.algorithms) < 2:
        return ""
    totals = result.totals()
    if not totals["total_goodput_mbps"].any():
        return "No algorithm delivered anything."
    queue = result.links.groupby([*result.keys], sort=False)["queue_packets"].sum().reset_index()
    queues = _measure(mean_with_interval(queue, ["algorithm"], ["queue_packets"]), "queue_packets")
    parts = [
        _goodput(_measure(totals, "total_goodput_mbps")),
        _files(result),
        _fairness(_measure(totals, "jain_index"), len(result.flows["user"])),
        _queues(queues),
    ]
    return f"{'; '.join(part for part in parts if part)}."


def _measure(rows: pd.DataFrame, column: str) -> Measure:
    by_name = rows.set_index("algorithm")
    return Measure(by_name[column], by_name[f"{column}_ci95"].fillna(0.0))


def _goodput(total: Measure) -> str:
    most, least = total.best(least=False), total.mean.idxmin()
    if len(most) == len(total.mean):
        return f"Total goodput: all within {max(100 * total.spread(), LEAST_PERCENT):.2g} %"
    top = float(total.mean[most].max())
    more = f", {top / total.mean[least] - 1:.0%} more than {least}".replace("%", " %")
    return f"Most total goodput: {_names(most)} ({top:.4g} Mbps{more if total.mean[least] else ''})"


def _files(result: Result) -> str:
    """The mean time of a file; nothing unless every algorithm completed some."""
    rows = result.transfer_summary()
    if rows["algorithm"].nunique() < len(result.algorithms):
        return ""
    parts = []
    for flow, of_flow in rows.groupby("flow", sort=False):
        times = _measure(of_flow, "mean_s")
        best = times.best(least=True)
        if len(best) < len(times.mean):
            parts.append(
                f"fastest files of {flow}: {_names(best)} ({times.mean[best].min():.3g} s)"
            )
    return "; ".join(parts)


def _fairness(jain: Measure, users: int) -> str:
    best, worst = jain.best(least=False), jain.mean.idxmin()
    if users < 2 or jain.mean.isna().any() or len(best) == len(jain.mean):
        return ""
    index = f"{jain.mean[best].max():.2f}; {worst} {jain.mean[worst]:.2f}"
    return f"goodputs most equal: {_names(best)} (Jain's index {index})"


def _queues(queue: Measure) -> str:
    best, worst = queue.best(least=True), queue.mean.idxmax()
    if queue.mean[worst] < 1 or len(best) == len(queue.mean):
        return ""
    packets = f"{queue.mean[best].min():.3g} packets; {worst} {queue.mean[worst]:.3g}"
    return f"shortest queues: {_names(best)} ({packets})"


def _names(names: Sequence[str]) -> str:
    if len(names) <= MOST_NAMES:
        return ", ".join(names)
    return f"{len(names)} of them, {names[0]} among them"
