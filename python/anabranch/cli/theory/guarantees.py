"""`anabranch theory check`, `statements` and `map`: guarantees of rules, and trade-offs."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from anabranch.cli import tables
from anabranch.cli.notes import note
from anabranch.cli.options import Force, Json, Record, only_names, out_option
from anabranch.cli.tables import STDOUT, new_table
from anabranch.files import refuse_full, staged
from anabranch.record import check as check_record
from anabranch.record import update
from anabranch.scenario import ScenarioError

if TYPE_CHECKING:
    from anabranch.statements.balia.design_map import Map
    from anabranch.theory.guarantees.check import Guarantees, Survey, Verdict


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("check")(check_command)
    app.command("statements")(statements_command)
    app.command("map")(map_command)


def check_command(
    rule: Annotated[
        str | None, typer.Argument(metavar="RULE", help="An algorithm, such as balia:cap=inf.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All algorithms.")] = False,
    paths: Annotated[
        int | None,
        typer.Option(min=2, max=12, metavar="N", help="Users with N paths. Default: 2 to 8."),
    ] = None,
    rtt_ratio: Annotated[
        float,
        typer.Option(min=1.0, max=1000.0, metavar="R", help="Largest ratio of two RTTs of a user."),
    ] = 1.0,
    as_json: Json = False,
) -> None:
    """Test Balia's conditions C0 to C5 on a rule: states where they hold, or a counterexample.

    Each counterexample is a line of Python that makes its states.

    Examples:

        anabranch theory check lia

        anabranch theory check lia --rtt-ratio 10

        anabranch theory check --all
    """
    from anabranch.theory.guarantees import check

    if every == (rule is not None):
        raise ScenarioError("theory check: expected either a RULE, such as lia, or --all")
    numbers = check.PATHS if paths is None else [paths]
    if rule is not None:
        only_names(rule, "theory check")
        with tables.progress(f"theory check {rule}"):
            found = check.check(rule, numbers, rtt_ratio)
        tables.answer(found, as_json, show_guarantees)
    else:
        with tables.progress("theory check") as progress:
            survey = check.check_all(numbers, rtt_ratio, progress)
        tables.answer(survey, as_json, show_survey)


def statements_command(
    paper: Annotated[
        str, typer.Argument(metavar="PAPER", help="balia, itcp, olia, rsf, wvegas or all.")
    ] = "balia",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer random samples.")] = False,
    record: Record = None,
    as_json: Json = False,
) -> None:
    """Test the statements of a paper, by default Balia's; takes a minute or two.

    Each has a class beside its printed words: it holds (a search found no counterexample, which
    is no proof), is wrong as printed, needs a condition, was measured beside a limit, or is not
    stated in the paper but ours.

    Examples:

        anabranch theory statements

        anabranch theory statements olia --json

        anabranch theory statements all --record statements.csv
    """
    from dataclasses import asdict

    from anabranch.statements.papers import PAPERS, statements_of
    from anabranch.statements.statement import counted
    from anabranch.statements.statement import record as recorded

    check_record(record, "paper", "place", "statement")
    papers = list(PAPERS) if paper == "all" else [paper]
    found = {}
    for name in papers:
        with tables.progress(f"anabranch theory statements {name}") as progress:
            found[name] = statements_of(name, progress, quick)
    if record:
        update(record, recorded(found), names=3, whole=1, anew=paper == "all")
    if as_json:
        documents = [
            {"paper": name, "statements": [asdict(one) for one in statements]}
            for name, statements in found.items()
        ]
        tables.print_json(documents if paper == "all" else documents[0])
        return
    for statements in found.values():
        tables.statements(statements)
        tables.STDOUT.print(counted(statements))


def map_command(
    out: Annotated[Path, out_option("Write map.svg, map.png and map.json to DIR.")] = Path(
        "results/map"
    ),
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Draw friendliness, responsiveness and oscillation over beta and eta of Balia's family.

    Example:

        anabranch theory map --out results/map
    """
    from anabranch.figures import style
    from anabranch.statements.balia import design_map
    from anabranch.statements.balia import figure as figure

    if not force:
        refuse_full(out)
    with staged(out) as stage:
        with tables.progress("theory map") as progress:
            found = design_map.design_map(progress)
        style.save(figure.draw(found), stage / "map")
        (stage / "map.json").write_text(json.dumps(found.as_dict(), allow_nan=False) + "\n")
    tables.answer(found, as_json, show_map)
    note(f"The map is {out / 'map.png'}")


# Guarantees, statements and the map on the terminal.


def show_guarantees(found: "Guarantees") -> None:
    """One rule: a line for each condition, its counterexample below it."""
    from anabranch.theory.guarantees.conditions import CONDITIONS

    _print(f"{found.rule}, {_setting(found)}")
    for name, verdict in found.verdicts.items():
        _print(f"\n{name:2}  {CONDITIONS[name][0]}")
        STDOUT.print(Text.assemble("    ", *_words(verdict)))
        if verdict.counterexample:
            _print(f"    {verdict.counterexample.code}")
            _print(f"    {verdict.counterexample.why}")
    if found.notes:
        _print("")
    for line in found.notes:
        _print(f"Note: {line}.")


def show_survey(found: "Survey") -> None:
    """All rules: a row each, a column for each condition; below it every counterexample."""
    from anabranch.theory.guarantees.conditions import CONDITIONS

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
        for line in one.notes:
            _print(f"  Note: {line}.")
    for one in found.rules:
        if not one.verdicts:
            _print(f"\n{one.rule}: not applicable. It {one.notes[0]}.")


def show_map(found: "Map") -> None:
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


def _setting(found: "Guarantees") -> str:
    fewest, most = found.paths[0], found.paths[-1]
    paths = f"{fewest} paths" if fewest == most else f"{fewest} to {most} paths"
    rtts = "equal RTTs" if found.rtt_ratio == 1 else f"RTTs within a ratio of {found.rtt_ratio:g}"
    return f"users with {paths}, {rtts}"


def _print(line: str) -> None:
    STDOUT.print(line, soft_wrap=True)  # code stays on one line, to be copied


def _words(verdict: "Verdict") -> tuple[tuple[str, str], ...]:
    if verdict.counterexample:
        return (("fails", "red"), (", first seen with these paths:", ""))
    if verdict.states == 0:
        return (("not tested: the rule has no equilibrium", ""),)
    return (("holds", "green"), (f" ({verdict.states} states tested)", ""))


def _cell(verdict: "Verdict") -> Text:
    if verdict.counterexample:
        return Text("fails", "red")
    return Text(f"holds ({verdict.states})", "green") if verdict.holds else Text("-")
