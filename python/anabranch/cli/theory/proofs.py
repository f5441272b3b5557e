"""`anabranch theory prove`: what a rule guarantees at all states, decided by two solvers."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.text import Text

from anabranch.cli import tables
from anabranch.cli.options import Json, Record, names
from anabranch.cli.tables import STDOUT, new_table
from anabranch.record import check as check_record
from anabranch.record import update
from anabranch.scenario import ScenarioError

if TYPE_CHECKING:
    from anabranch.statements.proofs import PaperProofs
    from anabranch.theory.guarantees.proofs.verdicts import Proofs, Survey, Verdict

SOLVERS = ("z3", "cvc5", "sympy")
"""Modules of the extra `prove`."""


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command("prove")(prove_command)


def prove_command(
    rule: Annotated[
        str | None,
        typer.Argument(metavar="RULE", help="An algorithm, such as lia, or FILE.py:CLASS."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All algorithms.")] = False,
    paths: Annotated[
        str, typer.Option(metavar="N,...", help="Numbers of paths of a user, 2 to 4.")
    ] = "2,3",
    rtts: Annotated[
        Literal["equal", "any", "both"],
        typer.Option(help="RTTs of a user's paths: the same, any, or both in turn."),
    ] = "both",
    only: Annotated[
        str | None,
        typer.Option(metavar="C,...", help="Requirements, such as C1,C2. Default: all."),
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.1, metavar="S", help="Time for each solver and formula, s.")
    ] = 10.0,
    paper: Annotated[
        str | None,
        typer.Option(metavar="P,...", help="Statements of balia, wvegas, itcp or rsf."),
    ] = None,
    record: Record = None,
    as_json: Json = False,
) -> None:
    """Prove Balia's conditions and RFC 6356's goals of a rule, or refute them.

    Each requirement is a formula over the reals, made from the code of the rule, which z3 and cvc5
    decide independently. A refutation is a state of rational numbers, which the numerical model
    confirms. Needs the extra "prove": pip install "anabranch[prove]".

    Examples:

        anabranch theory prove lia

        anabranch theory prove examples/my_rule.py:Gentle --paths 2 --only best,harm

        anabranch theory prove --all --timeout 5 --json

        anabranch theory prove --paper balia
    """
    missing = [name for name in SOLVERS if find_spec(name) is None]
    if missing:
        raise ScenarioError(
            f'theory prove needs {", ".join(missing)}: pip install "anabranch[prove]"'
        )
    from anabranch.theory.guarantees.proofs import verdicts
    from anabranch.theory.guarantees.proofs.queries import REQUIREMENTS

    if (rule is not None) + every + bool(paper) != 1:
        raise ScenarioError("theory prove: expected a RULE, such as lia, or --all, or --paper")
    if paper:
        _papers(names(paper, "--paper"), timeout, record, as_json)
        return
    chosen = list(REQUIREMENTS) if only is None else names(only, "--only")
    if unknown := [name for name in chosen if name not in REQUIREMENTS]:
        raise ScenarioError(f"--only {unknown[0]}: expected some of {', '.join(REQUIREMENTS)}")
    numbers = [int(text) for text in names(paths, "--paths") if text in ("2", "3", "4")]
    if len(numbers) != len(names(paths, "--paths")):
        raise ScenarioError(f"--paths {paths}: expected numbers from 2 to 4, as in 2,3")
    kinds = {"equal": [True], "any": [False], "both": [True, False]}[rtts]
    check_record(record, "rule", "requirement")
    with tables.progress(f"theory prove {rule or '--all'}") as progress:
        if rule is not None:
            one = verdicts.prove(rule, numbers, kinds, chosen, timeout, progress)
            found = verdicts.Survey([one])
        else:
            found = verdicts.prove_all(numbers, kinds, chosen, timeout, progress)
    if record:
        update(record, verdicts.record(found), names=2, whole=2, anew=every and only is None)
    if rule is not None:
        tables.answer(one, as_json, show_proofs)
    else:
        tables.answer(found, as_json, show_survey)


def _papers(papers: list[str], timeout: float, record: Path | None, as_json: bool) -> None:
    """The statements of papers."""
    from anabranch.statements import proofs as papers_proofs

    check_record(record, "paper", "place")
    with tables.progress("theory prove --paper") as progress:
        found = papers_proofs.prove_papers(papers, timeout, progress)
    if record:
        update(record, papers_proofs.record(found), names=2, whole=1)
    tables.answer(found, as_json, show_papers)


# Proofs on the terminal.


COLOURS = {"proved": "green", "refuted": "red"}


def show_survey(found: "Survey") -> None:
    """Each rule in turn."""
    for number, one in enumerate(found.rules):
        if number:
            STDOUT.print("")
        show_proofs(one)


def show_proofs(found: "Proofs") -> None:
    """A row for each requirement, a column for each setting; refutations below."""
    from anabranch.theory.guarantees.proofs.queries import REQUIREMENTS
    from anabranch.theory.guarantees.proofs.verdicts import PROVED

    if found.note:
        _print(f"{found.rule}: not applicable. It {found.note}.")
        return
    _print(f"{found.rule}, for each solver and formula at most {found.timeout_s:g} s\n")
    by = {(v.requirement, v.setting): v for v in found.verdicts}
    settings = list(dict.fromkeys(v.setting for v in found.verdicts))
    chosen = list(dict.fromkeys(v.requirement for v in found.verdicts))
    grid = new_table("", *settings)
    for name in chosen:
        grid.add_row(name, *(_cell(by[name, setting]) for setting in settings))
    STDOUT.print(grid)
    _print("")
    for name in chosen:
        _print(f"{name:4} {REQUIREMENTS[name][0]}")
    for verdict in found.verdicts:
        if verdict.result != PROVED:
            _print("")
            for line in lines(verdict):
                _print(line)


def show_papers(found: "PaperProofs") -> None:
    """Each statement as printed, with its formulas below it."""
    from anabranch.statements.proofs import words

    for one in found.proofs:
        _print(f'{one.paper}, {one.place}: "{one.printed}"')
        for part in one.parts:
            _print(f"  {words(part)} ({part.seconds:.2f} s)")
            _print(f"    {part.formula}")
        if one.left:
            _print(f"  Not in the formulas: {one.left}.")
        _print("")


def lines(verdict: "Verdict") -> list[str]:
    """Requirements that are not proved, and at which numbers."""
    found = [f"{verdict.requirement}, {verdict.setting}: {verdict.result}. {verdict.why}"]
    if verdict.state:
        found.append(f"  {verdict.state}")
    if verdict.confirmation:
        seen = "" if verdict.confirmation.seen else "NOT confirmed: "
        found.append(f"  numerically: {seen}{verdict.confirmation.words}")
        if trajectory := verdict.confirmation.trajectory:
            found.append(f"  fluid model: {trajectory.says}")
            for time, rates in zip(trajectory.time_s, trajectory.rate, strict=True):
                numbers = ", ".join(f"{rate:.5g}" for rate in rates)
                found.append(f"    {time:10.4g} s  [{numbers}], in total {sum(rates):.5g}")
    return found


def _print(line: str) -> None:
    STDOUT.print(line, soft_wrap=True)


def _cell(verdict: "Verdict") -> Text:
    alone = "".join(f", {n} by {name} only" for name, n in verdict.alone.items())
    words = f"{verdict.result} ({verdict.seconds:.2f} s{alone})"
    return Text(words, COLOURS.get(verdict.result, ""))
