"""Summary of a run over its window, and theory's numbers for it, for bars and table."""

from collections.abc import Mapping
from threading import Event
from typing import Any

import numpy as np

from anabranch._core import Cancelled
from anabranch.result import jain_index
from anabranch.scenario import Scenario, ScenarioError
from anabranch.theory.errors import NotConverged
from anabranch.theory.optimum.optimum import optima

Table = Mapping[str, Any]


def totals(scenario: Scenario, tables: Mapping[str, Table]) -> dict[str, Any]:
    """Per flow the means over its users, per link what it carried; the fairness of all users."""
    flows, paths, links = tables["flows"], tables["paths"], tables["links"]
    names, goodput = np.asarray(flows["flow"]), np.asarray(flows["goodput_mbps"], dtype=float)
    of_path = np.asarray(paths["flow"])
    rules = dict(zip(flows["flow"], flows["rule"], strict=True))
    rows = []
    for name in scenario.flow_names:
        own, its = names == name, of_path == name
        sent = np.asarray(flows["sent_packets"], dtype=float)[own].sum()
        lost = np.asarray(flows["lost_packets"], dtype=float)[own].sum()
        number = np.asarray(paths["path"])
        rows.append(
            {
                "flow": name,
                "rule": rules[name],
                "goodput_mbps": _finite(goodput[own].mean()),
                "loss": _finite(lost / sent) if sent else None,
                "paths": [
                    {
                        key: _mean(np.asarray(paths[column], dtype=float)[its & (number == path)])
                        for key, column in _PATHS.items()
                    }
                    for path in range(int(number[its].max()) + 1)
                ],
            }
        )
    return {
        "flows": rows,
        "links": [
            {key: _finite(float(links[column][i])) for key, column in _LINKS.items()}
            for i in range(len(links["link"]))
        ],
        "total_mbps": _finite(goodput.sum()),
        "jain_index": _finite(jain_index(goodput.tolist())),
    }


_PATHS = {"goodput_mbps": "goodput_mbps", "rtt_ms": "rtt_ms", "window_packets": "window_packets"}
_LINKS = {
    "utilization": "utilization",
    "queue_packets": "queue_packets",
    "loss": "loss_probability",
}


def optimum(scenario: Scenario, stop: Event) -> dict[str, Any]:
    """Per flow the rate of a user at the proportionally fair optimum, Mbps, or why there is none.

    Where flows or links come and go it is the mean over the measurement window. Raises `Cancelled`
    soon after `stop` is set.
    """

    def watch(_: float) -> None:
        if stop.is_set():
            raise Cancelled("the optimum was cancelled")

    try:
        found = optima(scenario, progress=watch)
    except (ScenarioError, NotConverged) as error:
        return {"reason": str(error)}
    sums = dict.fromkeys(scenario.flow_names, 0.0)
    for one in found:
        span = min(one.interval.to_s, scenario.duration_s) - max(
            one.interval.from_s, scenario.warmup_s
        )
        if span > 0:
            rates, names = one.user_rate, np.asarray(one.network.flows)
            for name in sums:
                sums[name] += span * float(rates[names == name].mean())
    window = scenario.duration_s - scenario.warmup_s
    return {"goodput_mbps": [total / window for total in sums.values()]}


def _mean(values: Any) -> float | None:
    measured = values[np.isfinite(values)]
    return float(measured.mean()) if len(measured) else None


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
