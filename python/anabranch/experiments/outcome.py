"""Studies, judgements and harm: what a suite found, for Python and for commands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import pandas as pd

from anabranch import kernel
from anabranch._core import VERSION
from anabranch.experiments import checks, values
from anabranch.experiments.curves import Extracts
from anabranch.experiments.decision import FAILS, HOLDS, UNDECIDED
from anabranch.experiments.folder import SUITES, open_harm, open_judge, open_study
from anabranch.experiments.numbers import RESULTS, Answer
from anabranch.experiments.runs import Runs, open_store
from anabranch.experiments.subject import Subject, item_zero
from anabranch.experiments.suite import OWN, Family, Item, Suite
from anabranch.experiments.trial import Seeds, Trial, form_of, part
from anabranch.experiments.values import KEYS, Column
from anabranch.formats import interval, latex_rows, markdown_table, records
from anabranch.result.caveats import caveats
from anabranch.rule import libraries
from anabranch.runner import BACKENDS, Progress, known_backend
from anabranch.runner.asked import Algorithm, check_jobs, named_algorithms
from anabranch.scenario import ScenarioError, expected_one_of, rules, settings
from anabranch.typed_toml import Values

PROOFS = 0.05
"""The share of the progress that proofs have, which are no runs."""


@dataclass(frozen=True)
class Outcome:
    """Result of a suite."""

    suite: Suite
    backend: str
    quick: bool
    rules: Sequence[str]
    seeds: Sequence[int]
    """Seeds of the first look."""
    looks: Sequence[int]
    answers: Sequence[Answer]
    rows: pd.DataFrame
    """A row per measure, case, rule and seed, of the suite's own cases."""
    extracts: Extracts
    """Parts of runs that the figure draws, by case and rule."""
    failures: Mapping[str, str] = field(default_factory=dict)
    """The runs that failed, with the reason."""
    late: Sequence[str] = ()
    """The runs in real time that were too late to count (docs/reference/lab.md)."""
    warnings: Sequence[str] = ()
    """Warnings that `run` would have printed, with the items that they concern."""
    subject: Subject | None = None
    """The rule that is judged."""

    @property
    def over(self) -> str:
        """The number of seeds, in words."""
        return "one seed" if len(self.seeds) == 1 else f"{len(self.seeds)} seeds"

    @property
    def form(self) -> str:
        """Words for the quick form, as the end of a phrase."""
        return ", quick form" if self.quick else ""

    def of(self, result: str) -> list[Answer]:
        """The answers with this result."""
        return [one for one in self.answers if one.result == result]

    def __getitem__(self, name: str) -> Answer:
        return next(one for one in self.answers if one.name == name)

    @property
    def counted(self) -> list[Answer]:
        """The answers that count: to items that can fail, or do."""
        return [one for one in self.answers if one.result == FAILS or not one.item.cannot_fail]

    @property
    def counts(self) -> dict[str, int]:
        """How many of those that count have which result."""
        return {result: sum(o.result == result for o in self.counted) for result in RESULTS}

    @property
    def open_items(self) -> list[Answer]:
        """The undecided answers to items of the RFC."""
        return [o for o in self.counted if o.result == UNDECIDED and o.item.level != OWN]

    @property
    def in_words(self) -> str:
        """The counts in a sentence, of the RFC's items and of ours."""
        found = []
        whole = self.suite.entries.rfc == 0
        groups = [(self.suite.entries.name, False), ("beyond it", True)]
        for name, own in groups[:1] if whole else groups:
            every = [one for one in self.answers if whole or (one.item.level == OWN) == own]
            part = [one for one in self.counted if one in every]
            words = {HOLDS: "hold", FAILS: "fail"}
            counts = [(sum(o.result == r for o in part), words.get(r, r)) for r in RESULTS]
            said = [f"{n} {word}" for n, word in counts if n or word != UNDECIDED]
            said += [f"{n} cannot fail"] if (n := len(every) - len(part)) else []
            found += [f"{name}: {', '.join(said)}"] if every else []
        return "; ".join(found)

    @property
    def table(self) -> pd.DataFrame:
        """Per measure, case and rule: mean over the seeds, and half its 95 % interval."""
        return values.table(self.rows)

    @property
    def columns(self) -> list[Column]:
        """The columns of the table in words."""
        return list(values.columns(self.suite.block("", self.backend)))

    def in_cells(self) -> tuple[list[str], list[list[str]]]:
        """The header of the table and its rows; "-" where nothing was measured."""
        header, rows = ["rule"], [[rule] for rule in self.rules]
        for column in self.columns:
            found = values.numbers(self.table, self.rules, column.measure, column.case)
            header.append(column.title)
            for row in rows:
                n, form = found.get(row[0]), f".{column.digits}f"
                row.append("-" if n is None else interval(n["value"], n["value_ci95"], form))
        return header, rows

    def markdown(self) -> list[str]:
        """The table in Markdown: a row per rule."""
        return markdown_table(*self.in_cells())

    def latex(self) -> str:
        """The table for LaTeX."""
        return latex_rows(*self.in_cells())

    def results(self, name: str) -> dict[str, list[str]]:
        """The rules by their answer to an item."""
        own = [one for one in self.answers if one.name == name]
        return {result: [o.rule for o in own if o.result == result] for result in RESULTS[:3]}

    @property
    def verdict(self) -> str:
        """A sentence per item: the numbers of the first and last rule in order, and who holds."""
        return " ".join(
            self._sentence(name, item) for name, item in self.suite.entries.items.items()
        )

    def _sentence(self, name: str, item: Item) -> str:
        bound = item.bounds[0]
        case, digits = bound.case, self.suite.entries.measures[bound.measure].digits
        found = values.numbers(self.table, self.rules, bound.measure, str(case))
        measured = {rule: n for rule, n in found.items() if not pd.isna(n["value"])}
        if not measured:
            return f"{item.text}: nothing was measured."
        order = sorted(measured, key=lambda rule: float(measured[rule]["value"]))

        def said(rule: str) -> str:
            number = measured[rule]
            return f"{rule} {interval(number['value'], number['value_ci95'], f'.{digits}f')}"

        ends = said(order[0]) if len(order) == 1 else f"{said(order[0])} to {said(order[-1])}"
        judged = self.results(name)
        every = not judged[FAILS] and not judged[UNDECIDED]
        who = "every rule" if every else ", ".join(judged[HOLDS]) or "no rule"
        text = f"{item.text}: {ends}; {item.short}: {who}"
        if judged[UNDECIDED]:
            text += f"; undecided: {', '.join(judged[UNDECIDED])}"
        return f"{text}."

    def as_dict(self) -> dict[str, Any]:
        """As plain data for JSON."""
        entries = self.suite.entries
        return {
            "anabranch": VERSION,
            "suite": self.suite.name,
            "rfc": entries.rfc or None,
            **entries.as_dict(),
            "backend": self.backend,
            "quick": self.quick,
            "given": self.subject.text if self.subject else None,
            "rules": list(self.rules),
            "seeds": list(self.seeds),
            "looks": list(self.looks),
            "cases": {name: case.label or name for name, case in entries.cases.items()},
            "measures": {name: one.label for name, one in entries.measures.items()},
            "table": records(self.table) if len(self.rows) else [],
            "verdict": self.verdict if not entries.rfc and len(self.rows) else None,
            "results": {name: self.results(name) for name in entries.items if not self.subject},
            "counts": self.counts,
            "answers": [one.as_dict() for one in self.answers],
            "failures": dict(self.failures),
            "late": list(self.late),
            "warnings": list(self.warnings),
        }


