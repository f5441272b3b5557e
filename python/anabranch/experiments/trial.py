"""A suite under trial: its networks, the looks at which more seeds run, and the answers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from anabranch.experiments.curves import Extracts, extract
from anabranch.experiments.decision import Looks
from anabranch.experiments.drawings import Distribution, Series, cases_of
from anabranch.experiments.networks import (
    Cell,
    Network,
    around,
    cases,
    check_names,
    draw,
    sampled_case,
)
from anabranch.experiments.numbers import NOT_TESTED, Answer, Number
from anabranch.experiments.runs import Runs
from anabranch.experiments.suite import Block, Bound, Case, Item, Measure, Suite
from anabranch.result import Result
from anabranch.rule import Rule
from anabranch.runner import BACKENDS, Progress
from anabranch.runner.asked import seeds_of
from anabranch.scenario import ScenarioError
from anabranch.typed_toml import Values

Seeds = int | Sequence[int] | None
"""n for the seeds 1 to n, or the seeds themselves, at one look; a `range` is looked at as the suite
says; None for the suite's own."""

SEARCH = 0.3
"""The share of the progress that searches have, where there are some."""


def form_of(suite: Suite, quick: bool, seeds: Seeds) -> tuple[list[int], Looks]:
    """The seeds of a form, and its looks."""
    own, other = suite.entries.looks, suite.entries.quick.looks if quick else None
    counts = other or own
    if isinstance(seeds, range):
        looks = tuple(count for count in counts if count <= len(seeds)) or (len(seeds),)
        return list(seeds), Looks(looks, len(looks))
    if seeds is not None:
        chosen = seeds_of(seeds)
        return chosen, Looks.one(len(chosen))
    taken = min(2, len(counts)) if quick and other is None else len(counts)
    return list(range(1, counts[-1] + 1)), Looks(counts, taken)


