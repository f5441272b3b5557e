"""Theoretical predictions for the runs of a paper: fixed points and optima.

`[predictions]` in a paper's `experiments.toml` requests them: `groups`, and `rtt_ms`, the RTT of
every path including queueing that the paper's own calculations assume.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import fmean

from anabranch.papers.entries.case import Case
from anabranch.papers.entries.experiments import Group, Setup
from anabranch.papers.entries.paper import Item, Paper
from anabranch.quantities.rates import drop_percent
from anabranch.scenario import Scenario, load
from anabranch.theory.network import Network
from anabranch.theory.optimum.fixed_points import fixed_point, is_by_loss
from anabranch.theory.optimum.optimum import Optimum, optima
from anabranch.typed_toml import Values

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
    loss: Mapping[str, float]
    """Loss probability of each link; empty at an optimum, which has prices instead."""


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
    items = paper.items.values()
    values: dict[tuple[str, str, Case, str], list[float]] = {}
    for item in items:
        for name, value in _measured(item, runs):
            values.setdefault(name, []).append(value)
    # Cases renamed to the same name are averaged, as measured numbers are.
    known = {name: fmean(of_name) for name, of_name in values.items()}
    made = [Prediction(*name, value) for name, value in known.items()]
    for item in items:
        for drop in item.drops:
            for kind in KINDS:
                before, after = (
                    known.get((item.id, drop.of, end, kind)) for end in (drop.from_, drop.to)
                )
                if before is not None and after is not None:
                    lost = drop_percent(before, after)
                    made.append(Prediction(item.id, drop.metric, drop.case, kind, lost))
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
        OPTIMUM: _at_optimum(optima(scenario)),
        PROBING: _at_optimum(optima(scenario, probing=True, rtt_s=rtt_s)),
    }
    if is_by_loss(setup.algorithm):
        found[FIXED_POINT] = _at_fixed_point(scenario, rtt_s)
    return found


def _at_optimum(found: list[Optimum]) -> Predicted:
    (best,) = found  # one interval, because flows neither start nor stop
    flows = best.flows().set_index("flow")
    return Predicted(flows["rate_mbps"].to_dict(), flows["users"].to_dict(), {})


def _at_fixed_point(scenario: Scenario, rtt_s: float) -> Predicted:
    found = fixed_point(Network.of(scenario), rtt_s)
    rates = found.user_mbps()
    losses = dict(zip(found.network.links, map(float, found.loss), strict=True))
    return Predicted(rates, dict(zip(rates, map(int, found.users), strict=True)), losses)


QUANTITIES: Mapping[str, Callable[[Predicted, Values], float | None]] = {
    "user_goodput_mbps": lambda run, parameters: run.user_mbps[parameters["flow"]],
    "aggregate_goodput_mbps": lambda run, _: sum(
        rate * run.users[flow] for flow, rate in run.user_mbps.items()
    ),
    "link_loss_probability": lambda run, parameters: run.loss.get(parameters["link"]),
}
"""Predictions of a run, by the name of the quantity that measures it."""


def _measured(
    item: Item, runs: Mapping[tuple[str, Case], Mapping[str, Predicted]]
) -> Iterator[tuple[tuple[str, str, Case, str], float]]:
    """Item, metric, case and kind of what an item measures in these runs, with its prediction."""
    for taken in item.measures:
        quantity = QUANTITIES.get(taken.quantity)
        for (group, case), by_kind in runs.items():
            if quantity is None or group != taken.group or not taken.takes(case):
                continue
            for kind, run in by_kind.items():
                value = quantity(run, taken.parameters)
                if value is not None:
                    name = case.renamed(taken.case)
                    yield (item.id, taken.metric, name, kind), value
