"""`anabranch theory check`, `statements` and `map`: guarantees of rules, and trade-offs."""

import json
from pathlib import Path
from typing import Annotated

import typer

from anabranch.cli import tables
from anabranch.cli.notes import note
from anabranch.cli.options import Force, Json, Record, only_names, out_option
from anabranch.files import refuse_full, staged
from anabranch.scenario import ScenarioError


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
    from anabranch.cli.theory import guarantees_tables
    from anabranch.theory.guarantees import check

    if every == (rule is not None):
        raise ScenarioError("theory check: expected either a RULE, such as lia, or --all")
    numbers = check.PATHS if paths is None else [paths]
    if rule is not None:
        only_names(rule, "theory check")
        with tables.progress(f"theory check {rule}"):
            found = check.check(rule, numbers, rtt_ratio)
        tables.answer(found, as_json, guarantees_tables.guarantees)
    else:
        with tables.progress("theory check") as progress:
            survey = check.check_all(numbers, rtt_ratio, progress)
        tables.answer(survey, as_json, guarantees_tables.survey)


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

    from anabranch.theory.statement import counted
    from anabranch.theory.statement import record as recorded
    from anabranch.theory.statements import PAPERS, statements_of

    papers = list(PAPERS) if paper == "all" else [paper]
    found = {}
    for name in papers:
        with tables.progress(f"anabranch theory statements {name}") as progress:
            found[name] = statements_of(name, progress, quick)
    if record:
        record.write_text(recorded(found), encoding="utf-8")
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
    from anabranch.cli.theory import guarantees_tables
    from anabranch.figures import design_map as figure
    from anabranch.figures import style
    from anabranch.theory.guarantees import design_map

    if not force:
        refuse_full(out)
    with staged(out) as stage:
        with tables.progress("theory map") as progress:
            found = design_map.design_map(progress)
        style.save(figure.draw(found), stage / "map")
        (stage / "map.json").write_text(json.dumps(found.as_dict(), allow_nan=False) + "\n")
    tables.answer(found, as_json, guarantees_tables.rules_on_map)
    note(f"The map is {out / 'map.png'}")
