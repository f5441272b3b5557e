"""Theoretical predictions for the runs of a paper: fixed points and optima.

`[predictions]` in a paper's `experiments.toml` requests them: `groups`, and `rtt_ms`, the RTT of
every path including queueing that the paper's own calculations assume.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import fmean

import pandas as pd

from anabranch.experiments.case import Case
from anabranch.papers.suite import Group, Measure, Paper, Setup, takes
from anabranch.quantities.rates import drop_percent
from anabranch.scenario import load
from anabranch.theory.network import Network
from anabranch.theory.optimum.fixed_points import fixed_point, is_by_loss
from anabranch.theory.optimum.optimum import Optimum, optima

FIXED_POINT = "computed_fixed_point"
OPTIMUM = "computed_optimum"
PROBING = "computed_opt_probing"
KINDS = (FIXED_POINT, OPTIMUM, PROBING)


@dataclass(frozen=True)
class Prediction:
    """One predicted number, in the unit of its metric."""

    item: str
    metric: str
    case: str
    kind: str
    value: float


@dataclass(frozen=True, eq=False)
class Predicted:
    """The prediction for one run."""

    user_mbps: Mapping[str, float]
    """Goodput of one user of each flow, Mbps."""
    users: Mapping[str, int]
    """Users of each flow."""
    path_mbps: Mapping[tuple[str, int], float]
    """Goodput of one user of each flow over each of its paths, Mbps."""
    loss: Mapping[str, float]
    """Loss probability of each link; empty at an optimum, which has prices instead."""

    @classmethod
    def at(cls, found: list[Optimum]) -> "Predicted":
        """The prediction of an optimum."""
        (best,) = found  # one interval, because flows neither start nor stop
        flows = best.flows().set_index("flow")
        rates, users = flows["rate_mbps"].to_dict(), flows["users"].to_dict()
        return cls(rates, users, _by_path(best.paths()), {})

    def number(self, taken: Measure) -> float | None:
        """The number that a measure would give; None for another quantity."""
        match taken.quantity:
            case "user_goodput_mbps":
                return self.user_mbps[taken.parameters["flow"]]
            case "path_goodput_mbps":
                return self.path_mbps[taken.parameters["flow"], taken.parameters["path"]]
            case "aggregate_goodput_mbps":
                return sum(rate * self.users[flow] for flow, rate in self.user_mbps.items())
            case "link_loss_probability":
                return self.loss.get(taken.parameters["link"])
        return None


def predictions(paper: Paper) -> list[Prediction]:
    """All predictions that a paper's folder requests, by item; none without `[predictions]`.

    Raises `NotConverged` when a fixed point or an optimum is not found.
    """
    if not paper.predictions:
        return []
    rtt_s = paper.predictions.rtt_ms / 1e3
    runs = {
        (name, setup.case): _predict(paper, paper.groups[name], setup, rtt_s)
        for name in paper.predictions.groups
        for setup in paper.groups[name].setups()
    }
    values: dict[tuple[str, str, Case, str], list[float]] = {}
    for item, taken in ((of, one) for of in paper.items.values() for one in of.taken):
        for (group, case), by_kind in runs.items():
            if takes(taken, group, case):
                for kind, run in by_kind.items():
                    if (value := run.number(taken)) is not None:
                        name = (item.id, taken.metric, case.renamed(taken.case), kind)
                        values.setdefault(name, []).append(value)
    # Cases renamed to the same name are averaged, as measured numbers are.
    known = {key: fmean(of_name) for key, of_name in values.items()}
    made = [Prediction(*key, value) for key, value in known.items()]
    for id, drop in paper.drops:
        for kind in KINDS:
            before, after = (known.get((id, drop.of, end, kind)) for end in (drop.from_, drop.to))
            if before is not None and after is not None:
                lost = drop_percent(before, after)
                made.append(Prediction(id, drop.metric, drop.case, kind, lost))
    return made


def predicted(paper: Paper) -> Paper:
    """The paper with its predictions added to the theory values, rounded to four digits.

    Only kinds that `[theory]` of its `published.toml` describes are added.
    """
    items = dict(paper.items)
    for one in predictions(paper):
        if one.kind in paper.theory:
            value = float(f"{one.value:.4g}")
            items[one.item] = items[one.item].with_theory(one.metric, one.kind, one.case, value)
    return replace(paper, items=items)


def _predict(paper: Paper, group: Group, setup: Setup, rtt_s: float) -> dict[str, Predicted]:
    """The predictions for one case, by kind."""
    file = paper.folder / group.scenario
    scenario = load(file, setup.overrides).with_algorithm(setup.algorithm)
    found = {
        OPTIMUM: Predicted.at(optima(scenario)),
        PROBING: Predicted.at(optima(scenario, probing=True, rtt_s=rtt_s)),
    }
    if is_by_loss(setup.algorithm):
        point = fixed_point(Network.of(scenario), rtt_s)
        rates = point.user_mbps()
        users = dict(zip(rates, map(int, point.users), strict=True))
        losses = dict(zip(point.network.links, map(float, point.loss), strict=True))
        found[FIXED_POINT] = Predicted(rates, users, _by_path(point.paths()), losses)
    return found


def _by_path(paths: pd.DataFrame) -> dict[tuple[str, int], float]:
    """Rates from a table with the columns `flow`, `path` and `rate_mbps`."""
    found = zip(paths["flow"], paths["path"], paths["rate_mbps"], strict=True)
    return {(flow, path): rate for flow, path, rate in found}
