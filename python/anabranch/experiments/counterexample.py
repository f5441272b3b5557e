"""Counterexamples: a scenario in which a rule crosses a bound, as short as it can be, and again."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from anabranch.experiments.decision import Looks
from anabranch.experiments.folder import SUITES, open_judge
from anabranch.experiments.networks import Cell, Network, cells, of_file
from anabranch.experiments.numbers import Answer, Number
from anabranch.experiments.outcome import Outcome
from anabranch.experiments.runs import Runs
from anabranch.experiments.subject import Subject
from anabranch.experiments.suite import Bound, Measure
from anabranch.rule import Rule
from anabranch.runner import BACKENDS
from anabranch.scenario import Scenario, ScenarioError
from anabranch.sweeps.store import Nowhere

SHORTEST_S = 10.0
"""No counterexample is shorter: slow start would be most of it."""

TIMES = {"from_s", "to_s", "after_s", "average_from_s"}
"""Parameters of quantities that are times of a run, which cannot become shorter."""

_FIRST = re.compile(r"# anabranch judge(?: --suite (\w+) --on (\w+))?, item ([\w-]+)\b")


def write(outcome: Outcome, directory: Path) -> list[str]:
    """Write a file for each item that fails in a run, and the traces that they name.

    The names of the files, in the order of the items.
    """
    chosen = [(one, one.counterexample) for one in outcome.answers if one.counterexample]
    if chosen:
        directory.mkdir()
    for answer, number in chosen:
        assert outcome.subject is not None
        assert number is not None
        name = outcome.suite.name
        whose = f" --suite {name} --on {outcome.backend}" if name in SUITES else ""
        text, traces = text_of(outcome.subject, answer, number, whose)
        (directory / f"{answer.name}.toml").write_text(text, encoding="utf-8")
        for file, content in traces.items():
            (directory / file).write_bytes(content)
    return [f"{one.name}.toml" for one, _ in chosen]


def text_of(
    subject: Subject, answer: Answer, number: Number, whose: str = ""
) -> tuple[str, dict[str, bytes]]:
    """The scenario of a counterexample as TOML, and its traces, by name.

    `whose`: the options that name another suite than RFC 9743's.
    """
    item = answer.item
    short, cleared = shortened(subject, item.control, number)
    scenario = short.network.scenario
    elsewhere = subject.written is not None or subject.name in BACKENDS[short.network.on].algorithms
    if not elsewhere:
        scenario = scenario.with_algorithm(subject.name)
    seeds = list(short.seeds)
    written = [("seeds", str(seeds))]
    scenario = Scenario.parse(scenario.text, scenario.source, written, scenario.inputs)
    text, traces = scenario.to_folder()
    mean = f"mean of {len(number.seeds)} seeds, {number.network.scenario.duration_s:g} s each"
    lines = [
        f"# anabranch judge{whose}, item {answer.name}: {item.section} {item.title}",
        f"# {number.network.label}. {number.measure.label}: {number.in_words}, {mean}.",
        f"# Here, for {scenario.duration_s:g} s with seed {' and '.join(map(str, seeds))}: "
        f"{short.in_words}.",
        f"# Again: {again_command(subject, Path(f'{answer.name}.toml'))}",
    ]
    if not cleared:
        lines.append(f"# {item.control} is beyond the bound in this run, too.")
    if elsewhere:
        lines.append(f"# {subject.text} takes the place of the algorithm in this file.")
    return "\n".join([*lines, "", text]), traces


def again_command(subject: Subject, file: Path) -> str:
    """The command that runs a counterexample again."""
    return f"anabranch judge {subject.text} --again {file}"


def again(rule: str, file: Path) -> list[Number]:
    """Run a counterexample and what it is compared with: each bound of its item.

    Raises `ScenarioError` for a file that does not name an item in its first line.
    """
    try:
        first = file.read_text(encoding="utf-8").partition("\n")[0]
    except (OSError, UnicodeError) as error:
        raise ScenarioError(f"{file}: {getattr(error, 'strerror', error)}") from None
    found = _FIRST.match(first)
    suite = open_judge((found and found[1]) or SUITES[0])
    on = (found and found[2]) or "sim"
    if found is None or (name := found[3]) not in suite.entries.items or on not in BACKENDS:
        raise ScenarioError(
            f"{file}: expected a counterexample, whose first line is "
            '"# anabranch judge, item NAME", as --out writes it'
        )
    subject = Subject.of(rule, BACKENDS[on].algorithms)
    block, item = suite.block(name, on), suite.entries.items[name]
    network = of_file(str(file), name, block, {subject.name: subject.written})
    runs = Runs(Nowhere(), failed=subject.failed)
    seeds = network.scenario.seeds
    bounds = [(block.measures[bound.measure], bound) for bound in item.bounds]
    return [at(runs, network, subject.name, seeds, *one) for one in bounds]


def at(
    runs: Runs,
    network: Network,
    rule: str,
    seeds: Sequence[int],
    measure: Measure,
    bound: Bound,
    each: bool = False,
) -> Number:
    """Run a network and measure it; a run that failed is the `ScenarioError`.

    `each`: whether it has to keep the bound to each reference, not to any.
    """
    others = network.references if bound.is_relative else {}
    cells = [network.rules[rule], *others.values()]
    runs.take([(cell, seed, [measure], False) for cell in cells for seed in seeds])
    for cell in cells:
        if reason := runs.failure(cell, seeds):
            raise ScenarioError(reason)
    own, *found = (runs.by_seed(cell, seeds, measure) for cell in cells)
    rest = (Looks.one(len(seeds)), each, not BACKENDS[network.on].random)
    return Number(measure, bound, network, rule, own, dict(zip(others, found, strict=True)), *rest)


def shortened(subject: Subject, control: str, number: Number) -> tuple[Number, bool]:
    """The number in the shortest run with one seed that crosses the bound while the control does
    not, and whether there is such a run; else in a run as long as those that were judged."""
    runs = Runs(Nowhere(), failed=subject.failed)
    rules: Mapping[str, Rule | None] = {subject.name: subject.written, control: None}
    given = number.network
    network = replace(given, rules=cells(given.case, given.scenario, given.on, rules))
    seeds = sorted(number.seeds, key=number.margin_of)
    crossing = [seed for seed in seeds if number.margin_of(seed) < 1]

    def run(there: Network, rule: str, some: Sequence[int]) -> Number:
        return at(runs, there, rule, some, number.measure, number.bound, number.each)

    def clears(there: Network, seed: int) -> bool:
        return control == subject.name or run(there, control, [seed]).margin >= 1

    for seed in crossing:
        if not clears(network, seed):
            continue
        best = run(network, subject.name, [seed])
        while _can_be_shorter(number) and best.network.scenario.duration_s / 2 >= SHORTEST_S:
            there = _lasting(best.network, best.network.scenario.duration_s / 2)
            half = run(there, subject.name, [seed])
            if half.margin >= 1 or math.isnan(half.value) or not clears(there, seed):
                break
            best = half
        return best, True
    first = list(number.seeds)[: number.looks.counts[0]]
    return run(network, subject.name, first), run(network, control, first).margin >= 1


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
    written = [("measure.warmup_s", repr(warmup_s)), ("measure.duration_s", repr(duration_s))]

    def shorter(scenario: Scenario) -> Scenario:
        return Scenario.parse(scenario.text, scenario.source, written, scenario.inputs)

    def each(some: Mapping[str, Cell]) -> dict[str, Cell]:
        return {name: replace(one, scenario=shorter(one.scenario)) for name, one in some.items()}

    rules, references = each(network.rules), each(network.references)
    return replace(network, scenario=shorter(before), rules=rules, references=references)
