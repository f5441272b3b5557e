"""The numbers of a study: each measure in each run, and means with intervals over the seeds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from anabranch.experiments.quantities import measure
from anabranch.result import mean_with_interval
from anabranch.scenario import ScenarioError
from anabranch.study.entries import Entries, Measure
from anabranch.study.runs import Done

KEYS = ["measure", "case", "rule", "seed"]


@dataclass(frozen=True)
class Column:
    """A column of a study's table."""

    measure: str
    case: str
    title: str
    digits: int


def columns(entries: Entries, on: str) -> list[Column]:
    """The columns of the table: a measure in each of its cases, which are named if several.

    A case that the backend does not have is left out.
    """
    return [
        Column(
            name,
            case,
            one.label if len(one.cases) == 1 else f"{one.label}, {entries.cases[case].label}",
            one.digits,
        )
        for name, one in entries.measures.items()
        if one.in_table
        for case in one.cases
        if on in (entries.cases[case].on or entries.on)
    ]


def measured(entries: Entries, done: Done) -> Iterator[dict[str, object]]:
    """A row per measure of one run; NaN where a run has nothing to measure."""
    for name, one in entries.measures.items():
        if done.result is None or done.case not in (*one.cases, *one.best_of):
            continue
        try:
            value = measure(one.quantity, done.result, **one.parameters)
        except ScenarioError:  # such as no transfer that finished
            value = float("nan")
        yield dict(
            zip([*KEYS, "value"], (name, done.case, done.rule, done.seed, value), strict=True)
        )


def relative(entries: Entries, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the cases, divided by the best baseline where a measure has some."""
    parts = [_relative(name, one, rows) for name, one in entries.measures.items()]
    return pd.concat(parts, ignore_index=True)


def _relative(name: str, one: Measure, rows: pd.DataFrame) -> pd.DataFrame:
    of_measure = rows[rows["measure"] == name]
    chosen = of_measure[of_measure["case"].isin(one.cases)]
    if not one.best_of:
        return chosen
    baselines = of_measure[of_measure["case"].isin(one.best_of)]
    best = baselines.groupby(["case", "rule"])["value"].mean().max()
    return chosen.assign(value=chosen["value"] / best)


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """Per measure, case and rule the mean over seeds, and half its 95 % interval, `value_ci95`."""
    return mean_with_interval(rows, ["measure", "case", "rule"], ["value"])


def numbers(
    found: pd.DataFrame, rules: Sequence[str], measure: str, case: str
) -> Mapping[str, pd.Series]:
    """Mean and interval of a measure in a case, by rule."""
    here = found[(found["measure"] == measure) & (found["case"] == case)]
    by_rule = here.set_index("rule")[["value", "value_ci95"]]
    return {rule: by_rule.loc[rule] for rule in rules if rule in by_rule.index}
