"""Judge a rule: item zero, the items of RFC 9743, and what theory adds."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from anabranch._core import VERSION, rules, schema
from anabranch.judge import checks, search
from anabranch.judge.entries import Entries, Item, open_items
from anabranch.judge.networks import Network, checked, unmet
from anabranch.judge.runs import Runs, open_store
from anabranch.judge.subject import PATHS, STATES, Subject
from anabranch.judge.verdict import (
    FAILS,
    HOLDS,
    NOT_TESTED,
    Number,
    Verdict,
    not_tested,
    of_numbers,
)
from anabranch.result.caveats import caveats
from anabranch.rule import Oddity
from anabranch.runner import Progress
from anabranch.runner.asked import check_jobs
from anabranch.scenario import ScenarioError
from anabranch.sweeps.point import Point
from anabranch.sweeps.store import Store

PROOFS = 0.05
"""The share of the progress that proofs have, which are no runs."""

SANE = Item(
    section="0",
    level="own",
    title="A rule at all",
    question="Are its answers finite, the same for the same state, and within a window?",
    not_tested=None,
)


@dataclass(frozen=True)
class Judgement:
    """Answers for a rule."""

    subject: Subject
    quick: bool
    seeds: Sequence[int]
    rfc: int
    verdicts: Sequence[Verdict]
    warnings: Sequence[str] = ()
    """Warnings that `run` would have printed, with the items that they concern."""

    def of(self, result: str) -> list[Verdict]:
        """The items with this result."""
        return [one for one in self.verdicts if one.result == result]

    def __getitem__(self, name: str) -> Verdict:
        return next(one for one in self.verdicts if one.name == name)

    @property
    def counts(self) -> dict[str, int]:
        """How many items have which result."""
        return {result: len(self.of(result)) for result in (HOLDS, FAILS, NOT_TESTED)}

    @property
    def in_words(self) -> str:
        """The counts in a sentence, of the RFC's items and of ours."""
        rfc = [one for one in self.verdicts if one.item.level != "own"]
        own = [one for one in self.verdicts if one.item.level == "own"]
        parts = ((f"RFC {self.rfc}", rfc), ("beyond it", own))
        return "; ".join(f"{name}: {_counted(part)}" for name, part in parts if part)

    def as_dict(self) -> dict[str, Any]:
        """As plain data for JSON."""
        return {
            "anabranch": VERSION,
            "rfc": self.rfc,
            "rule": self.subject.name,
            "given": self.subject.text,
            "quick": self.quick,
            "seeds": list(self.seeds),
            "counts": self.counts,
            "warnings": list(self.warnings),
            "items": [one.as_dict() for one in self.verdicts],
        }


