"""`anabranch theory bounds`: what a rule gives in the kernel's arithmetic, for all inputs."""

from typing import Annotated

import typer

from anabranch.cli import tables
from anabranch.cli.options import Json, Record, names
from anabranch.cli.tables import STDOUT, new_table
from anabranch.scenario import ScenarioError
from anabranch.theory.guarantees.bounds import survey
from anabranch.theory.guarantees.bounds.rule_bounds import TIMEOUT_S
from anabranch.theory.guarantees.bounds.states import MOST_PATHS


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command("bounds")(bounds_command)


def bounds_command(
    rule: Annotated[
        str | None,
        typer.Argument(metavar="RULE", help="An algorithm, such as lia, or FILE.py:CLASS."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All algorithms.")] = False,
    paths: Annotated[
        str | None,
        typer.Option(metavar="N,...", help=f"Numbers of paths. Default: 1 to {MOST_PATHS}."),
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.1, metavar="S", help="Time for a rule and number of paths, s.")
    ] = TIMEOUT_S,
    record: Record = None,
    as_json: Json = False,
) -> None:
    """Bound what a rule gives in the soft floats of the kernel, for all states of a connection.

    The rule's code is evaluated in numbers that hold every value that soft floats may give: windows
    of 1 to 2^32 packets, RTTs of 1/8 us to 537 s, any losses. No divisor may be 0 and no result
    beyond the format; a loss must leave a part of the window. Rounding errors, of 1e-8 at most, are
    in --json only.

    Examples:

        anabranch theory bounds lia

        anabranch theory bounds examples/my_rule.py:Gentle --paths 1,2

        anabranch theory bounds --all --json
    """
    if (rule is not None) + every != 1:
        raise ScenarioError("theory bounds: expected a RULE, such as lia, or --all")
    numbers = list(survey.PATHS) if paths is None else _numbers(paths)
    specs = survey.every_rule() if rule is None else [rule]
    with tables.progress(f"theory bounds {rule or '--all'}") as progress:
        found = survey.bounds_of(specs, numbers, timeout, progress)
    if record:
        record.write_text(survey.record(found), encoding="utf-8")
    tables.answer(found, as_json, _in_words)


def _numbers(paths: str) -> list[int]:
    given = names(paths, "--paths")
    known = {str(number): number for number in survey.PATHS}
    if unknown := [text for text in given if text not in known]:
        raise ScenarioError(f"--paths {unknown[0]}: expected numbers from 1 to {MOST_PATHS}")
    return [known[text] for text in given]


def _in_words(found: survey.Survey) -> None:
    """A table of the rules with an increase, one of the delay-based ones; failures below."""
    kinds = ((False, survey.COLUMNS), (True, survey.DELAY_BASED_COLUMNS))
    for per_round, columns in kinds:
        grid = new_table(*columns)
        rows = list(survey.rows(found, per_round))
        for row in rows:
            grid.add_row(*row)
        if rows:
            STDOUT.print(grid)
    for line in survey.failures(found):
        STDOUT.print(f"not shown: {line}", soft_wrap=True)
