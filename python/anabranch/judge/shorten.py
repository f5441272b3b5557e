"""Shorter counterexamples: the same network for half the time, as long as the bound is crossed."""

import math
from dataclasses import replace

from anabranch.judge.entries import Item
from anabranch.judge.networks import Network
from anabranch.judge.outcome import numbers_at
from anabranch.judge.runs import Runs, open_store
from anabranch.judge.subject import Subject
from anabranch.judge.verdict import Number
from anabranch.scenario import Scenario

SHORTEST_S = 10.0
"""No counterexample is shorter: slow start would be most of it."""

TIMES = {"from_s", "to_s", "after_s", "average_from_s"}
"""Parameters of quantities that are times of a run, which cannot become shorter."""


def shortened(subject: Subject, item: Item, number: Number) -> Number:
    """The number in the shortest run that crosses the bound, with one seed.

    It is measured again with the seeds of the counterexample alone, where several are none of one.
    """
    seeds = number.counterexample_seeds
    runs = Runs(subject, seeds, open_store(None))
    alone = replace(item, measures=(number.measure,))
    (best,) = numbers_at(alone, [number.network], runs)
    if len(seeds) > 1 or not _can_be_shorter(number):
        return best
    while (duration_s := best.network.scenario.duration_s / 2) >= SHORTEST_S:
        (half,) = numbers_at(alone, [_lasting(best.network, duration_s)], runs)
        if half.holds or math.isnan(half.value):
            break
        best = half
    return best


def _can_be_shorter(number: Number) -> bool:
    """Whether nothing in it happens at a given time."""
    network = number.network.scenario.network()
    at_a_time = any(link["down_s"] for link in network["links"])
    joins = any(flow["start_s"] > SHORTEST_S / 2 for flow in network["flows"])
    return not (at_a_time or joins or TIMES & number.measure.parameters.keys())


def _lasting(network: Network, duration_s: float) -> Network:
    """The same network for this time, of which the warm-up has the share that it had."""
    before = network.scenario
    warmup_s = before.warmup_s * duration_s / before.duration_s

    def shorter(scenario: Scenario) -> Scenario:
        written = [
            ("measure.warmup_s", repr(warmup_s)),
            ("measure.duration_s", repr(duration_s)),
        ]
        return Scenario.parse(scenario.text, scenario.source, written, scenario.inputs)

    references = {name: shorter(one) for name, one in network.references.items()}
    return replace(network, scenario=shorter(before), references=references)
