"""`anabranch study`, `judge` and `harm`: suites of experiments, their tables and directories."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from anabranch.cli import tables
from anabranch.cli.notes import can_resume, note, warn
from anabranch.cli.options import (
    Force,
    Jobs,
    Json,
    Record,
    Set,
    Store,
    algorithms,
    looks_option,
    names,
    out_option,
    overrides,
)
from anabranch.files import output, refuse_full
from anabranch.formats import latex_table, markdown_table
from anabranch.record import check as check_record
from anabranch.record import update
from anabranch.scenario import ScenarioError, rules

if TYPE_CHECKING:
    from anabranch.experiments.outcome import Outcome
    from anabranch.experiments.suite import Suite

FAILED, UNDECIDED = 1, 3
"""Exit codes: an item fails, or a run has failed; an item of the RFC is undecided (--strict)."""

Quick = Annotated[bool, typer.Option("--quick", help="Fewer cases and seeds, shorter runs.")]
On = Annotated[
    str, typer.Option("--on", metavar="BACKEND", help="sim, quic, fluid, or kernel (as root).")
]
Out = Annotated[Path | None, out_option("Write report, data and manifest to DIR.")]
Seeds = Annotated[Any, looks_option()]

# Suites are imported where they are used, because pandas and Matplotlib are slow to load.


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("study")(study_command)
    app.command("judge")(judge_command)
    app.command("harm")(harm_command)


def study_command(
    study: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME...", help="Studies of studies/, or `list` to list them."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Run every study.")] = False,
    quick: Quick = False,
    rules: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...", help="The rules to compare, also FILE.py:CLASS. Default: every one."
        ),
    ] = None,
    on: On = "sim",
    seeds: Seeds = None,
    jobs: Jobs = None,
    out: Out = None,
    force: Force = False,
    store: Store = None,
    record: Record = None,
    as_json: Json = False,
) -> None:
    """Run named experiments of the field with every rule: a table, a figure and a verdict each.

    With --json: a list of the studies. The exit code is 1 if a run fails.

    Examples:

        anabranch study list

        anabranch study shared --quick

        anabranch study loss satellite --rules reno,lia,olia --out results/studies

        anabranch study --all --quick --out results/studies --store results/runs

        anabranch study shared --on quic --quick --rules lia,olia
    """
    from anabranch.experiments.folder import known_studies, open_study
    from anabranch.experiments.outcome import check_backend
    from anabranch.experiments.outcome import study as run

    chosen = known_studies() if every else list(dict.fromkeys(study or []))
    if study and every:
        raise ScenarioError(f"--all and {' '.join(study)}: expected one of the two")
    if not chosen:
        raise ScenarioError(f"no study: expected list, --all, or {', '.join(known_studies())}")
    if chosen == ["list"]:
        _list([open_study(name) for name in known_studies()], as_json)
        return
    check_record(record, "study", "measure", "case")
    check_backend([open_study(name) for name in chosen], on)
    wanted = algorithms(rules, "--rules") if rules is not None else None
    one = partial(run, rules=wanted, on=on, quick=quick, seeds=seeds, jobs=jobs, store=store)
    places = {name: out / name if out else None for name in chosen}
    found = _each("study", places, one, store, force, as_json, _study)
    if as_json:
        tables.print_json([outcome.as_dict() for outcome in found])
    if out:
        note(f"Tables and figures are in {out}")
    if record:
        from anabranch.experiments.report import record_of_studies

        anew = every and rules is None
        update(record, record_of_studies(found), names=3, whole=1, anew=anew)
    failed = sum(len(outcome.failures) for outcome in found)
    if failed:
        note(f"anabranch: {failed} runs failed")
        raise typer.Exit(FAILED)


def judge_command(
    rule: Annotated[
        str | None,
        typer.Argument(
            metavar="RULE", help="An algorithm, such as balia:cap=inf, or FILE.py:CLASS."
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Judge every rule of the table.")] = False,
    quick: Quick = False,
    items: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Items or sections, as 5.1.1,shared. Default: all."),
    ] = None,
    again: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Run a counterexample again, as --out has written it."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 3 if an item of the RFC is undecided.")
    ] = False,
    seeds: Seeds = None,
    jobs: Jobs = None,
    out: Out = None,
    force: Force = False,
    store: Store = None,
    record: Record = None,
    as_json: Json = False,
) -> None:
    """Judge a rule by RFC 9743: items hold, fail with a counterexample, or are undecided.

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
    from anabranch.experiments.outcome import judge

    asked = names(items, "--items") if items else None
    how: dict[str, Any] = {"quick": quick, "seeds": seeds, "jobs": jobs, "known": {}}
    one = partial(judge, items=asked, store=store, **how)
    chosen = [row["studied_as"] for row in rules()] if every else [str(rule)]
    places = {name: out / name if out and every else out for name in chosen}
    found = _each("judge", places, one, store, force, as_json, _judgement)
    if as_json:
        documents = [outcome.as_dict() for outcome in found]
        tables.print_json(documents if every else documents[0])
    if out:
        note(f"The report is {out}/{'RULE/' if every else ''}report.html")
    if record:
        from anabranch.experiments.report import record_of_judgements

        text, anew = record_of_judgements(found), every and items is None
        update(record, text, names=2, whole=2, said="failures", anew=anew)
    if any(outcome.counts["fails"] for outcome in found):
        raise typer.Exit(FAILED)
    if strict and any(outcome.open_items for outcome in found):
        raise typer.Exit(UNDECIDED)


