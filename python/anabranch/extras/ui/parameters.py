"""The sliders of a scenario: what they change, and their ranges."""

import math
import tomllib
from typing import Any

from anabranch.core_types import Flow, Link
from anabranch.scenario import Scenario

QUEUES = ["drop_tail", "red", "pie", "codel", "fq_codel", "dualpi2"]
"""The queueing disciplines that need no value."""

VARYING_DELAYS = {"jitter_ms", "keeps_order", "reorder", "arq"}
"""Keys of a link by which packets are delayed by different times."""

NO_VARYING_DELAYS = {"codel", "fq_codel", "dualpi2"}
"""Disciplines that no such link has."""


def parameters(scenario: Scenario) -> list[dict[str, Any]]:
    """A slider or choice each: `group`, `label`, `unit`, the dotted `key`, its `value`.

    `toml` has the TOML of a value v, with % in its place; `log` is for rates, which span decades;
    `choices` are those of a choice, a label and its TOML each.
    """
    document = tomllib.loads(scenario.text)
    network = scenario.network()
    found = []
    for link in network["links"]:
        found += _of_link(link, document["links"][link["name"]])
    for flow in network["flows"]:
        found += _of_flow(flow)
    found.append(_duration(scenario))
    return found


def _of_link(link: Link, written: dict[str, Any]) -> list[dict[str, Any]]:
    """Rate, delay, loss and queue. The rate of a trace and losses in bursts have no slider."""
    group, key = f"Link {link['name']}", f"links.{_quoted(link['name'])}"
    found = []
    if "rate_mbps" in written and isinstance(written["rate_mbps"], float | int):
        rate = link["rate_mbps"]
        found.append(
            _slider(group, "rate", "Mbps", f"{key}.rate_mbps", rate, *_decades(rate), log=True)
        )
    delay = link["delay_ms"]
    found.append(
        _slider(group, "delay", "ms", f"{key}.delay_ms", delay, 0, max(100, _above(2 * delay)), 0.5)
    )
    loss = written.get("loss", "none")
    # A table may have columns of delays and losses.
    by_table = str(written.get("trace_file", "")).endswith(".csv")
    one_chance = loss == "none" or (isinstance(loss, dict) and set(loss) == {"bernoulli"})
    if one_chance and not by_table:
        percent = 100 * link["loss_probability"]
        slider = _slider(group, "loss", "%", f"{key}.loss", percent, 0, max(5, 2 * percent), 0.01)
        slider |= {"toml": "{bernoulli={probability=%}}", "factor": 0.01}
        found.append(slider)
    if link["queue"] in QUEUES:
        delays_vary = by_table or not VARYING_DELAYS.isdisjoint(written)
        found.append(_discipline(group, key, link, delays_vary))
    if link["queue"] == "drop_tail" and link["limit_packets"] is not None:
        limit = link["limit_packets"]
        slider = _slider(
            group, "limit", "packets", f"{key}.queue", limit, 1, max(200, 4 * limit), 1
        )
        slider |= {"toml": "{drop_tail={packets=%}}"}
        found.append(slider)
    return found


def _discipline(group: str, key: str, link: Link, delays_vary: bool) -> dict[str, Any]:
    names = [name for name in QUEUES if not delays_vary or name not in NO_VARYING_DELAYS]
    choices = {name: f"{{{name}={{}}}}" for name in names}
    # Drop-tail needs a limit: as many packets as the link carries in 100 ms.
    packets = max(10, round(link["rate_mbps"] * 1e6 / 12_000 / 10))
    choices["drop_tail"] = f"{{drop_tail={{packets={packets}}}}}"
    return {
        "group": group,
        "label": "queue",
        "key": f"{key}.queue",
        "value": link["queue"],
        "choices": choices,
    }


def _of_flow(flow: Flow) -> list[dict[str, Any]]:
    group, count = f"Flow {flow['name']}", flow["count"]
    key = f"flows.{_quoted(flow['name'])}.count"
    return [_slider(group, "users", "", key, count, 1, max(20, _above(2 * count)), 1)]


def _duration(scenario: Scenario) -> dict[str, Any]:
    """The length of the run, which is longer than its warm-up."""
    now, least = scenario.duration_s, scenario.warmup_s
    first = math.floor(least) + 1
    most = max(200, _above(2 * now))
    return _slider("Run", "duration", "s", "measure.duration_s", now, first, most, 1)


def _slider(
    group: str,
    label: str,
    unit: str,
    key: str,
    value: float,
    least: float,
    most: float,
    step: float = 0,
    log: bool = False,
) -> dict[str, Any]:
    return {
        "group": group,
        "label": label,
        "unit": unit,
        "key": key,
        "value": value,
        "min": least,
        "max": most,
        "step": step,
        "log": log,
        "toml": "%",
        "factor": 1,
    }


def _decades(value: float) -> tuple[float, float]:
    """A range of about two decades around a value, which does not move with small changes."""
    middle = 10 ** round(math.log10(value)) if value > 0 else 1.0
    return middle / 10, middle * 10


def _above(value: float) -> float:
    """The next of 1, 2, 5, 10, ... that is not less."""
    decade = 10 ** math.floor(math.log10(value)) if value > 0 else 1
    return next(m * decade for m in (1, 2, 5, 10) if m * decade >= value)


def _quoted(name: str) -> str:
    return f'"{name}"' if not name.replace("-", "").replace("_", "").isalnum() else name
