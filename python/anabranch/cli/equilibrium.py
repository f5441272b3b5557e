"""`anabranch theory equilibrium` and `packets`."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from anabranch.cli import tables
from anabranch.cli.options import File, Json, Set, overrides
from anabranch.files import staged
from anabranch.scenario import load

# Theory and Matplotlib are imported where they are used, because they are slow to load.


def equilibrium(
    file: File,
    algorithm: Annotated[
        str | None,
        typer.Option(
            "--algorithm",
            "-a",
            metavar="A",
            help="The algorithm of flows without one of their own. Default: the scenario's.",
        ),
    ] = None,
    set_: Set = None,
    as_json: Json = False,
) -> None:
    """Find the equilibrium of a scenario: windows and queues that do not change.

    All its flows are present.

    Exits with 1 if no equilibrium is found, with the residual.

    Examples:

        anabranch theory equilibrium examples/two_links.toml

        anabranch theory equilibrium examples/two_links.toml --algorithm olia --json

        anabranch theory equilibrium examples/two_links.toml --set links.left.rate_mbps=30
    """
    from anabranch.cli.equilibrium_tables import show_equilibrium
    from anabranch.theory.fluid.equilibrium import equilibrium
    from anabranch.theory.network import Network

    network = Network.of(load(file, overrides(set_)), algorithm)
    tables.answer(equilibrium(network), as_json, show_equilibrium)


def packets(
    quick: Annotated[bool, typer.Option("--quick", help="Three scenarios, shorter runs.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write tables (Parquet) and figure to DIR.")
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Put the table between its markers, and the figure in img/."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Theory meets packets: compare the simulator's shares with the fluid equilibrium's.

    Every loss-based rule in twelve generated scenarios (2 to 6 links, 2 to 20 flows, RTTs of 10 to
    300 ms, low loss). Exits with 1 if a scenario is outside its band.

    Examples:

        anabranch theory packets --quick

        anabranch theory packets --out results/packets --page docs/theory-meets-packets.md
    """
    from anabranch.cli.equilibrium_tables import show_packets
    from anabranch.figures import packets as figure
    from anabranch.files import put_section, section
    from anabranch.theory.fluid import against_packets

    command = "anabranch theory packets"
    if page:
        section(page, command)  # a page without markers fails early
    with staged(out) if out else nullcontext() as stage:
        with tables.progress() as progress:
            found = against_packets.compare(quick, progress)
        if stage:
            against_packets.write(found, stage)
            figure.write(found, stage)
    if page:
        put_section(page, command, against_packets.markdown(found))
        figure.write(found, page.parent / "img")
    tables.answer(found, as_json, show_packets)
    if out:
        print(f"Tables and figure are in {out}", file=sys.stderr)
    if found.failed:
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Add these commands to `anabranch theory`."""
    app.command("equilibrium")(equilibrium)
    app.command("packets")(packets)