def harm_command(
    algorithm: Annotated[
        str,
        typer.Option(
            "--algorithm", "-a", metavar="A,B,...", help="The rules to compare, also FILE.py:CLASS."
        ),
    ] = "lia,olia,balia",
    seeds: Seeds = None,
    on: On = "sim",
    quick: Quick = False,
    settings: Set = None,
    jobs: Jobs = None,
    out: Out = None,
    force: Force = False,
    store: Store = None,
    as_json: Json = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the table in Markdown.")
    ] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print the table for LaTeX.")] = False,
) -> None:
    """Compare rules over two paths with the best single path: where does the second one harm?

    The exit code is 0, also if a rule harms.

    Examples:

        anabranch harm

        anabranch harm --set tcp.kernel_programs=false

        anabranch harm --on kernel --quick --seeds 2 --set measure.duration_s=20
    """
    from anabranch.experiments.outcome import harm

    asked = partial(harm, algorithms(algorithm), seeds, set=overrides(settings))
    one = partial(asked, on=on, quick=quick, jobs=jobs, store=store)
    form = "latex" if latex else "markdown" if markdown else ""
    how = (store, force, as_json, lambda found, _: _harm(found, form))
    (found,) = _each("harm", {"": out}, lambda _, **progress: one(**progress), *how)
    if as_json:
        tables.print_json(found.as_dict())


def _each(
    command: str,
    places: dict[str, Path | None],
    run: Callable[..., "Outcome"],
    store: Path | None,
    force: bool,
    as_json: bool,
    show: "Callable[[Outcome, Path | None], None]",
) -> "list[Outcome]":
    """Run one after the other; each is printed and its directory complete before the next one."""
    for place in places.values():
        if place and not force:
            refuse_full(place)
    if store:
        can_resume(f"{store} has the runs that are done; run the same command to resume")
    found = []
    for name, place in places.items():
        with tables.progress(f"{command} {name}".rstrip()) as progress:
            outcome = run(name, progress=progress)
        for label, reason in outcome.failures.items():
            warn(f"{outcome.suite.name}: {label}: {reason}")
        for label in outcome.late:
            late = "packets were too late to count; see docs/reference/lab.md"
            warn(f"{outcome.suite.name}: {label}: {late}")
        for warning in outcome.warnings:
            warn(warning)
        if not as_json:
            show(outcome, place)
        with output(place, force) as stage:
            if stage:
                from anabranch.experiments.report import write

                write(outcome, stage, ["anabranch", *sys.argv[1:]])
        found.append(outcome)
    return found


def _study(found: "Outcome", _: Path | None) -> None:
    (rule, *heads), rows = found.in_cells()
    table = tables.new_table(rule, right=heads)
    for row in rows:
        table.add_row(*row)
    count = len(found.seeds)
    seeds = "one seed" if count == 1 else f"mean ± 95 % interval over {count} seeds"
    heading = f"{found.suite.name}: {found.suite.entries.title}, on {found.backend}, {seeds}"
    tables.STDOUT.print(heading, "", table, "", found.verdict, "", sep="\n", soft_wrap=False)


