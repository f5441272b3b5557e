"""`anabranch study`, `judge`, `harm`, `reproduce`, `agree`: experiments, as tables and files."""

import sys
from collections.abc import Callable, Sequence
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
from anabranch.cli.tables import STDOUT, Grid, new_table
from anabranch.files import output, refuse_full
from anabranch.formats import latex_rows
from anabranch.record import check as check_record
from anabranch.record import update
from anabranch.scenario import ScenarioError, rules

if TYPE_CHECKING:
    from anabranch.experiments.outcome import Outcome
    from anabranch.experiments.suite import Suite
    from anabranch.papers.agreement import Agreement
    from anabranch.papers.report import Report, Score, Summary

FAILED, UNDECIDED = 1, 3
"""Exit codes: an item fails, or a run has failed; an item of the RFC is undecided (--strict)."""

Quick = Annotated[bool, typer.Option("--quick", help="Fewer cases and seeds, shorter runs.")]
On = Annotated[
    str, typer.Option("--on", metavar="BACKEND", help="sim, quic, fluid, or kernel (as root).")
]
Out = Annotated[Path | None, out_option("Write report, data and manifest to DIR.")]
Seeds = Annotated[Any, looks_option()]
Latex = Annotated[bool, typer.Option("--latex", help="Print the tables for LaTeX.")]

# Suites are imported where they are used, because pandas and Matplotlib are slow to load.


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("study")(study_command)
    app.command("judge")(judge_command)
    app.command("harm")(harm_command)
    app.command("reproduce")(reproduce_command)
    app.command("agree")(agree_command)


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
            metavar="A,B,...",
            help="The rules to compare, also FILE.py:CLASS, FILE.so:NAME. Default: all.",
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
            metavar="RULE",
            help="An algorithm, such as balia:cap=inf, or FILE.py:CLASS, FILE.so:NAME.",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Judge every rule of the table.")] = False,
    quick: Quick = False,
    suite: Annotated[
        str, typer.Option(metavar="NAME", help="rfc9743, or controller: numbers of standards.")
    ] = "rfc9743",
    family: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="What it implements: reno, cubic, bbr. Default: by name."
        ),
    ] = None,
    on: On = "sim",
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

    The thresholds are in judge/judge*.toml, each with its reason. --suite controller asks for the
    numbers that standards give, in judge/controller. The exit code is 1 if an item
    fails, 2 for a rule that cannot run.

    Examples:

        anabranch judge lia --quick

        anabranch judge examples/my_rule.py:Gentle --quick --out results/gentle

        anabranch judge olia --items 7.10

        anabranch judge lia --again results/lia/counterexamples/shared.toml

        anabranch judge --all --quick --store results/judged

        anabranch judge ./libmine.so:mine --suite controller --family cubic
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
    how |= {"suite": suite, "family": family, "on": on}
    one = partial(judge, items=asked, store=store, **how)
    chosen = [row["studied_as"] for row in rules()] if every else [str(rule)]
    places = {name: out / name if out and every else out for name in chosen}
    found = _each("judge", places, one, store, force, as_json, _judgement, alone=not every)
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
    latex: Latex = False,
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
    how = (store, force, as_json, lambda found, _: _harm(found, latex), True)
    _each("harm", {"": out}, lambda _, **progress: one(**progress), *how)


def reproduce_command(
    paper: Annotated[
        str, typer.Argument(metavar="PAPER", help="A folder of papers/, such as olia, or all.")
    ],
    quick: Quick = False,
    out: Out = None,
    force: Force = False,
    as_json: Json = False,
    latex: Latex = False,
    jobs: Jobs = None,
    store: Store = None,
    record: Record = None,
) -> None:
    """Reproduce a paper: published, measured and theoretical numbers, and a verdict on each claim.

    Exits with 1 if a claim fails and no reason for it is recorded (`not_reproduced`).

    Examples:

        anabranch reproduce olia --quick --out results/olia

        anabranch reproduce olia --latex > olia.tex

        anabranch reproduce all --out results/papers --record papers.csv
    """
    from anabranch.papers import reproduce
    from anabranch.papers.report import Summary

    check_record(record, "paper", "claim")
    every = paper == "all"
    run = reproduce.reproduce_all if every else partial(reproduce.reproduce, paper)
    with tables.progress(f"reproduce {paper}") as progress:
        report: Report | Summary = run(quick, out, progress, force, store, jobs)
    if latex and not as_json:
        print(report.latex())
    else:
        tables.answer(report, as_json, _summary if every else _report)
    if out:
        note(f"The report is in {out / ('index.html' if every else 'report.html')}")
    if record:
        written = report if isinstance(report, Summary) else Summary([report], report.command)
        update(record, written.record(), names=2, whole=1, anew=every)
    if report.failed:
        raise typer.Exit(FAILED)