def every_rule(on: str) -> list[str]:
    """Every rule of the table, as studies run it, that the backend has."""
    if on == "kernel":
        loaded = kernel.Run.algorithms()
        return [rule["linux_name"] for rule in rules() if rule["linux_name"] in loaded]
    return [rule["studied_as"] for rule in rules() if on != "fluid" or rule["fluid"]]


def check_backend(studies: Sequence[Suite], on: str, command: str = "study") -> None:
    """Raise one `ScenarioError` that names the studies that are not defined on a backend."""
    known_backend(on)
    undefined = ", ".join(study.name for study in studies if on not in study.entries.on)
    defined = " ".join(study.name for study in studies if on in study.entries.on)
    backends = " or ".join(dict.fromkeys(b for study in studies for b in study.entries.on))
    remedy = f": expected --on {backends}"
    if defined:
        remedy = f"; for the others: anabranch {command} {defined} --on {on}"
    if undefined:
        raise ScenarioError(f"not defined on {on}: {undefined}{remedy}")


def study(
    name: str,
    rules: Sequence[Algorithm] | None = None,
    *,
    on: str = "sim",
    quick: bool = False,
    seeds: Seeds = None,
    store: Path | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Run a study of `studies/`.

    `rules`: names as in a scenario, or rules in Python; every rule of the table by default.
    `quick`: fewer seeds and shorter runs. `seeds`: other seeds than the study's. `store`: a
    directory that keeps each run, so that the same call resumes a study that was stopped. `on`,
    `jobs` and `progress` are as in `run`.

    Raises `ScenarioError` for what cannot be run, and where every run failed.
    """
    trial = planned(open_study(name), rules, on, quick, seeds, store, jobs)
    return _ran(trial, progress)


def harm(
    algorithms: Sequence[Algorithm] | None = None,
    seeds: Seeds = None,
    *,
    progress: Progress | None = None,
    **how: Any,
) -> Outcome:
    """Compare rules over two paths with the best single path, in the networks of `studies/harm`.

    `algorithms` run beside uncoupled Reno and CUBIC. `how`: `on`, `quick`, `store` and `jobs` as in
    `study` (`quick`: the first network without its variations, for backends that run in real
    time), and `set`, which replaces values of every case, by dotted key.
    """
    return _ran(planned(open_harm(), algorithms, seeds=seeds, **how), progress)


def planned(
    suite: Suite,
    asked: Sequence[Algorithm] | None,
    on: str = "sim",
    quick: bool = False,
    seeds: Seeds = None,
    store: Path | None = None,
    jobs: int | None = None,
    set: Values | None = None,
) -> Trial:
    """The runs of a suite for these rules, all checked. Raises `ScenarioError`."""
    check_jobs(jobs)
    check_backend([suite], on)
    entries = suite.entries
    chosen = list(asked or entries.asked or every_rule(on))
    own = kernel.Run.algorithms() if on == "kernel" else BACKENDS[on].algorithms
    named = named_algorithms([*[b for b in entries.beside if b not in chosen], *chosen], own)
    form = form_of(suite, quick, seeds)
    runs = Runs(open_store(store), jobs)
    return Trial(suite, named, on, quick, *form, runs, entries.items, settings(set))


def _ran(trial: Trial, progress: Progress | None) -> Outcome:
    """The outcome of a suite of its own cases."""
    trial.run(progress)
    block, networks = trial.blocks[""]
    rows: list[tuple[str, str, str, int, float | None]] = []
    failures: dict[str, str] = {}
    late: list[str] = []
    for case, network in networks.items():
        for rule, cell in network.rules.items():
            for seed in trial.reached[id(network), rule]:
                label = f"{case}, {rule}, seed {seed}"
                key = trial.runs.point(cell, seed).key
                if key in trial.runs.failures:
                    failures[label] = trial.runs.failures[key]
                    continue
                if key in trial.runs.late:
                    late.append(label)
                for name, one in block.measures.items():
                    if case in (*(one.cases or networks), *one.over):
                        rows.append((name, case, rule, seed, trial.runs.value(cell, seed, one)))
    if not rows:
        label, reason = next(iter(failures.items()))
        raise ScenarioError(f"{trial.suite.name}: every run failed; {label}: {reason}")
    seeds, answers = next(iter(trial.reached.values())), list(trial.answers())
    foreign = libraries(trial.rules.values())
    scenarios = [network.scenario for network in networks.values() if foreign]
    warnings = [line for one in scenarios for line in caveats(one, block.on, foreign)]
    rest = {"failures": failures, "late": late, "warnings": list(dict.fromkeys(warnings))}
    return _outcome(trial, seeds, answers, rows, **rest)


def _outcome(
    trial: Trial, seeds: Sequence[int], answers: list[Answer], rows: Sequence[Any], **rest: Any
) -> Outcome:
    found = pd.DataFrame(rows, columns=[*KEYS, "value"])
    if len(found):
        found = values.relative(trial.blocks[""][0].measures, found)
    looks = trial.looks.counts[: trial.looks.taken]
    what = (trial.suite, trial.on, trial.quick, list(trial.rules), seeds, looks)
    return Outcome(*what, answers, found, trial.extracts, **rest)


def judge(
    rule: str,
    items: Sequence[str] | None = None,
    *,
    suite: str = SUITES[0],
    family: str | None = None,
    on: str = "sim",
    quick: bool = False,
    seeds: Seeds = None,
    store: Path | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
    known: dict[tuple[str, str], float] | None = None,
) -> Outcome:
    """Judge a rule by the items of `judge/judge*.toml`, or of another suite.

    `rule`: an algorithm such as "balia:cap=inf", or FILE.py:CLASS, FILE.so:NAME. `items`: names or
    sections; all by default. `suite`: "rfc9743", or "controller": numbers that standards give.
    `family`: what a controller implements, "reno", "cubic" or "bbr"; by default what its name says.
    `quick`: fewer cases, and the first looks alone. `store`: a directory that keeps each run, so
    that the same call resumes. `known`: numbers of other rules' judgements, to which those of this
    one are added. The rest is as in `study`.

    Raises `ScenarioError` for an unknown rule, suite, family or item, and for a rule in Python that
    raises or answers with no finite number.
    """
    check_jobs(jobs)
    opened_suite = open_judge(suite)
    check_backend([opened_suite], on, "judge")
    subject = Subject.of(rule, BACKENDS[on].algorithms)
    asked = suited(opened_suite, subject)
    kind = family_of(subject, family)
    chosen = asked.chosen(tuple(items) if items is not None else None)
    zero = item_zero(subject)
    numbers = {} if known is None else known
    runs = Runs(open_store(store), jobs, failed=subject.failed, numbers=numbers)
    first, looks = form_of(asked, quick, seeds)
    named = {subject.name: subject.written}
    what = (asked, named, on, quick, first, looks, runs, chosen)
    trial = Trial(*what, reasons=_reasons(chosen, kind))
    trial.run(part(progress, 0.0, 1 - PROOFS))
    answers = {one.name: one for one in trial.answers()}
    if proved := {name: item for name, item in chosen.items() if item.check == "proof"}:
        answers |= {one.name: one for one in checks.proofs(subject, proved, quick)}
    for name, item in chosen.items():
        if item.check == "operations":
            answers[name] = checks.operations(subject, name, item)
    if progress:
        progress(1.0)
    in_order = [zero, *(answers[name] for name in chosen if name in answers)]
    rest: dict[str, Any] = {"warnings": _warnings(trial, subject), "subject": subject}
    return _outcome(trial, first[: looks.counts[0]], in_order, [], **rest)


def suited(suite: Suite, subject: Subject) -> Suite:
    """The items with the endpoint that a rule needs, where their backend has it."""
    items = {
        name: replace(item, set={**item.set, **subject.endpoint}) if item.on is None else item
        for name, item in suite.entries.items.items()
    }
    return replace(suite, entries=replace(suite.entries, items=items))


def _warnings(trial: Trial, subject: Subject) -> list[str]:
    """Needs of the rule, and warnings of `run` at the first case of each item, each once."""
    found: dict[str, dict[str, None]] = {}
    for name, (block, networks) in trial.blocks.items():
        scenario = next(iter(networks.values())).scenario
        if subject.written is None and subject.name not in BACKENDS[block.on].algorithms:
            scenario = scenario.with_algorithm(subject.name)
        told = caveats(scenario, block.on, libraries([subject.written]))
        for warning in [*scenario.warnings, *told]:
            found.setdefault(warning, {})[name] = None
    for warning, names in trial.warnings.items():
        found.setdefault(warning, {}).update(dict.fromkeys(names))
    said = [f"{', '.join(names)}: {warning}" for warning, names in found.items()]
    keys = ", ".join(f'{key} = "{value}"' for key, value in subject.endpoint.items())
    needs = f"{subject.name} needs {keys}: all flows of items on sim have it"
    return [*([needs] if keys else []), *said]


def family_of(subject: Subject, given: str | None = None) -> str | None:
    """The family that a controller implements, by its name if it is not given: "newreno", "reno".

    Raises `ScenarioError` for another word.
    """
    known = list(get_args(Family))
    if given is not None and given not in known:
        raise ScenarioError(f"--family {given}: {expected_one_of(given, known)}")
    return given or next((one for one in known if one in subject.name.lower()), None)


def _reasons(items: Mapping[str, Item], family: str | None) -> dict[str, str]:
    """Why items cannot be tested, by name."""
    found = {}
    for name, item in items.items():
        if item.not_tested:
            found[name] = item.not_tested.text
        elif item.family and family not in item.family:
            kinds = " and ".join(item.family)
            found[name] = f"is about {kinds} (--family says what a controller implements)"
    return found
