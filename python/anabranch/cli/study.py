"""`anabranch study`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch.cli import tables
from anabranch.cli.notes import can_resume, note, warn
from anabranch.cli.options import Force, Jobs, Json, Record, algorithms, out_option
from anabranch.files import output, refuse_full
from anabranch.record import check as check_record
from anabranch.record import update
from anabranch.scenario import ScenarioError

if TYPE_CHECKING:
    from anabranch.rule import Rule
    from anabranch.study.entries import Study
    from anabranch.study.outcome import Outcome

FAILED = 1
"""Exit code when a run has failed."""

# Studies are imported where they are used, because pandas and Matplotlib are slow to load.


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command("study")(study_command)


def study_command(
    study: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME...", help="Studies of studies/, or `list` to list them."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Run every study.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer seeds, shorter runs.")] = False,
    rules: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...", help="The rules to compare, also FILE.py:CLASS. Default: every one."
        ),
    ] = None,
    on: Annotated[
        str,
        typer.Option("--on", metavar="BACKEND", help="sim, quic, fluid, or kernel (as root)."),
    ] = "sim",
    jobs: Jobs = None,
    out: Annotated[
        Path | None, out_option("Write table, numbers, figure and manifest to DIR/NAME.")
    ] = None,
    force: Force = False,
    store: Annotated[
        Path | None,
        out_option("Keep each run here; the same command resumes a study.", "--store"),
    ] = None,
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
    from anabranch.study.folder import known_studies, open_study
    from anabranch.study.runs import check_backend

    chosen = known_studies() if every else list(dict.fromkeys(study or []))
    if study and every:
        raise ScenarioError(f"--all and {' '.join(study)}: expected one of the two")
    if not chosen:
        raise ScenarioError(f"no study: expected list, --all, or {', '.join(known_studies())}")
    if chosen == ["list"]:
        _list([open_study(name) for name in known_studies()], as_json)
        return
    check_record(record, "study", "measure", "case")
    opened = [open_study(name) for name in chosen]
    check_backend(opened, on)
    if store:
        can_resume(f"{store} has the runs that are done; run the same command to resume")
    wanted = algorithms(rules, "--rules") if rules is not None else None
    how: dict[str, Any] = {"on": on, "quick": quick, "jobs": jobs}
    for one in opened if out and not force else []:
        refuse_full(Path(str(out), one.name))
    found = [_run(one, wanted, store, how, out, force, as_json) for one in opened]
    if as_json:
        tables.print_json([outcome.as_dict() for outcome in found])
    if out:
        note(f"Tables and figures are in {out}")
    if record:
        anew = every and rules is None
        from anabranch.study.report import record as recorded

        update(
            record, recorded([outcome.as_dict() for outcome in found]), names=3, whole=1, anew=anew
        )
    failed = sum(len(outcome.failures) for outcome in found)
    if failed:
        note(f"anabranch: {failed} runs failed")
        raise typer.Exit(FAILED)


def _run(
    one: "Study",
    rules: "list[str | Rule] | None",
    store: Path | None,
    how: dict[str, Any],
    out: Path | None,
    force: bool,
    as_json: bool,
) -> "Outcome":
    """Run a study, print it and write its directory, which is complete before the next one runs."""
    from anabranch.study.outcome import study
    from anabranch.study.report import write

    with tables.progress(f"study {one.name}") as progress:
        kept = store / one.name if store else None
        found = study(one.name, rules, store=kept, progress=progress, **how)
    for run, reason in found.failures.items():
        warn(f"{one.name}: {run}: {reason}")
    for run in found.late:
        warn(f"{one.name}: {run}: packets were too late to count; see docs/reference/lab.md")
    if not as_json:
        _table(found)
    with output(out / one.name if out else None, force) as stage:
        if stage:
            write(found, stage, ["anabranch", *sys.argv[1:]])
    return found


def _table(found: "Outcome") -> None:
    entries = found.study.entries
    (rule, *heads), rows = found.in_words()
    table = tables.new_table(rule, right=heads)
    for row in rows:
        table.add_row(*row)
    count = len(found.seeds)
    seeds = "one seed" if count == 1 else f"mean ± 95 % interval over {count} seeds"
    heading = f"{found.study.name}: {entries.title}, on {found.backend}, {seeds}"
    tables.STDOUT.print(heading, "", table, "", found.verdict, "", sep="\n", soft_wrap=False)


def _list(studies: "list[Study]", as_json: bool) -> None:
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
