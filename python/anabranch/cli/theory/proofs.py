"""`anabranch theory prove`: what a rule guarantees at all states, decided by two solvers."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

import typer

from anabranch.cli import tables
from anabranch.cli.options import Json, Record, names
from anabranch.scenario import ScenarioError

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
    from anabranch.cli.theory import proofs_tables
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
    with tables.progress(f"theory prove {rule or '--all'}") as progress:
        if rule is not None:
            one = verdicts.prove(rule, numbers, kinds, chosen, timeout, progress)
            found = verdicts.Survey([one])
        else:
            found = verdicts.prove_all(numbers, kinds, chosen, timeout, progress)
    if record:
        record.write_text(verdicts.record(found), encoding="utf-8")
    if rule is not None:
        tables.answer(one, as_json, proofs_tables.proofs)
    else:
        tables.answer(found, as_json, proofs_tables.all_proofs)


def _papers(papers: list[str], timeout: float, record: Path | None, as_json: bool) -> None:
    """The statements of papers."""
    from anabranch.cli.theory import proofs_tables
    from anabranch.statements import proofs as papers_proofs

    with tables.progress("theory prove --paper") as progress:
        found = papers_proofs.prove_papers(papers, timeout, progress)
    if record:
        record.write_text(papers_proofs.record(found), encoding="utf-8")
    tables.answer(found, as_json, proofs_tables.papers)
