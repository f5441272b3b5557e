"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated, Any

import typer

from anabranch.scenario import ScenarioError, Toml

File = Annotated[Path, typer.Argument(metavar="FILE", help="A scenario file (TOML).")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Replace a value of the scenario, such as links.left.rate_mbps=30. Repeatable.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Jobs = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="Runs at a time. Default: one per core; on the kernel, one."
    ),
]


def out_option(help: str) -> Any:
    """The option --out."""
    return typer.Option("--out", metavar="DIR", parser=_directory, help=help)


def _directory(text: str) -> Path:
    if not text:
        raise typer.BadParameter("expected a directory, got an empty name")
    return Path(text)


Force = Annotated[
    bool, typer.Option("--force", help="Write to a directory that has files; replace those.")
]
Probing = Annotated[
    bool, typer.Option("--probing", help="Every path carries at least one packet per RTT.")
]
RttMs = Annotated[
    float | None,
    typer.Option(
        "--rtt-ms", min=0.001, metavar="MS", help="The RTT of every path. Default: its base RTT."
    ),
]


def overrides(settings: list[str] | None) -> dict[str, Toml]:
    """Dotted keys to TOML text. Raises `ScenarioError` for what is not KEY=VALUE."""
    values = {}
    for setting in settings or []:
        key, equals, text = setting.partition("=")
        if not equals or not key:
            raise ScenarioError(
                f"--set {setting}: expected KEY=VALUE, as in links.left.rate_mbps=30"
            )
        values[key] = Toml(text)
    return values
