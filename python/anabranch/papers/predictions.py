"""Theoretical predictions for the runs of a paper: fixed points and optima.

`[predictions]` in a paper's `experiments.toml` requests them: `groups`, and `rtt_ms`, the RTT of
every path including queueing that the paper's own calculations assume.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from anabranch.papers.folder import Case, Paper, cases
from anabranch.papers.quantities.rates import drop_percent
from anabranch.scenario import Scenario, load
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
    loss: Mapping[str, float]
    """Loss probability of each link; empty at an optimum, which has prices instead."""


def predictions(paper: Paper) -> list[Prediction]:
    """All predictions that a paper's folder requests, by item; none without `[predictions]`.

    Raises `NotConverged` when a fixed point or an optimum is not found.
    """
    asked = paper.experiments.get("predictions")
    if not asked:
        return []
    rtt_s = asked["rtt_ms"] / 1e3
    runs = {
        (name, case.name): _predict(paper, name, case, rtt_s)
        for name in asked["groups"]
        for case in cases(paper.experiments["groups"][name])
    }
    made = [entry for item in paper.experiments["items"] for entry in _measured(item, runs)]
    known = {(entry.item, entry.metric, entry.case, entry.kind): entry.value for entry in made}
    for item in paper.experiments["items"]:
        for drop in item.get("drops", []):
            for kind in KINDS:
                before, after = (
                    known.get((item["id"], drop["of"], drop[end], kind)) for end in ("from", "to")
                )
                if before is not None and after is not None:
                    lost = drop_percent(before, after)
                    made.append(Prediction(item["id"], drop["metric"], drop["case"], kind, lost))
    return made


def predicted(paper: Paper) -> Paper:
    """The paper with its predictions added to the theory values, rounded to four digits.

    Only kinds that `[theory]` of its `published.toml` describes are added.
    """
    published = deepcopy(dict(paper.published))
    for entry in predictions(paper):
        if entry.kind not in published["theory"]:
            continue
        facts = published["items"][entry.item].setdefault(entry.metric, {})
        facts.setdefault("theory", {}).setdefault(entry.kind, {})[entry.case] = float(
            f"{entry.value:.4g}"
        )
    return replace(paper, published=published)


def _predict(paper: Paper, group: str, case: Case, rtt_s: float) -> dict[str, Predicted]:
    """The predictions for one case, by kind."""
    file = paper.folder / paper.experiments["groups"][group]["scenario"]
    scenario = load(file, case.overrides).with_algorithm(case.algorithm)
    found = {
        OPTIMUM: _at_optimum(optima(scenario)),
        PROBING: _at_optimum(optima(scenario, probing=True, rtt_s=rtt_s)),
    }
    if is_by_loss(case.algorithm):
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


QUANTITIES: Mapping[str, Callable[[Predicted, Mapping[str, Any]], float | None]] = {
    "user_goodput_mbps": lambda run, entry: run.user_mbps[entry["flow"]],
    "aggregate_goodput_mbps": lambda run, _: sum(
        rate * run.users[flow] for flow, rate in run.user_mbps.items()
    ),
    "link_loss_probability": lambda run, entry: run.loss.get(entry["link"]),
}
"""What is predicted of a run, by the name of the quantity that measures it."""


def _measured(
    item: Mapping[str, Any], runs: Mapping[tuple[str, str], Mapping[str, Predicted]]
) -> Iterator[Prediction]:
    """The predictions of what an item measures in these runs."""
    for entry in item.get("measures", []):
        quantity = QUANTITIES.get(entry["quantity"])
        chosen = entry.get("cases", item.get("cases"))
        for (group, case), by_kind in runs.items():
            mine = group == entry.get("group", item.get("group"))
            if quantity is None or not mine or case not in (chosen or [case]):
                continue
            name = entry.get("case", "{case}").format(case=case)
            for kind, run in by_kind.items():
                value = quantity(run, entry)
                if value is not None:
                    yield Prediction(item["id"], entry["metric"], name, kind, value)
