"""The networks of an item: the scenario of each point, for the rule and for its references."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anabranch.judge.entries import FOLDER, Entries, Item, Point, Sample
from anabranch.scenario import Scenario, ScenarioError, load, toml_value
from anabranch.sweeps import space
from anabranch.sweeps.space import Interval
from anabranch.typed_toml import Values

LINK = "links.bottleneck"
USUAL = {"rate_mbps": 10.0, "rtt_ms": 40.0, "buffer_bdp": 1.0}
"""The bottleneck of the scenarios, where a point sets only some of these."""


@dataclass(frozen=True)
class Network:
    """A point of an item, ready to run."""

    item: str
    label: str
    values: Values
    """Values of the scenario that the point replaces, by dotted key."""
    scenario: Scenario
    references: Mapping[str, Scenario]
    """Scenario of each rule of the reference."""
    sampled: Values
    """Where the point was drawn, by the keys of the sample."""


def networks(entries: Entries, name: str, item: Item, quick: bool) -> list[Network]:
    """The points of an item, the smallest first. Raises `ScenarioError`."""
    return [network(entries, name, item, quick, *one) for one in _points(item, quick)]


def network(
    entries: Entries, name: str, item: Item, quick: bool, point: Point, sampled: Values
) -> Network:
    """One point of an item."""
    shared = entries.quick.set if quick else {}
    values = settings({**shared, **item.set, **point.set})
    inputs = entries.inputs
    text = (FOLDER / item.scenario).read_text(encoding="utf-8")
    file = f"judge/{item.scenario}"

    def scenario(own: Values) -> Scenario:
        written = [(key, toml_value(value)) for key, value in own.items()]
        return Scenario.parse(text, file, written, inputs, "reno")

    references = {}
    if item.reference is not None:
        with_reference = scenario({**values, **settings(item.reference.set)})
        references = dict.fromkeys(item.reference.rules, with_reference)
    return Network(name, point.label, values, scenario(values), references, sampled)


def settings(values: Values) -> dict[str, Any]:
    """Dotted keys for `rate_mbps`, `rtt_ms` and `buffer_bdp`, which set the link `bottleneck`.

    >>> settings({"rate_mbps": 12, "buffer_bdp": 0.5})["links.bottleneck.queue"]
    {'drop_tail': {'packets': 20}}
    """
    rest = {key: value for key, value in values.items() if key not in USUAL}
    own = {**USUAL, **{key: value for key, value in values.items() if key in USUAL}}
    found: dict[str, Any] = {}
    if "rate_mbps" in values:
        found[f"{LINK}.rate_mbps"] = own["rate_mbps"]
    if "rtt_ms" in values:
        found[f"{LINK}.delay_ms"] = own["rtt_ms"] / 2
    if USUAL.keys() & values.keys() and f"{LINK}.queue" not in rest:
        bits = own["rate_mbps"] * 1e3 * own["rtt_ms"] * own["buffer_bdp"]
        packets = max(2, round(bits / 8 / rest.get("tcp.packet_bytes", 1500)))
        found[f"{LINK}.queue"] = {"drop_tail": {"packets": packets}}
    return {**rest, **found}


def _points(item: Item, quick: bool) -> Iterator[tuple[Point, Values]]:
    if item.sample is None:
        numbers = range(len(item.points)) if item.quick is None or not quick else item.quick
        for number in numbers:
            yield item.points[number], {}
        return
    drawn = draw(item.sample.over, item.sample.quick if quick else item.sample.points)
    # The size of a network is what its rates, RTTs and queues multiply to.
    for values in sorted(drawn, key=lambda one: math.prod(one.values())):
        yield sampled_point(values)


def draw(over: Mapping[str, str], count: int) -> list[dict[str, float]]:
    """Points of a Latin hypercube, to three digits."""
    return [
        {key: float(f"{value:.3g}") for key, value in one.items()}
        for one in space.points(over, count)
    ]


def sampled_point(values: Mapping[str, float]) -> tuple[Point, Values]:
    """A point at these values, which are its label."""
    label = ", ".join(f"{_short(key)} {value:g}" for key, value in values.items())
    return Point(label, values), values


def _short(key: str) -> str:
    """The name of a key in labels: `links.a.rate_mbps` is `a.rate_mbps`."""
    return key.removeprefix("links.")


def around(sample: Sample, worst: Values, round_: int) -> dict[str, str]:
    """The box of a round of the search: half as wide as the last one, within the first one."""
    found = {}
    for key, axis in space.axes(sample.over).items():
        assert isinstance(axis, Interval)
        share = 0.5 ** (round_ + 1)
        low, high = axis.low, axis.high
        if axis.scale == "log":
            factor = (high / low) ** (share / 2)
            low, high = max(low, worst[key] / factor), min(high, worst[key] * factor)
        else:
            half = share * (high - low) / 2
            low, high = max(low, worst[key] - half), min(high, worst[key] + half)
        found[key] = f"{axis.scale}({low!r},{high!r})"
    return found


def of_file(path: str, item: Item) -> tuple[Scenario, Mapping[str, Scenario]]:
    """The scenario of a counterexample, and what the references run in its place."""
    scenario = load(path, algorithm="reno")
    if item.reference is None:
        return scenario, {}
    reference = load(path, settings(item.reference.set), "reno")
    return scenario, dict.fromkeys(item.reference.rules, reference)


def unmet(item: Item, known: Sequence[str], workloads: Sequence[str]) -> str | None:
    """Why an item has to wait: what it needs and is not there."""
    if item.needs.rule is not None and item.needs.rule not in known:
        return f"the table has no rule {item.needs.rule}"
    if item.needs.workload is not None and item.needs.workload not in workloads:
        return f"scenarios have no workload {item.needs.workload}"
    return None


def checked(entries: Entries, name: str, item: Item, quick: bool) -> list[Network] | str:
    """The networks of an item; the reason where what it needs is there, but not as it expects."""
    try:
        return networks(entries, name, item, quick)
    except ScenarioError as error:
        if item.needs.rule is None and item.needs.workload is None:
            raise
        return f"its scenario is not accepted: {error}"