def _list(studies: "list[Suite]", as_json: bool) -> None:
    if as_json:
        tables.print_json(
            [
                {
                    "study": one.name,
                    "title": one.entries.title,
                    "question": one.entries.question,
                    "on": list(one.entries.on),
                    "sources": [vars(source) for source in one.entries.sources],
                    "not_modelled": [lack.text for lack in one.entries.not_modelled],
                }
                for one in studies
            ]
        )
        return
    table = tables.new_table("study", "question", "on", "sources")
    for one in studies:
        sources = "\n".join(f"{source.work} ({source.year})" for source in one.entries.sources)
        table.add_row(one.name, one.entries.question, ", ".join(one.entries.on), sources)
    tables.STDOUT.print(table)


def _judgement(found: "Outcome", place: Path | None) -> None:
    from anabranch.experiments.counterexample import again_command
    from anabranch.experiments.report import COUNTEREXAMPLES

    assert found.subject is not None
    table = tables.new_table("", "result", "item: what was found")
    for one in found.answers:
        says = one.says + (f" ({one.state})" if one.state else "")
        where = "" if one.item.section in ("0", "theory") else one.item.section
        result = one.result if one in found.counted else f"({one.result})"
        table.add_row(where, result, f"{one.item.title}: {says}")
    form = ", quick form" if found.quick else ""
    looks = ", ".join(map(str, found.looks))
    heading = f"{found.subject.name}, RFC {found.suite.entries.rfc}, {looks} seeds{form}"
    tables.STDOUT.print(heading, "", table, "", found.in_words, sep="\n", soft_wrap=False)
    files = [one.name for one in found.answers if one.counterexample]
    if files and place:
        command = again_command(found.subject, place / COUNTEREXAMPLES / f"{files[0]}.toml")
        tables.STDOUT.print(f"A counterexample again: {command}")
    elif files:
        tables.STDOUT.print("With --out DIR each counterexample is a scenario that runs again.")


def _again(rule: str, file: Path, as_json: bool) -> None:
    from anabranch.experiments.counterexample import again

    numbers = again(rule, file)
    if as_json:
        tables.print_json([one.as_dict() for one in numbers])
    else:
        table = tables.new_table("measure", "number and bound", "result")
        for one in numbers:
            words = "within" if one.margin >= 1 else "beyond"
            table.add_row(one.measure.label, one.in_words, words)
        tables.STDOUT.print(table)
    if any(one.margin < 1 for one in numbers):
        raise typer.Exit(FAILED)


def _harm(found: "Outcome", form: str) -> None:
    import pandas as pd

    from anabranch.experiments.report import harm_table

    heads, rows, harmed = harm_table(found)
    if form == "latex":
        print(latex_table(pd.DataFrame(rows, columns=heads)))
        return
    table = tables.new_table(*heads)
    bold = []
    for row in rows:
        failing = [row[0] in harmed[rule] for rule in found.rules]
        cells = list(zip(row[2:], failing, strict=True))
        table.add_row(*row[:2], *(Text(cell, "red" if fails else "") for cell, fails in cells))
        bold.append([*row[:2], *(f"**{cell}**" if fails else cell for cell, fails in cells)])
    if form == "markdown":
        print(*markdown_table(heads, bold), sep="\n")
    else:
        tables.STDOUT.print(table)
    over = "one seed" if len(found.seeds) == 1 else f"{len(found.seeds)} seeds"
    said = ", ".join(f"{name} {len(cases)}" for name, cases in harmed.items())
    unsure = {name: sum(one.rule == name for one in found.of("undecided")) for name in harmed}
    counts = ", ".join(f"{name} {count}" for name, count in unsure.items())
    undecided = f"Undecided (?) by {over}: {counts}; more seeds decide more."
    tables.STDOUT.print(
        f"\nGoodput in Mbps, and relative to the best single path, with Reno; means over "
        f"{over}. Cells of {len(rows)} below 0.95: {said}. "
        f"{undecided if any(unsure.values()) else 'No cell is undecided.'}",
        soft_wrap=True,
    )