def agree_command(
    paper: Annotated[str, typer.Argument(metavar="PAPER", help="A folder of papers/.")],
    on: Annotated[
        str,
        typer.Option(
            "--on", metavar="A,B,...", help="Backends; the others are compared with the first."
        ),
    ] = "sim,equilibrium",
    jobs: Jobs = None,
    out: Annotated[Path | None, out_option("Write agreement.md and .json to DIR.")] = None,
    force: Force = False,
    beside: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The agreement.json of an earlier run, whose columns are added."
        ),
    ] = None,
    settings: Set = None,
    store: Store = None,
    record: Record = None,
    as_json: Json = False,
) -> None:
    """Run some of a paper's cases on several backends: do they agree?

    Example:

        anabranch agree olia --on sim,equilibrium,kernel --out results/olia-agreement

        anabranch agree olia --on sim,equilibrium --beside results/olia-kernel/agreement.json
    """
    from anabranch.papers import agreement

    with tables.progress(f"agree {paper}") as progress:
        values, backends = overrides(settings), names(on, "--on")
        how = (out, jobs, progress, beside, values, force, store)
        agreed = agreement.agree(paper, backends, *how)
    if record:
        record.write_text(agreed.record(), encoding="utf-8")
    tables.answer(agreed, as_json, _agreement)


def _each(
    command: str,
    places: dict[str, Path | None],
    run: Callable[..., "Outcome"],
    store: Path | None,
    force: bool,
    as_json: bool,
    show: "Callable[[Outcome, Path | None], None]",
    alone: bool = False,
) -> "list[Outcome]":
    """Run one after the other; each is printed and its directory complete before the next one.

    `alone`: whether the document of --json is the only one's, and no list.
    """
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
        late = "packets were too late to count; see docs/reference/lab.md"
        for label in outcome.late:
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
    if as_json:
        documents = [outcome.as_dict() for outcome in found]
        tables.print_json(documents[0] if alone else documents)
    return found


def _study(found: "Outcome", _: Path | None) -> None:
    (rule, *heads), rows = found.in_cells()
    table = new_table(rule, right=heads, rows=rows)
    several = "mean ± 95 % interval over " if len(found.seeds) > 1 else ""
    what = f"{found.suite.entries.title}, on {found.backend}"
    heading = f"{found.suite.name}: {what}, {several}{found.over}"
    STDOUT.print(heading, "", table, "", found.verdict, "", sep="\n", soft_wrap=False)


def _list(studies: "list[Suite]", as_json: bool) -> None:
    if as_json:
        named = [{"study": one.name, "on": list(one.entries.on)} for one in studies]
        pairs = zip(named, studies, strict=True)
        tables.print_json([name | one.entries.as_dict() for name, one in pairs])
        return
    table = new_table("study", "question", "on", "sources")
    for one in studies:
        sources = "\n".join(f"{source.work} ({source.year})" for source in one.entries.sources)
        table.add_row(one.name, one.entries.question, ", ".join(one.entries.on), sources)
    STDOUT.print(table)


def _judgement(found: "Outcome", place: Path | None) -> None:
    from anabranch.experiments.counterexample import again_command
    from anabranch.experiments.report import COUNTEREXAMPLES

    assert found.subject is not None
    table = new_table("", "result", "item: what was found")
    for one in found.answers:
        says = one.says + (f" ({one.state})" if one.state else "")
        where = "" if one.item.section in ("0", "theory") else one.item.section
        result = one.result if one in found.counted else f"({one.result})"
        table.add_row(where, result, f"{one.item.title}: {says}")
    looks = ", ".join(map(str, found.looks))
    where = f", on {found.backend}" if found.backend != "sim" else ""
    heading = f"{found.subject.name}, {found.suite.entries.name}{where}, {looks} seeds{found.form}"
    STDOUT.print(heading, "", table, "", found.in_words, sep="\n", soft_wrap=False)
    files = [one.name for one in found.answers if one.counterexample]
    if files and place:
        command = again_command(found.subject, place / COUNTEREXAMPLES / f"{files[0]}.toml")
        STDOUT.print(f"A counterexample again: {command}")
    elif files:
        STDOUT.print("With --out DIR each counterexample is a scenario that runs again.")


