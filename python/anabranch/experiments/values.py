"""The table of a suite: each measure in each run, and means with intervals over the seeds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from anabranch.experiments.suite import Block, Measure
from anabranch.result import mean_with_interval

KEYS = ["measure", "case", "rule", "seed"]


@dataclass(frozen=True)
class Column:
    """A column of the table."""

    measure: str
    case: str
    title: str
    digits: int


def columns(block: Block) -> Iterator[Column]:
    """The columns of the table: a measure in each of its cases, which are named if several.

    A case that the backend does not have is left out.
    """
    for name, one in block.measures.items():
        cases = one.cases or tuple(block.cases)
        for case in cases:
            if block.on in (block.cases[case].on or [block.on]):
                label = block.cases[case].label or case
                title = one.label if len(cases) == 1 else f"{one.label}, {label}"
                yield Column(name, case, title, one.digits)


def relative(measures: Mapping[str, Measure], rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the measures' cases, divided by the best baseline where a measure has some."""
    parts = []
    for name, one in measures.items():
        of_measure = rows[rows["measure"] == name]
        chosen = of_measure[of_measure["case"].isin(one.cases or of_measure["case"].unique())]
        if one.over:
            baselines = of_measure[of_measure["case"].isin(one.over)]
            best = baselines.groupby(["case", "rule"])["value"].mean().max()
            chosen = chosen.assign(value=chosen["value"] / best)
        parts.append(chosen)
    return pd.concat(parts, ignore_index=True)


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
