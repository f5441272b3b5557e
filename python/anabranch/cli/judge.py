"""`anabranch judge`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch.cli import tables
from anabranch.cli.notes import can_resume, note, warn
from anabranch.cli.options import Force, Jobs, Json, Record, names, out_option
from anabranch.files import output, refuse_full
from anabranch.record import check as check_record
from anabranch.record import update
from anabranch.scenario import ScenarioError, rules

if TYPE_CHECKING:
    from anabranch.judge.outcome import Judgement

FAILED = 1
"""Exit code when an item fails."""

# The package is imported where it is used, because pandas is slow to load.


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command("judge")(judge_command)


def judge_command(
    rule: Annotated[
        str | None,
        typer.Argument(
            metavar="RULE", help="An algorithm, such as balia:cap=inf, or FILE.py:CLASS."
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Judge every rule of the table.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer networks and seeds: less than 3 minutes.")
    ] = False,
    items: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Items or sections, as 5.1.1,shared. Default: all."),
    ] = None,
    again: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Run a counterexample again, as --out has written it."),
    ] = None,
    jobs: Jobs = None,
    out: Annotated[
        Path | None, out_option("Write report.html, judge.json, counterexamples and manifest.")
    ] = None,
    force: Force = False,
    store: Annotated[
        Path | None,
        out_option("Keep each run here; the same command resumes.", "--store"),
    ] = None,
    record: Record = None,
    as_json: Json = False,
) -> None:
    """Judge a rule by RFC 9743: item by item holds, fails with a counterexample, or not tested.

    The thresholds are in judge/judge*.toml, each with its reason. The exit code is 1 if an item
    fails, 2 for a rule that cannot run.

    Examples:

        anabranch judge lia --quick

        anabranch judge examples/my_rule.py:Gentle --quick --out results/gentle

        anabranch judge olia --items 7.10

        anabranch judge lia --again results/lia/counterexamples/shared.toml

        anabranch judge --all --quick --store results/judged
    """
    if (rule is None) == (not every):
        raise ScenarioError("judge: expected a RULE, such as lia or my_rule.py:MyRule, or --all")
    if again is not None:
        if rule is None:
            raise ScenarioError("--again needs the RULE that failed")
        _again(rule, again, as_json)
        return
    check_record(record, "section", "item")
    chosen = [row["studied_as"] for row in rules()] if every else [str(rule)]
    places = {one: out / one if out and every else out for one in chosen}
    for place in places.values():
        if place and not force:
            refuse_full(place)
    if store:
        can_resume(f"{store} has the runs that are done; run the same command to resume")
    how = {"quick": quick, "jobs": jobs, "items": names(items, "--items") if items else None}
    found = _judge(chosen, how, store, places, force, as_json)
    if as_json:
        documents = [one.as_dict() for one in found]
        tables.print_json(documents if every else documents[0])
    if out:
        note(f"The report is {out}/{'RULE/' if every else ''}report.html")
    if record:
        from anabranch.judge.report import record as recorded

        text = recorded([one.as_dict() for one in found])
        anew = every and items is None
        update(record, text, names=2, whole=2, said="failures", anew=anew)
    if any(one.counts["fails"] for one in found):
        raise typer.Exit(FAILED)


def _judge(
    chosen: list[str],
    how: dict[str, Any],
    store: Path | None,
    places: dict[str, Path | None],
    force: bool,
    as_json: bool,
) -> "list[Judgement]":
    """Judge rules, one after the other, and write the directory of each before the next one."""
    from anabranch.judge.outcome import judge
    from anabranch.judge.report import write
    from anabranch.judge.runs import open_store

    found = []
    kept = open_store(store)
    try:
        for one in chosen:
            with tables.progress(f"judge {one}") as progress:
                judgement = judge(one, store=kept, progress=progress, **how)
            for warning in judgement.warnings:
                warn(warning)
            found.append(judgement)
            if not as_json:
                _print(judgement, places[one])
            with output(places[one], force) as stage:
                if stage:
                    write(judgement, stage, ["anabranch", *sys.argv[1:]])
    finally:
        kept.close()
    return found


def _print(judgement: "Judgement", place: Path | None) -> None:
    table = tables.new_table("", "result", "item: what was found")
    for one in judgement.verdicts:
        found = one.says + (f" ({one.state})" if one.state else "")
        where = "" if one.item.section in ("0", "theory") else one.item.section
        table.add_row(where, one.result, f"{one.item.title}: {found}")
    form = ", quick form" if judgement.quick else ""
    seeds = len(judgement.seeds)
    heading = f"{judgement.subject.name}, RFC {judgement.rfc}, {seeds} seeds{form}"
    tables.STDOUT.print(heading, "", table, "", judgement.in_words, sep="\n", soft_wrap=False)
    from anabranch.judge.counterexample import again_command
    from anabranch.judge.report import COUNTEREXAMPLES

    files = [one.name for one in judgement.verdicts if one.counterexample]
    if files and place:
        command = again_command(judgement.subject, place / COUNTEREXAMPLES / f"{files[0]}.toml")
        tables.STDOUT.print(f"A counterexample again: {command}")
    elif files:
        tables.STDOUT.print("With --out DIR each counterexample is a scenario that runs again.")


def _again(rule: str, file: Path, as_json: bool) -> None:
    from anabranch.judge.counterexample import again

    numbers = again(rule, file)
    if as_json:
        tables.print_json([one.as_dict() for one in numbers])
    else:
        table = tables.new_table("measure", "number and bound", "result")
        for one in numbers:
            words = "holds" if one.holds else "fails"
            table.add_row(one.measure.label, one.in_words, words)
        tables.STDOUT.print(table)
    if not all(one.holds for one in numbers):
        raise typer.Exit(FAILED)
