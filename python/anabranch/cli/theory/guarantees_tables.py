"""Guarantees, statements and the map on the terminal."""

from rich.text import Text

from anabranch.cli.tables import STDOUT, new_table
from anabranch.statements.balia.design_map import Map
from anabranch.theory.guarantees.check import Guarantees, Survey, Verdict
from anabranch.theory.guarantees.conditions import CONDITIONS


def guarantees(found: Guarantees) -> None:
    """One rule: a line for each condition, its counterexample below it."""
    _print(f"{found.rule}, {_setting(found)}")
    for name, verdict in found.verdicts.items():
        _print(f"\n{name:2}  {CONDITIONS[name][0]}")
        STDOUT.print(Text.assemble("    ", *_words(verdict)))
        if verdict.counterexample:
            _print(f"    {verdict.counterexample.code}")
            _print(f"    {verdict.counterexample.why}")
    if found.notes:
        _print("")
    for note in found.notes:
        _print(f"Note: {note}.")


def survey(found: Survey) -> None:
    """All rules: a row each, a column for each condition; below it every counterexample."""
    rules = [one for one in found.rules if one.verdicts]
    _print(f"All rules, {_setting(found.rules[0])}: holds (states tested), or fails\n")
    grid = new_table("", *CONDITIONS)
    for one in rules:
        grid.add_row(one.rule, *(_cell(verdict) for verdict in one.verdicts.values()))
    STDOUT.print(grid)
    _print("")
    for name, (says, _) in CONDITIONS.items():
        _print(f"{name:2}  {says}")
    for one in rules:
        failing = [v for v in one.verdicts.values() if v.counterexample]
        if failing or one.notes:
            _print(f"\n{one.rule}")
        for verdict in failing:
            if verdict.counterexample:
                _print(f"  {verdict.condition:2}  {verdict.counterexample.code}")
                _print(f"      {verdict.counterexample.why}")
        for note in one.notes:
            _print(f"  Note: {note}.")
    for one in found.rules:
        if not one.verdicts:
            _print(f"\n{one.rule}: not applicable. It {one.notes[0]}.")


def rules_on_map(found: Map) -> None:
    """The measures of the named rules."""
    grid = new_table("", "friendliness", "responsiveness (1/s)", "oscillation")
    for name, measures in found.rules.items():
        grid.add_row(
            name,
            f"{measures.friendliness:.3f}",
            f"{measures.responsiveness_per_s:.3f}",
            f"{measures.oscillation:.3f}",
        )
    STDOUT.print(grid)


def _setting(found: Guarantees) -> str:
    fewest, most = found.paths[0], found.paths[-1]
    paths = f"{fewest} paths" if fewest == most else f"{fewest} to {most} paths"
    rtts = "equal RTTs" if found.rtt_ratio == 1 else f"RTTs within a ratio of {found.rtt_ratio:g}"
    return f"users with {paths}, {rtts}"


def _print(line: str) -> None:
    STDOUT.print(line, soft_wrap=True)  # code stays on one line, to be copied


def _words(verdict: Verdict) -> tuple[tuple[str, str], ...]:
    if verdict.counterexample:
        return (("fails", "red"), (", first seen with these paths:", ""))
    if verdict.states == 0:
        return (("not tested: the rule has no equilibrium", ""),)
    return (("holds", "green"), (f" ({verdict.states} states tested)", ""))


def _cell(verdict: Verdict) -> Text:
    if verdict.counterexample:
        return Text("fails", "red")
    return Text(f"holds ({verdict.states})", "green") if verdict.holds else Text("-")
