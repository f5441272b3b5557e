"""The runs of a study: a point of a sweep per case, rule and seed, cached by the sweep's store."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from anabranch import kernel
from anabranch.result import Result
from anabranch.rule import Rule
from anabranch.runner import BACKENDS, Progress, known_backend
from anabranch.runner.asked import Algorithm, algorithms_of
from anabranch.scenario import Scenario, ScenarioError, named, rules, toml_value
from anabranch.study.entries import Case, Study
from anabranch.sweeps import tables
from anabranch.sweeps.execute import engine
from anabranch.sweeps.point import Point, build, point
from anabranch.sweeps.store import Directory, Memory, Store, decode
from anabranch.sweeps.sweep import define
from anabranch.typed_toml import Where


@dataclass(frozen=True)
class Plan:
    """Rules, points and seeds that run."""

    study: Study
    rules: Sequence[str]
    seeds: Sequence[int]
    on: str
    quick: bool
    scenarios: Mapping[str, Scenario]
    """The scenario of each case."""
    points: Sequence[Point]


def every_rule(on: str) -> list[str]:
    """Every rule of the table, as studies run it, that the backend has."""
    table = rules()
    if on == "fluid":
        return [rule["studied_as"] for rule in table if rule["fluid"]]
    if on == "kernel":
        loaded = kernel.Run.algorithms()
        return [rule["linux_name"] for rule in table if rule["linux_name"] in loaded]
    return [rule["studied_as"] for rule in table]


def check_backend(studies: Sequence[Study], on: str) -> None:
    """Raise one `ScenarioError` that names the studies that are not defined on a backend."""
    known_backend(on)
    undefined = [study.name for study in studies if on not in study.entries.on]
    if not undefined:
        return
    defined = [study.name for study in studies if on in study.entries.on]
    if defined:
        raise ScenarioError(
            f"not defined on {on}: {', '.join(undefined)}; for the others: "
            f"anabranch study {' '.join(defined)} --on {on}"
        )
    backends = " or ".join(dict.fromkeys(b for study in studies for b in study.entries.on))
    raise ScenarioError(f"not defined on {on}: {', '.join(undefined)}: expected --on {backends}")


def plan(study: Study, chosen: Sequence[Algorithm] | None, on: str, quick: bool) -> Plan:
    """The runs of a study, all checked. Raises `ScenarioError`."""
    check_backend([study], on)
    entries = study.entries
    asked: list[Algorithm] = list(chosen or every_rule(on))
    names: dict[str, Rule | None] = {}
    count = entries.quick.seeds if quick else entries.seeds
    seeds = list(range(1, count + 1)) if BACKENDS[on].random else [1]
    inputs, traces = study.inputs(), dict[str, bytes]()
    own = kernel.Run.algorithms() if on == "kernel" else ()
    scenarios, points = {}, []
    for key, case in entries.cases.items():
        if case.on is not None and on not in case.on:
            continue
        scenario = _scenario(study, case, quick, inputs)
        scenarios[key] = scenario
        # A baseline runs its own rules, whatever is asked for.
        chosen_here = algorithms_of(scenario, list(case.rules or asked), own)
        names |= {} if case.rules else chosen_here
        for name, rule in chosen_here.items():
            for seed in seeds:
                how = (name, rule, seed, on, True)
                points.append(point(scenario, {"case": key}, *how, traces))
    _check_names(study, scenarios)
    return Plan(study, list(names), seeds, on, quick, scenarios, points)


def _check_names(study: Study, scenarios: Mapping[str, Scenario]) -> None:
    """Raise `ScenarioError` where a measure or the figure names a flow or link that is not there.

    Without it a wrong name would look like a run in which nothing was measured.
    """
    file, figure = Where(f"{study.name}/study.toml"), study.entries.figure
    named = [
        (file.at("measures").at(name), one.parameters, (*one.cases, *one.best_of))
        for name, one in study.entries.measures.items()
    ]
    named.append((file.at("figure"), vars(figure), figure.cases))
    for where, values, cases in named:
        for case in scenarios.keys() & set(cases):
            flows, links = scenarios[case].flow_names, scenarios[case].link_names
            for key, known in (("flow", flows), ("to", flows), ("link", links)):
                if key in values:
                    where.at(key).one_of(values[key], known)


def _scenario(study: Study, case: Case, quick: bool, inputs: dict[str, bytes]) -> Scenario:
    file = study.folder / case.scenario
    values = {**(study.entries.quick.set if quick else {}), **case.set}
    written = [(key, toml_value(value)) for key, value in values.items()]
    text = file.read_text(encoding="utf-8")
    return named(Scenario.parse(text, str(file), written, inputs, "reno"))


@dataclass(frozen=True)
class Done:
    """A point that has run: its result, or why it has none."""

    case: str
    rule: str
    seed: int
    result: Result | None
    failure: str | None = None


def execute(
    planned: Plan, store_folder: Path | None, jobs: int | None, progress: Progress | None
) -> Iterator[Done]:
    """Run the points that the store lacks; then each point, one after the other.

    Without a folder the store is in memory. A result is released when the next one is asked for.
    """
    store: Store = Memory() if store_folder is None else Directory(store_folder)
    try:
        in_python = any(point.rule is not None for point in planned.points)
        with engine(store, None, jobs, planned.on, in_python, False, progress) as runs:
            define(store, _definition(planned), planned.points)
            runs.complete(planned.points)
        for one in planned.points:
            yield _done(planned, one, store)
    finally:
        store.close()


def _definition(planned: Plan) -> dict[str, object]:
    """Definition of the store."""
    return {
        "anabranch": build(),
        "study": planned.study.name,
        "backend": planned.on,
        "quick": planned.quick,
        "algorithms": list(planned.rules),
        "seeds": list(planned.seeds),
    }


def _done(planned: Plan, one: Point, store: Store) -> Done:
    case = str(one.values["case"])
    entry = decode(store.read(one.key) or b"", one.key)
    if entry.failure is not None:
        return Done(case, one.algorithm, one.seed, None, entry.failure)
    result = tables.join(planned.scenarios[case], [one], store)
    return Done(case, one.algorithm, one.seed, result)