def judge(
    rule: str,
    items: Sequence[str] | None = None,
    *,
    quick: bool = False,
    store: Path | Store | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Judgement:
    """Judge a rule by the items of `judge/judge*.toml`.

    `rule`: an algorithm such as "balia:cap=inf", or FILE.py:CLASS. `items`: names or sections; all
    by default. `quick`: fewer points and seeds. `store`: a directory that keeps each run, so that
    the same call resumes. `jobs` and `progress` are as in `run`.

    Raises `ScenarioError` for an unknown rule or item, and for a rule in Python that raises or
    answers with no finite number.
    """
    check_jobs(jobs)
    subject = Subject.of(rule)
    entries = suited(open_items(), subject)
    chosen = entries.chosen(tuple(items) if items is not None else None)
    odd = subject.oddity()
    count = entries.quick.seeds if quick else entries.seeds
    seeds = list(range(1, count + 1))
    opened = open_store(store) if store is None or isinstance(store, Path) else store
    try:
        runs = Runs(subject, seeds, opened, jobs)
        found, warnings = _judged(entries, chosen, runs, quick, progress or _silent)
    finally:
        if opened is not store:
            opened.close()
    zero = _item_zero(subject, odd)
    if subject.endpoint:
        keys = ", ".join(f'{key} = "{value}"' for key, value in subject.endpoint.items())
        warnings.insert(0, f"{subject.name} needs {keys}: all flows of items on sim have it")
    return Judgement(subject, quick, seeds, entries.rfc, [zero, *found], warnings)


def suited(entries: Entries, subject: Subject) -> Entries:
    """The items with the endpoint that a rule needs, where their backend has it."""
    items = {
        name: replace(item, set={**item.set, **subject.endpoint}) if item.on == "sim" else item
        for name, item in entries.items.items()
    }
    return replace(entries, items=items)


def _warnings(
    items: Mapping[str, Item], planned: Mapping[str, Sequence[Network]], runs: Runs
) -> list[str]:
    """Warnings of `run` at the first point of each item, each once."""
    found: dict[str, list[str]] = {}
    for name, own in planned.items():
        network, on = own[0], items[name].on
        scenario, subject = network.scenario, runs.subject
        if subject.written is None:
            scenario = scenario.with_algorithm(subject.name)
        known = [*scenario.warnings, *caveats(scenario, on)]
        with suppress(ScenarioError):  # the item says so
            known += runs.result(network.scenario, runs.of_rule(network, on)[0]).warnings
        for warning in dict.fromkeys(known):
            found.setdefault(warning, []).append(name)
    return [f"{', '.join(names)}: {warning}" for warning, names in found.items()]


def _counted(verdicts: Sequence[Verdict]) -> str:
    counts = [sum(one.result == result for one in verdicts) for result in (HOLDS, FAILS)]
    left = len(verdicts) - sum(counts)
    return f"{counts[0]} hold, {counts[1]} fail, {left} not tested"


def _item_zero(subject: Subject, odd: Oddity | None) -> Verdict:
    if odd is not None:
        return Verdict("sane", SANE, FAILS, f"{odd.method} {odd.says}", state=odd.state)
    says = "a rule of the table, which has laws of its own (CONTRIBUTING.md)"
    if subject.written is not None:
        says = f"{STATES * len(PATHS)} random states of 1 to {max(PATHS)} paths, twice each"
    return Verdict("sane", SANE, HOLDS, says)


def _judged(
    entries: Entries, items: Mapping[str, Item], runs: Runs, quick: bool, progress: Progress
) -> tuple[list[Verdict], list[str]]:
    reasons = _reasons(items)
    planned: dict[str, list[Network]] = {}
    for name, item in items.items():
        if item.runs and name not in reasons:
            found = checked(entries, name, item, quick)
            if isinstance(found, str):
                reasons[name] = found
            else:
                planned[name] = found
    _run(items, planned, runs, lambda done: progress((1 - PROOFS) * done))
    numbers: dict[str, list[Number]] = {}
    for name, own in planned.items():
        try:
            numbers[name] = _numbers(items[name], own, runs)
            more = partial(numbers_at, items[name], runs=runs)
            numbers[name] += search.search(entries, name, items[name], numbers[name], quick, more)
        except ScenarioError as error:
            reasons[name] = str(error)
    verdicts = {name: not_tested(name, items[name], why) for name, why in reasons.items()}
    verdicts |= {
        name: of_numbers(name, items[name], own)
        for name, own in numbers.items()
        if name not in reasons
    }
    progress(1 - PROOFS)
    proved = {name: item for name, item in items.items() if item.check == "proof"}
    if proved:
        verdicts |= {one.name: one for one in checks.proofs(runs.subject, proved, quick)}
    for name, item in items.items():
        if item.check == "operations":
            verdicts[name] = checks.operations(runs.subject, name, item)
    progress(1.0)
    return [verdicts[name] for name in items], _warnings(items, planned, runs)


def _reasons(items: Mapping[str, Item]) -> dict[str, str]:
    """Why items cannot be tested, by name."""
    known = [rule["name"] for rule in rules()]
    workloads = workloads_of(schema())
    found = {}
    for name, item in items.items():
        lack = item.not_tested
        reason = lack.text if lack else unmet(item, known, workloads)
        if reason:
            found[name] = reason
    return found


def workloads_of(text: str) -> list[str]:
    """The workloads of the JSON Schema of scenarios.

    >>> workloads_of(schema())[:2]
    ['bulk', 'file']
    """
    import json

    kinds = json.loads(text)["$defs"]["Workload"]["oneOf"]
    return [name for kind in kinds for name in (kind.get("required") or [kind.get("const")])]


def _run(
    items: Mapping[str, Item],
    planned: Mapping[str, Sequence[Network]],
    runs: Runs,
    progress: Progress,
) -> None:
    by_backend: dict[str, list[Point]] = {}
    for name, own in planned.items():
        for network in own:
            points = by_backend.setdefault(items[name].on, [])
            points += runs.of_rule(network, items[name].on)
            for reference in runs.of_references(network, items[name].on).values():
                points += reference
    every = {
        on: list({one.key: one for one in points}.values()) for on, points in by_backend.items()
    }
    in_all, done = sum(map(len, every.values())), 0
    for points in every.values():
        runs.complete(points, done, in_all, progress)
        done += len(points)


def _numbers(item: Item, networks: Sequence[Network], runs: Runs) -> list[Number]:
    """Each measure at each point, in the order of the points."""
    found = []
    for network in networks:
        points = runs.of_rule(network, item.on)
        references = runs.of_references(network, item.on) if item.reference else {}
        for one in item.measures:
            seeds = {p.seed: runs.measured(network, p, one) for p in points}
            others = {
                name: {p.seed: runs.measured(network, p, one) for p in own}
                for name, own in references.items()
                if one.is_relative
            }
            found.append(Number(one, network, seeds, others))
    return found


def numbers_at(item: Item, networks: Sequence[Network], runs: Runs) -> list[Number]:
    """Run networks of an item and measure them."""
    _run({one.item: item for one in networks}, {networks[0].item: networks}, runs, _silent)
    return _numbers(item, networks, runs)


def _silent(_: float) -> None:
    """No progress."""