def _again(rule: str, file: Path, as_json: bool) -> None:
    from anabranch.experiments.counterexample import again

    numbers = again(rule, file)
    if as_json:
        tables.print_json([one.as_dict() for one in numbers])
    else:
        said = {True: "within", False: "beyond"}
        rows = [(one.measure.label, one.in_words, said[one.margin >= 1]) for one in numbers]
        STDOUT.print(new_table("measure", "number and bound", "result", rows=rows))
    if any(one.margin < 1 for one in numbers):
        raise typer.Exit(FAILED)


def _harm(found: "Outcome", latex: bool) -> None:
    from anabranch.experiments.report import harm_table

    heads, rows = harm_table(found)
    if latex:
        print(latex_rows(heads, rows))
        return
    failed = {(number.network.label, o.rule) for o in found.of("fails") for number in o.numbers}
    table = new_table(*heads)
    for case, best, *cells in rows:
        styles = ["red" if (case, rule) in failed else "" for rule in found.rules]
        table.add_row(case, best, *map(Text, cells, styles))
    STDOUT.print(table)

    def counts(result: str) -> str:
        whose = [one.rule for one in found.of(result)]
        return ", ".join(f"{rule} {whose.count(rule)}" for rule in found.rules)

    undecided = f"Undecided (?) by {found.over}: {counts('undecided')}; more seeds decide more."
    STDOUT.print(
        f"\nGoodput in Mbps, and relative to the best single path, with Reno; means over "
        f"{found.over}. Cells of {len(rows)} below 0.95: {counts('fails')}. "
        f"{undecided if found.of('undecided') else 'No cell is undecided.'}",
        soft_wrap=True,
    )


STYLES = {
    "holds": "green",
    "undecided": "yellow",
    "fails": "bold red",
    "not reproduced": "yellow",
    "not comparable": "dim",
    "needs human judgement": "dim",
}


def _report(report: "Report") -> None:
    """A paper's scores, and the claims that do not hold with the reasons."""
    STDOUT.print(Text(f"{report.title} ({report.source})", style="bold"))
    scores = [*((item.title, item.score) for item in report.scored), ("all", report.score)]
    STDOUT.print("", _scores(scores), "", sep="\n")
    table = new_table("claim", "verdict", "what was found")
    for claim in (claim for claim in report.claims if claim.verdict != "holds"):
        said = [f"Ours: {claim.text}" if claim.own else claim.text, claim.because]
        said += [f"Reason: {claim.reason}"] if claim.reason else []
        said += [f"Rests on: {', '.join(claim.rests_on)}"] if claim.rests_on else []
        verdict = Text(claim.verdict, style=STYLES[claim.verdict])
        table.add_row(claim.id, verdict, "\n".join(said), end_section=True)
    if table.rows:
        STDOUT.print(table, "", sep="\n")
    for name, choice in report.choices.items():
        holding = ", ".join(claim.id for claim in report.resting_on(name)) or "none"
        STDOUT.print(
            f"Chosen after results were seen ({choice.when}): {choice.text} "
            f"Claims that hold only so: {holding}. {choice.otherwise}\n"
        )
    if report.failed and report.command.endswith("--quick"):
        STDOUT.print("A claim that fails here may hold in full runs, without --quick.")
    STDOUT.print("All numbers and claims: in the report that --out writes.")


def _summary(summary: "Summary") -> None:
    """The score of each paper, and claims that fail."""
    scores = [*((one.name, one.score) for one in summary.reports), ("all", summary.score)]
    STDOUT.print(_scores(scores))
    for claim in summary.failed:
        STDOUT.print(Text(f"{claim.id} fails: {claim.text} {claim.because}", style="bold red"))
    STDOUT.print("\nEvery table and figure: in the report that --out writes.")


def _scores(named: "Sequence[tuple[str, Score]]") -> Grid:
    """Verdicts and near numbers, each after its name, without columns that are empty."""
    from anabranch.papers.report import COLUMNS

    columns = [*zip(*(score.cells for _, score in named), strict=True)]
    kept = [i for i, column in enumerate(columns) if any(column)]
    table = new_table("", right=[COLUMNS[i] for i in kept])
    for name, score in named:
        cells = [Text(score.cells[i], STYLES.get(COLUMNS[i], "")) for i in kept]
        table.add_row(Text(name), *cells, end_section=len(table.rows) == len(named) - 2)
    return table


def _agreement(agreement: "Agreement") -> None:
    """A table per metric: the numbers of each backend."""
    for (first, *others), rows in agreement.tables():
        STDOUT.print(new_table(first, right=others, rows=rows))
