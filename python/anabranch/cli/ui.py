"""`anabranch ui`."""

from pathlib import Path
from typing import Annotated

import typer

from anabranch.cli.notes import note
from anabranch.scenario import ScenarioError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("ui")(ui_command)


def ui_command(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="PATH",
            help="A scenario file, a directory that --out has written, a qlog file, or a directory "
            "of them. Default: the gallery.",
        ),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port on 127.0.0.1; 0: a free one.")
    ] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Runs at a time. Default: one per core.")
    ] = None,
) -> None:
    """Open a page on this machine: scenarios with sliders, runs while they compute, results, qlogs.

    Only who has the address with its token can use it. Ctrl-C ends it. Needs the extra `ui`.

    Examples:

        anabranch ui

        anabranch ui examples/two_links.toml

        anabranch ui results --port 8080 --no-browser
    """
    try:
        from anabranch.extras.ui.opened import open_path
        from anabranch.extras.ui.serve import serve
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        raise ScenarioError(
            f"{error.name} is not installed: pip install 'anabranch[ui]' installs it"
        ) from None
    opened = open_path(path)
    serve(opened, port, not no_browser, _say, workers)


def _say(address: str) -> None:
    print(address, flush=True)
    note("Ctrl-C ends the server.")
