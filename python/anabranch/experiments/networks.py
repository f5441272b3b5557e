"""The networks of a suite: the scenario of each case, for rules and for references."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from anabranch.experiments.drawings import cases_of
from anabranch.experiments.suite import Block, Case, Sample, Suite
from anabranch.rule import Rule
from anabranch.scenario import Scenario, load, named, toml_value
from anabranch.sweeps import space
from anabranch.sweeps.point import Point, point
from anabranch.sweeps.space import Interval
from anabranch.typed_toml import Values, Where

LINK = "links.bottleneck"
USUAL = {"rate_mbps": 10.0, "rtt_ms": 40.0, "buffer_bdp": 1.0}
"""The bottleneck of the scenarios, where a case sets only some of these."""


@dataclass(frozen=True, eq=False)
class Cell:
    """A case with a rule: a run for each seed."""

    case: str
    rule: str
    """The name in tables; of a reference, with what it sets."""
    scenario: Scenario
    on: str
    algorithm: str
    python: Rule | None = None

    def point(self, seed: int, traces: dict[str, bytes]) -> Point:
        """The run with a seed; `traces` are those of other points."""
        values = {"case": self.case}
        how = (self.algorithm, self.python, seed, self.on, True)
        return point(self.scenario, values, *how, traces)


@dataclass(frozen=True, eq=False)
class Network:
    """A case, ready to run."""

    block: str
    case: str
    label: str
    values: Values
    """Values of the scenario that the case replaces, by dotted key."""
    scenario: Scenario
    on: str
    rules: Mapping[str, Cell]
    """Cells by rule."""
    references: Mapping[str, Cell]
    sampled: Values
    """Where the case was drawn, by the keys of the sample."""

    @classmethod
    def of(
        cls,
        suite: Suite,
        block: Block,
        key: str,
        case: Case,
        rules: Mapping[str, Rule | None],
        quick: bool = False,
        sampled: Values | None = None,
        set: Values | None = None,
    ) -> "Network":
        """A case of a block with these rules, or with its own. Raises `ScenarioError`."""
        shared = suite.entries.quick.set if quick else {}
        values = settings({**shared, **block.set, **case.set, **(set or {})})
        file = suite.folder / (case.scenario or block.scenario)
        text = file.read_text(encoding="utf-8")

        def scenario(own: Values) -> Scenario:
            written = [(name, toml_value(value)) for name, value in own.items()]
            place = f"{suite.name}/{file.name}"
            return named(Scenario.parse(text, place, written, suite.inputs, "reno"))

        plain = scenario(values)
        others = {}
        for name, rule, own in block.reference.each() if block.reference else ():
            there = scenario({**values, **settings(own)}) if own else plain
            others[name] = Cell(key, name, there, block.on, rule)
        asked = dict.fromkeys(case.rules) if case.rules else rules
        own = cells(key, plain, block.on, asked)
        label = case.label or key
        return cls(block.name, key, label, values, plain, block.on, own, others, sampled or {})


def cells(
    case: str, scenario: Scenario, on: str, rules: Mapping[str, Rule | None]
) -> dict[str, Cell]:
    """A cell for each rule of a case."""
    return {name: Cell(case, name, scenario, on, name, made) for name, made in rules.items()}


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


def cases(block: Block, quick: bool, asked: str) -> Iterator[tuple[str, Case, Values]]:
    """The cases of a block on the backend that is asked for, the smallest first."""
    if block.sample is not None:
        drawn = draw(block.sample.over, block.sample.quick if quick else block.sample.points)
        # The size of a network is what its rates, RTTs and queues multiply to.
        for values in sorted(drawn, key=lambda one: math.prod(one.values())):
            yield sampled_case(values)
    for key, case in block.cases.items():
        if (case.quick or not quick) and (case.on is None or asked in case.on):
            yield key, case, {}


def draw(over: Mapping[str, str], count: int) -> list[dict[str, float]]:
    """Points of a Latin hypercube, to three digits."""
    return [
        {key: float(f"{value:.3g}") for key, value in one.items()}
        for one in space.points(over, count)
    ]


def sampled_case(values: Mapping[str, float]) -> tuple[str, Case, Values]:
    """A case at these values, which are its name."""
    label = ", ".join(f"{key.removeprefix('links.')} {value:g}" for key, value in values.items())
    return label, Case(set=values), values


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


def of_file(path: str, name: str, block: Block, rules: Mapping[str, Rule | None]) -> Network:
    """The network of a counterexample, and what the references run in its place."""
    scenario = load(path, algorithm="reno")
    own = cells(path, scenario, block.on, rules)
    others = {
        key: Cell(path, key, load(path, settings(values), "reno"), block.on, rule)
        for key, rule, values in (block.reference.each() if block.reference else ())
    }
    return Network(name, path, path, {}, scenario, block.on, own, others, {})


def check_names(suite: Suite, block: Block, networks: Mapping[str, Network]) -> None:
    """Raise `ScenarioError` where a measure or the figure names a flow or link that is not there.

    Without it a wrong name would look like a run in which nothing was measured.
    """
    where = Where(suite.file)
    place = (where.at("items").at(block.name) if block.name else where).at("measures")
    named_in = [
        (place.at(name), one.parameters, (*(one.cases or networks), *one.over))
        for name, one in block.measures.items()
    ]
    if not block.name and (figure := suite.entries.figure) is not None:
        at, among = where.at("figure"), cases_of(figure)
        named_in.append((at, vars(figure), among))
        for i, line in enumerate(getattr(figure, "lines", ())):
            named_in.append((at.at("lines").at(i), vars(line), among))
    for at, values, among in named_in:
        for case in networks.keys() & set(among):
            scenario = networks[case].scenario
            flows, links = scenario.flow_names, scenario.link_names
            for key, known in (("flow", flows), ("to", flows), ("link", links)):
                if values.get(key) is not None:
                    at.at(key).one_of(values[key], known)
