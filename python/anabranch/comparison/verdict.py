"""A comparison in words: a difference counts where its interval, paired by seed, excludes 0.

Each question has a 95 % level of its own: total goodput, goodput of each user, times of files,
fairness, queues.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd

from anabranch.intervals import MOST_SEEDS, Ranking, ranking
from anabranch.result import Result, jain_index

NEAR = 0.01
"""Means that differ relatively by less than this are called the same."""

LEAST_PERCENT = 0.1
"""The least difference of goodputs that is told."""

MOST_NAMES = 3
"""More names than these are counted."""


@dataclass
class Undecided:
    """Questions that the seeds leave open, with the seeds that would decide each."""

    seeds: dict[str, float] = field(default_factory=dict)

    def advice(self, have: int) -> str:
        """Remedy for them; empty where there are none."""
        if not self.seeds:
            return ""
        needed = [n for n in self.seeds.values() if math.isfinite(n)]
        would = (
            f"about {_rounded(max(needed, default=0))} would"
            if len(needed) == len(self.seeds)
            else f"about {_rounded(max(needed))} would for some, over {MOST_SEEDS} for the rest"
            if needed
            else f"not even {MOST_SEEDS} would"
        )
        return (
            f"{have} seeds do not tell which rule is best for {_listed(list(self.seeds))}; {would}"
        )


def in_words(result: Result) -> str:
    """The best algorithms by goodput, of all and of each user, times of files, fairness and queues.

    One line, and empty for one algorithm. Of a single trajectory it says only that nothing is
    ranked.
    """
    if len(result.algorithms) < 2:
        return ""
    if not result.totals()["total_goodput_mbps"].any():
        return "No algorithm delivered anything."
    if result.is_one_trajectory():
        why = "nothing in the scenario is random" if len(result.seeds) > 1 else "one seed"
        remedy = "remove start_spread_s = 0, or give links losses" if len(result.seeds) > 1 else ""
        return (
            f"No algorithm is ranked: {why}, so that each result is one trajectory, without an "
            f"interval; {remedy or 'take several seeds, such as --seeds 10'}."
        )
    open_questions = Undecided()
    goodput = result.flows.groupby(["algorithm", "seed"], sort=False)["goodput_mbps"]
    queue = result.links.groupby(["algorithm", "seed"], sort=False)["queue_packets"].sum()
    parts = [
        _goodput(_ranked(goodput.sum(), result), open_questions),
        *_users(result, open_questions),
        *_files(result),
        _fairness(_ranked(goodput.agg(jain_index), result), len(result.flows["user"])),
        _queues(_ranked(queue, result, least=True)),
        open_questions.advice(len(result.seeds)),
    ]
    said = [part for part in parts if part]
    return f"{'; '.join(said)}." if said else ""


def _ranked(values: pd.Series, result: Result, least: bool = False) -> Ranking:
    """The ranking of values by algorithm and seed."""
    present = set(values.index.get_level_values("algorithm"))
    by_rule = {name: values[name] for name in result.algorithms if name in present}
    return ranking(by_rule, least=least)


def _exact(found: Ranking) -> bool:
    """Whether nothing has an interval, because the backend computes without seeds."""
    return all(apart.n < 2 for apart in found.behind.values())


def _worse(found: Ranking) -> list[str]:
    """The algorithms that are worse than the first one by more than `NEAR`, the worst first."""
    exact = _exact(found)
    scale = NEAR * max(abs(mean) for mean in found.mean.values())
    told = [
        name
        for name, apart in found.behind.items()
        if apart.mean > scale and (exact or apart.decided)
    ]
    return sorted(told, key=lambda name: -found.behind[name].mean)


def _same(found: Ranking) -> bool:
    """Whether the intervals leave no difference of more than `NEAR`."""
    return found.within() <= NEAR


def _best(found: Ranking) -> list[str]:
    """The first algorithm and those whose means are within `NEAR` of its, in the order asked."""
    scale = NEAR * max(abs(mean) for mean in found.mean.values())
    far = [name for name, apart in found.behind.items() if apart.mean > scale]
    return [name for name in found.mean if name not in far]


def _unsure(found: Ranking) -> str:
    """The algorithms that are neither best nor certainly worse."""
    told = [*_best(found), *_worse(found)]
    unsure = [name for name in found.mean if name not in told]
    return f"; {_names(unsure)} undecided" if unsure else ""


def _lead(found: Ranking, worse: str) -> str:
    """How much more the first has than another one, of their means."""
    top, low = found.mean[found.first], found.mean[worse]
    return f", {top / low - 1:.0%} more than {worse}".replace("%", " %") if low else ""


def _goodput(total: Ranking, open_questions: Undecided) -> str:
    if worse := _worse(total):
        top = f"{total.mean[total.first]:.4g} Mbps{_lead(total, worse[0])}{_unsure(total)}"
        return f"Most total goodput: {_names(_best(total))} ({top})"
    if _same(total):
        percent = max(100 * total.within(), LEAST_PERCENT)
        return f"Total goodput: all within {percent:.2g} %"
    open_questions.seeds["total goodput"] = total.seeds_to_decide
    return "Total goodput: no difference is certain"


def _users(result: Result, open_questions: Undecided) -> list[str]:
    """The goodput of a user of each flow, where there are several flows."""
    flows = result.flows.groupby("flow", sort=False)
    if len(flows) < 2:
        return []
    parts, same, uncertain = [], [], {}
    for flow, rows in flows:
        goodput = rows.groupby(["algorithm", "seed"], sort=False)["goodput_mbps"].mean()
        found = _ranked(goodput, result)
        if worse := _worse(found):
            numbers = f"{found.mean[found.first]:.4g} Mbps; {worse[0]} {found.mean[worse[0]]:.4g}"
            best = _names(_best(found))
            parts.append(f"most for {flow}: {best} ({numbers}{_unsure(found)})")
        elif _same(found):
            same.append(str(flow))
        else:
            uncertain[str(flow)] = found.seeds_to_decide
    if len(parts) > MOST_NAMES:
        parts = [*parts[:MOST_NAMES], f"{len(parts) - MOST_NAMES} flows more differ"]
    if same:
        parts.append(f"the same within 1 % for {_listed(same)}")
    open_questions.seeds.update(uncertain)
    return parts


def _files(result: Result) -> list[str]:
    """The mean time of a file of each flow; nothing unless every run completed some."""
    files = result.transfers
    if files.empty:
        return []
    files = files[files["start_s"] >= result.scenario.warmup_s]
    parts = []
    runs = len(result.algorithms) * len(result.seeds)
    for flow, of_flow in files.groupby("flow", sort=False):
        times = of_flow.groupby(["algorithm", "seed"], sort=False)["duration_s"].mean()
        if len(times) < runs:
            continue
        found = _ranked(times, result, least=True)
        if _worse(found):
            seconds = f"{found.mean[found.first]:.3g} s{_unsure(found)}"
            parts.append(f"fastest files of {flow}: {_names(_best(found))} ({seconds})")
    return parts


def _fairness(jain: Ranking, users: int) -> str:
    worse = _worse(jain)
    if users < 2 or not worse or any(map(math.isnan, jain.mean.values())):
        return ""
    index = f"{jain.mean[jain.first]:.2f}; {worse[0]} {jain.mean[worse[0]]:.2f}"
    return f"goodputs most equal: {_names(_best(jain))} (Jain's index {index}{_unsure(jain)})"


def _queues(queue: Ranking) -> str:
    worse = _worse(queue)
    if not worse or queue.mean[worse[0]] < 1:
        return ""
    packets = f"{queue.mean[queue.first]:.3g} packets; {worse[0]} {queue.mean[worse[0]]:.3g}"
    return f"shortest queues: {_names(_best(queue))} ({packets}{_unsure(queue)})"


def _names(names: Sequence[str]) -> str:
    if len(names) <= MOST_NAMES:
        return ", ".join(names)
    return f"{len(names)} of them, {names[0]} among them"


def _listed(names: Sequence[str]) -> str:
    if len(names) > MOST_NAMES + 1:
        names = [*names[:MOST_NAMES], f"{len(names) - MOST_NAMES} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _rounded(seeds: float) -> str:
    """A number of seeds to two digits."""
    return f"{float(f'{seeds:.2g}'):.0f}"
