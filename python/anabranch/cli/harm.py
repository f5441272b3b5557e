"""`anabranch harm`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from anabranch.cli import tables
from anabranch.cli.options import Jobs, Json, Set, algorithms, overrides, seeds_option
from anabranch.formats import latex_table, markdown_table

if TYPE_CHECKING:
    from anabranch.harm import Harm, Row


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command("harm")(harm_command)


def harm_command(
    algorithm: Annotated[
        str,
        typer.Option(
            "--algorithm", "-a", metavar="A,B,...", help="The rules to compare, also FILE.py:CLASS."
        ),
    ] = "lia,olia,balia",
    seeds: Annotated[Any, seeds_option()] = 3,
    on: Annotated[
        str, typer.Option("--on", metavar="BACKEND", help="sim, or kernel in real time (as root).")
    ] = "sim",
    quick: Annotated[
        bool, typer.Option("--quick", help="One network with every pair of losses.")
    ] = False,
    settings: Set = None,
    jobs: Jobs = None,
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
    from anabranch.harm import harm

    with tables.progress("harm") as progress:
        found = harm(
            algorithms(algorithm),
            seeds,
            on=on,
            set=overrides(settings),
            quick=quick,
            jobs=jobs,
            progress=progress,
        )
    tables.answer(found, as_json, _latex if latex else _markdown if markdown else _table)


def _table(found: "Harm") -> None:
    table = tables.new_table("network and loss", "best path", *found.algorithms)
    for row in found.rows:
        cells = (
            Text(_cell(row, name), "red" if row.harms(name) else "") for name in found.algorithms
        )
        table.add_row(row.cell, f"{row.best:.1f}", *cells)
    tables.STDOUT.print(table)
    _summary(found)


def _markdown(found: "Harm") -> None:
    rows = [
        [
            row.cell,
            f"{row.best:.1f}",
            *(
                f"**{_cell(row, name)}**" if row.harms(name) else _cell(row, name)
                for name in found.algorithms
            ),
        ]
        for row in found.rows
    ]
    header = ["network and loss", "best path", *found.algorithms]
    print(*markdown_table(header, rows), sep="\n")
    _summary(found)


def _latex(found: "Harm") -> None:
    import pandas as pd

    rows = [
        [row.cell, f"{row.best:.1f}", *(_cell(row, name) for name in found.algorithms)]
        for row in found.rows
    ]
    header = ["network and loss", "best path", *found.algorithms]
    print(latex_table(pd.DataFrame(rows, columns=header)))


def _cell(row: "Row", name: str) -> str:
    late = " (late)" if name in row.late else ""
    unsure = "?" if row.undecided(name) else ""
    return f"{row.goodput[name]:.1f}, {row.ratio(name):.2f}{unsure}{late}"


def _summary(found: "Harm") -> None:
    harmed = ", ".join(f"{name} {len(found.harmed(name))}" for name in found.algorithms)
    tables.STDOUT.print(
        f"\nGoodput in Mbps, and relative to the best single path, with Reno; means over "
        f"{found.seeds} seeds. Cells of {len(found.rows)} below 0.95, by the 95 % interval of the "
        f"paired differences: {harmed}. {_undecided(found)}",
        soft_wrap=True,
    )


def _undecided(found: "Harm") -> str:
    """The cells whose intervals have 0.95 in them, and what decides them."""
    open_cells = {name: found.undecided(name) for name in found.algorithms}
    if not any(open_cells.values()):
        return "No cell is undecided."
    counts = ", ".join(f"{name} {len(rows)}" for name, rows in open_cells.items())
    if found.seeds == 1:
        return f"Undecided (?), because one seed has no interval: {counts}."
    return f"Undecided (?) by {found.seeds} seeds: {counts}; more seeds decide more."