@dataclass(eq=False)
class Trial:
    """The runs of a suite's items for some rules. Everything is planned before the first run."""

    suite: Suite
    rules: Mapping[str, Rule | None]
    on: str
    quick: bool
    seeds: Sequence[int]
    looks: Looks
    runs: Runs
    items: Mapping[str, Item]
    set: Values = field(default_factory=dict)
    blocks: dict[str, tuple[Block, dict[str, Network]]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    """Why items are not tested, by name."""
    reached: dict[tuple[int, str], list[int]] = field(default_factory=dict)
    """The seeds of a network and rule."""
    searched: dict[str, list[Number]] = field(default_factory=dict)
    """The numbers of searches, by item."""
    warnings: dict[str, list[str]] = field(default_factory=dict)
    """Warnings of runs, with the items that they concern."""
    extracts: Extracts = field(default_factory=dict)
    """Parts of runs that the figure draws, by case and rule."""

    def __post_init__(self) -> None:
        """Plan and check all networks. Raises `ScenarioError`."""
        for name, item in self.items.items():
            if not item.runs or name in self.reasons:
                continue
            block = self.suite.block(name, self.on)
            if block.name not in self.blocks:
                self.blocks[block.name] = block, self._networks(block)

    def _networks(self, block: Block) -> dict[str, Network]:
        found = {
            key: self._network(block, key, case, sampled)
            for key, case, sampled in cases(block, self.quick, self.on)
        }
        check_names(self.suite, block, found)
        return found

    def _network(self, block: Block, key: str, case: Case, sampled: Values) -> Network:
        how = (self.rules, self.quick, sampled, self.set)
        return Network.of(self.suite, block, key, case, *how)

    def run(self, progress: Progress | None = None) -> None:
        """Run all looks, until every number is decided or has given up; the store is closed."""
        try:
            self._run(progress)
        finally:
            self.runs.store.close()

    def _run(self, progress: Progress | None) -> None:
        searches = [one for one in self.blocks.items() if one[1][0].sample is not None]
        start = SEARCH if searches else 0.0
        for number, (name, (block, networks)) in enumerate(searches, 1):
            self._search(name, block, networks)
            if progress:
                progress(start * number / len(searches))
        pending = [
            (n, rule) for _, of in self.blocks.values() for n in of.values() for rule in n.rules
        ]
        before, last = 0, self.looks.counts[self.looks.taken - 1]
        for count in self.looks.counts[: self.looks.taken]:
            low = start + (1 - start) * before / last
            share = (1 - start) * (count - before) / last
            self.take(pending, count, part(progress, low, share))
            before = count
            open_numbers = [n for name in self.items for n in self.numbers(name) if n.needs_more]
            found = {(id(n.network), n.rule): (n.network, n.rule) for n in open_numbers}
            pending = list(found.values())
            if not pending:
                break

    def take(
        self, pairs: Sequence[tuple[Network, str]], count: int, progress: Progress | None = None
    ) -> None:
        """Run networks with rules up to a look."""
        wanted: list[tuple[Cell, int, Sequence[Measure], bool]] = []
        for network, rule in pairs:
            block, among = self.blocks[network.block]
            seeds = self._seeds(block, network)[:count]
            self.reached[id(network), rule] = seeds
            first = network is next(iter(among.values()))
            cells = [network.rules[rule], *network.references.values()]
            measures = [
                one
                for one in block.measures.values()
                if network.case in (*(one.cases or (network.case,)), *one.over)
            ]
            for cell in cells:
                for seed in seeds:
                    warned = first and cell is cells[0] and seed == seeds[0]
                    seen = warned or (not network.block and bool(self._draws(network.case)))
                    wanted.append((cell, seed, measures, seen))
        self.runs.take(wanted, progress, self._see, self._name)

    @property
    def _name(self) -> str:
        """The name of the definition in a store."""
        text = "-".join([self.suite.name, *(self.rules if self.suite.entries.rfc else ())])
        return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in text)

    def _seeds(self, block: Block, network: Network) -> list[int]:
        """The seeds of a network: fresh ones where it was searched for."""
        if not BACKENDS[block.on].random:
            return list(self.seeds[:1])
        if block.sample is None:
            return list(self.seeds)
        top = max(self.seeds)
        return list(range(top + 1, top + 1 + len(self.seeds)))

    def _see(self, cell: Cell, seed: int, result: Result) -> None:
        for warning in result.warnings:
            firsts = (
                (name, next(iter(of.values()))) for name, (_, of) in self.blocks.items() if of
            )
            names = [name for name, first in firsts if cell in first.rules.values()]
            self.warnings.setdefault(warning, []).extend(filter(None, names))
        if figure := self._draws(cell.case):
            found = self.extracts.setdefault((cell.case, cell.rule), {})
            found[seed] = extract(figure, result)

    def _draws(self, case: str) -> Series | Distribution | None:
        """The figure, if it draws runs of a case."""
        figure = self.suite.entries.figure
        if isinstance(figure, Series | Distribution) and case in cases_of(figure):
            return figure
        return None

    def numbers(self, name: str) -> list[Number]:
        """The numbers of an item for every rule, the smallest case first."""
        item = self.items[name]
        block_name = name if item.own_cases else ""
        if name in self.reasons or not item.runs or block_name not in self.blocks:
            return []
        block, networks = self.blocks[block_name]
        asked = [
            (network, bound)
            for network in networks.values()
            for bound in item.bounds
            if _applies(bound, block.measures[bound.measure], network)
        ]
        among = 1 if item.per == "case" else len(asked)
        return [
            replace(self.number(block, bound, network, rule), among=among)
            for rule in self.rules
            for network, bound in asked
            if rule in network.rules
        ]

    def number(self, block: Block, bound: Bound, network: Network, rule: str) -> Number:
        """A measure in a network with a rule, with the seeds that were reached."""
        wanted = block.measures[bound.measure]
        seeds = self.reached[id(network), rule]
        cells, each = network.references if bound.is_relative else {}, False
        if wanted.over:
            _, among = self.blocks[block.name]
            cells = {
                f"{case} {name}": cell
                for case in wanted.over
                for name, cell in among[case].rules.items()
            }
            bound, each = _multiple(bound), True
        elif block.reference is not None:
            each = block.reference.than == "each"
        certain = not BACKENDS[block.on].random
        looks = Looks.one(1) if certain else self.looks
        own = self.runs.by_seed(network.rules[rule], seeds, wanted)
        references = {name: self.runs.by_seed(cell, seeds, wanted) for name, cell in cells.items()}
        return Number(wanted, bound, network, rule, own, references, looks, each, certain)

    def failure(self, name: str, rule: str) -> str | None:
        """Why an item cannot be answered for a rule: the first run that failed."""
        for one in self.numbers(name):
            if one.rule == rule:
                seeds = self.reached[id(one.network), rule]
                for cell in (one.network.rules[rule], *one.network.references.values()):
                    if reason := self.runs.failure(cell, seeds):
                        return reason
        return None

    def answers(self) -> Iterator[Answer]:
        """The answer to each item that runs, for each rule."""
        for name, item in self.items.items():
            for rule in self.rules:
                reason = self.reasons.get(name) or self.failure(name, rule)
                if reason is not None:
                    yield Answer(name, item, rule, NOT_TESTED, reason)
                    continue
                own = [one for one in self.numbers(name) if one.rule == rule]
                groups = [[one] for one in own] if item.per == "case" else [own] if own else []
                for group in groups:
                    yield Answer.of(name, item, rule, group, self.searched.get(name, ()))

    def _search(self, name: str, block: Block, drawn: dict[str, Network]) -> None:
        """Choose the worst networks of a sample: rounds around the worst one found so far."""
        assert block.sample is not None
        item, sample = self.items[name], block.sample
        (rule,) = self.rules
        random = BACKENDS[block.on].random
        seeds = list(self.seeds[: self.looks.counts[0] if random else 1])

        def measured(networks: Sequence[Network]) -> list[Number]:
            cells = [c for n in networks for c in (n.rules[rule], *n.references.values())]
            measures = list(block.measures.values())
            wanted = [(cell, seed, measures, False) for cell in cells for seed in seeds]
            self.runs.take(wanted, name=self._name)
            self.reached.update({(id(one), rule): seeds for one in networks})
            pairs = [(one, bound) for one in networks for bound in item.bounds]
            return [self.number(block, bound, one, rule) for one, bound in pairs]

        try:
            found = measured(list(drawn.values()))
            for round_ in range(sample.quick_rounds if self.quick else sample.rounds):
                worst = min(found, key=lambda number: number.margin)
                box = around(sample, worst.network.sampled, round_)
                points = draw(box, sample.quick if self.quick else sample.points)
                more = [self._network(block, *sampled_case(values)) for values in points]
                found += measured(more)
        except ScenarioError as error:
            self.reasons[name] = str(error)
            found = []
        self.searched[name] = found
        chosen: dict[str, Network] = {}
        for one in sorted(found, key=lambda number: number.margin):
            if len(chosen) < sample.confirm:
                chosen.setdefault(one.network.label, one.network)
        self.blocks[name] = block, chosen


def _applies(bound: Bound, measure: Measure, network: Network) -> bool:
    if bound.case is not None:
        return network.case == bound.case
    return measure.cases is None or network.case in measure.cases


def _multiple(bound: Bound) -> Bound:
    """The bound of a measure that is divided by a baseline, as multiples of it."""
    low, high = bound.at_least, bound.at_most
    return replace(bound, at_least=None, at_most=None, at_least_of=low, at_most_of=high)


def part(progress: Progress | None, done: float, share: float) -> Progress | None:
    """The progress of a part of the work, from `done` to `done + share` of the whole."""
    return progress and (lambda fraction: progress(done + share * min(fraction, 1.0)))
