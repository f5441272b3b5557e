"""`anabranch abi`: what a C compiler needs for controllers of C programs and libraries."""

from pathlib import Path
from typing import Annotated

import typer

from anabranch.cli import tables
from anabranch.cli.options import Json
from anabranch.scenario import ScenarioError

FOLDER = Path(__file__).parents[1] / "_abi"
HEADER, LIBRARY = FOLDER / "anabranch.h", FOLDER / "libanabranch.a"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("abi")(abi_command)


def abi_command(
    include: Annotated[
        bool, typer.Option("--include", help="Print the folder of anabranch.h alone, for cc -I.")
    ] = False,
    header: Annotated[
        bool, typer.Option("--header", help="Print the path of anabranch.h alone.")
    ] = False,
    library: Annotated[
        bool, typer.Option("--library", help="Print the path of libanabranch.a alone.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print where anabranch.h and libanabranch.a are: controllers of yours here, ours in C.

    A controller that the header declares is a shared library, which run, compare, sweep, study and
    judge take as FILE.so:NAME. The static library has the rules of the table for programs in C.

    Examples:

        anabranch abi

        anabranch examples newreno.c > newreno.c

        cc -O2 -shared -fPIC -I "$(anabranch abi --include)" newreno.c -o libnewreno.so -lm

        anabranch judge ./libnewreno.so:newreno --suite controller

        cc -I "$(anabranch abi --include)" lia.c "$(anabranch abi --library)" -lm -lpthread -ldl
    """
    asked = {"--include": include, "--header": header, "--library": library, "--json": as_json}
    given = [name for name, is_given in asked.items() if is_given]
    if len(given) > 1:
        raise ScenarioError(f"{' and '.join(given)}: expected one of them")
    if library and not LIBRARY.exists():
        raise ScenarioError(
            f"{LIBRARY}: not there: a wheel has it; in a checkout `make anabranch` builds it"
        )
    paths = {"header": str(HEADER), "library": str(LIBRARY) if LIBRARY.exists() else None}
    if as_json:
        tables.print_json({**paths, "include": str(FOLDER)})
    elif given:
        print({"--include": FOLDER, "--header": HEADER, "--library": LIBRARY}[given[0]])
    else:
        for name, path in paths.items():
            print(f"{name:<8} {path or 'not there; in a checkout `make anabranch` builds it'}")
