"""Goodput of flows with several paths over what the best single path gives them."""

import tomllib
from collections.abc import Sequence

import pandas as pd

from anabranch.result import Result, mean_with_interval
from anabranch.runner import Progress, collect_parts, plan
from anabranch.runner.asked import Seeds, seeds_of
from anabranch.scenario import Scenario, path_names, toml_value

SINGLE = "reno"
"""Rule of a single path: over one path every loss-based rule but CUBIC is Reno."""

Single = dict[str, pd.DataFrame]
"""Per flow: path, seed and goodput_mbps over this path alone."""


def over_single_paths(
    scenario: Scenario, seeds: Seeds, on: str, jobs: int | None, progress: Progress | None = None
) -> Single:
    """Run the scenario once more for each path of each flow that has several.

    In such a run every user of the flow has this path alone, with Reno (as in `anabranch harm`);
    the other flows run what the scenario says.
    """
    chosen = seeds_of(seeds, scenario.seeds)
    flows = tomllib.loads(scenario.text)["flows"]
    several = [(flow, path) for flow in flows if len(flow["paths"]) > 1 for path in flow["paths"]]
    if not several:
        return {}
    parts = [
        plan(_alone(scenario, flow["name"], path), None, chosen, on=on) for flow, path in several
    ]
    results = list(collect_parts(scenario, parts, on, jobs, progress))
    single: dict[str, list[pd.DataFrame]] = {}
    names = path_names(scenario)
    for (flow, _), result in zip(several, results, strict=True):
        name = flow["name"]
        goodput = _goodput(result, name)
        path = names[name][len(single.setdefault(name, []))]
        single[name].append(goodput.assign(path=path))
    return {name: pd.concat(frames, ignore_index=True) for name, frames in single.items()}


def gains(result: Result, single: Single) -> pd.DataFrame:
    """Per algorithm and flow with several paths, mean and 95 % interval over seeds.

    `best_path`, the best of its paths; `gain`, goodput over what a run with this path alone gave.
    """
    rows: list[pd.DataFrame] = []
    for flow, alone in single.items():
        best = str(alone.groupby("path", sort=False)["goodput_mbps"].mean().idxmax())
        of_best = alone[alone["path"] == best].set_index("seed")["goodput_mbps"]
        runs = _goodput(result, flow)
        gain = runs["goodput_mbps"] / runs["seed"].map(of_best)
        rows.append(runs.assign(gain=gain, best_path=best, flow=flow))
    columns = ["algorithm", "flow", "best_path"]
    if not rows:
        return pd.DataFrame(columns=[*columns, "gain", "gain_ci95"])
    return mean_with_interval(pd.concat(rows), columns, ["gain"])


def _goodput(result: Result, flow: str) -> pd.DataFrame:
    """Per run the mean goodput of the users of a flow."""
    rows = result.flows[result.flows["flow"] == flow]
    keys: Sequence[str] = ["algorithm", "seed"]
    return rows.groupby(list(keys), sort=False)["goodput_mbps"].mean().reset_index()


def _alone(scenario: Scenario, flow: str, path: object) -> Scenario:
    """The scenario with one path of a flow, and Reno."""
    values = {f"flows.{flow}.paths": [path], f"flows.{flow}.algorithm": SINGLE}
    settings = [(key, toml_value(value)) for key, value in values.items()]
    given = [*scenario.set, *settings]
    return Scenario.parse(scenario.original, scenario.source, given, scenario.inputs)
