"""The verdict of a study in one sentence, from the numbers of its table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from anabranch.formats import interval
from anabranch.study.entries import Entries, Verdict


@dataclass(frozen=True)
class Judged:
    """The rules by whether their number is within the bounds."""

    holds: Sequence[str]
    fails: Sequence[str]
    undecided: Sequence[str]
    """The interval over the seeds crosses a bound."""


def judge(verdict: Verdict, numbers: Mapping[str, pd.Series]) -> Judged:
    """Sort the rules; with one seed the number alone decides."""
    low = -float("inf") if verdict.at_least is None else verdict.at_least
    high = float("inf") if verdict.at_most is None else verdict.at_most
    holds, fails, undecided = [], [], []
    for rule, number in numbers.items():
        mean = number["value"]
        half = 0.0 if pd.isna(number["value_ci95"]) else number["value_ci95"]
        if pd.isna(mean):
            undecided.append(rule)
        elif low <= mean - half and mean + half <= high:
            holds.append(rule)
        elif mean + half < low or mean - half > high:
            fails.append(rule)
        else:
            undecided.append(rule)
    return Judged(holds, fails, undecided)


def sentence(entries: Entries, numbers: Mapping[str, pd.Series]) -> str:
    """The number of the first and last rule in order, and which rules are within the bounds."""
    verdict, digits = entries.verdict, entries.measures[entries.verdict.measure].digits
    measured = {rule: n for rule, n in numbers.items() if not pd.isna(n["value"])}
    if not measured:
        return f"{verdict.says}: nothing was measured."
    order = sorted(measured, key=lambda rule: float(measured[rule]["value"]))

    def said(rule: str) -> str:
        number = measured[rule]
        return f"{rule} {interval(number['value'], number['value_ci95'], f'.{digits}f')}"

    ends = said(order[0]) if len(order) == 1 else f"{said(order[0])} to {said(order[-1])}"
    judged = judge(verdict, numbers)
    every = not judged.fails and not judged.undecided
    who = "every rule" if every else ", ".join(judged.holds) or "no rule"
    text = f"{verdict.says}: {ends}; {verdict.holds}: {who}"
    if judged.undecided:
        text += f"; undecided: {', '.join(judged.undecided)}"
    return f"{text}."
