"""`anabranch init` and `anabranch examples`: scenarios to start from."""

import tomllib
from pathlib import Path
from typing import Annotated

import typer

from anabranch.cli import tables
from anabranch.cli.notes import note
from anabranch.scenario import ScenarioError, expected_one_of

PACKAGE = Path(__file__).parents[1]
_FOLDER = PACKAGE / "examples"
EXAMPLES = {
    str(file.relative_to(_FOLDER)): file
    for file in sorted([*_FOLDER.glob("*.*"), *_FOLDER.glob("abi/*.c")])
}
"""The files of examples/, by name; controllers in C in its folder abi."""
TEMPLATES = {file.stem: file for file in sorted((PACKAGE / "templates").glob("*.toml"))}
"""Files that `init` writes, by name."""
DEFAULT = "two-paths"

Force = Annotated[bool, typer.Option("--force", help="Replace files that are there.")]


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("init")(init_command)
    app.command("examples")(examples_command)


def init_command(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="What to write; - for stdout.")
    ] = Path("scenario.toml"),
    template: Annotated[
        str, typer.Option("--template", "-t", metavar="NAME", help="Which template.")
    ] = DEFAULT,
    list_: Annotated[bool, typer.Option("--list", help="List the templates.")] = False,
    force: Force = False,
    topology: Annotated[
        Path | None,
        typer.Option(
            "--topology",
            metavar="FILE",
            help="Take links and paths of this network (GraphML, or .gml) instead of a template.",
        ),
    ] = None,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="NODE", help="Where the paths begin.")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="NODE", help="Where the paths end.")
    ] = None,
    paths: Annotated[
        int, typer.Option("--paths", metavar="N", min=1, help="The number of paths. Default: 2.")
    ] = 2,
    shared: Annotated[
        bool,
        typer.Option("--shared", help="The shortest paths; without it they share no link."),
    ] = False,
    rate_mbps: Annotated[
        float | None,
        typer.Option("--rate-mbps", metavar="MBPS", help="The rate of links without one."),
    ] = None,
    delay_ms: Annotated[
        float | None,
        typer.Option("--delay-ms", metavar="MS", help="The delay of links without one."),
    ] = None,
) -> None:
    """Write a scenario with comments to start from, or one of a network's paths.

    A network is a GraphML or GML file, as the Internet Topology Zoo has them. Links have the rate
    of rate_mbps, LinkSpeedRaw (bit/s), LinkSpeed, or of their label, such as OC-192; their delays
    are delay_ms, or that of a fibre between the nodes' Latitude and Longitude.

    Examples:

        anabranch init

        anabranch init --list

        anabranch init web.toml --template web

        anabranch init abilene.toml --topology Abilene.graphml --from Seattle --to "New York"
    """
    if list_:
        _list(TEMPLATES)
        return
    if topology:
        if from_ is None or to is None:
            raise ScenarioError(f"--topology {topology}: give the ends of the paths: --from, --to")
        from anabranch.extras.topology import Defaults, scenario_from

        defaults = Defaults(rate_mbps, delay_ms)
        text = scenario_from(topology, from_, to, paths, shared=shared, defaults=defaults)
    else:
        text = _known("template", template, TEMPLATES).read_text(encoding="utf-8")
    if str(file) == "-":
        print(text, end="")
        return
    made = not file.parent.exists()
    _write({file: text.encode()}, force)
    if made:
        note(f"Made the directory {file.parent}")
    note(f"Wrote {file}. Run it with: anabranch run {file}")


def examples_command(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Print this one. Default: list them.")
    ] = None,
    copy: Annotated[
        Path | None, typer.Option("--copy", metavar="DIR", help="Write all of them to DIR.")
    ] = None,
    force: Force = False,
) -> None:
    """List the examples, print one, or write all of them to a directory.

    Examples:

        anabranch examples

        anabranch examples two_links

        anabranch examples newreno.c > newreno.c

        anabranch examples --copy examples
    """
    if name is not None:
        files = EXAMPLES.values()
        known = {file.stem: file for file in files} | {file.name: file for file in files} | EXAMPLES
        print(_known("example", name, known).read_text(encoding="utf-8"), end="")
    if copy:
        _write({copy / name: file.read_bytes() for name, file in EXAMPLES.items()}, force)
        note(f"Wrote {len(EXAMPLES)} files to {copy}")
    if name is None and copy is None:
        _list({file.stem: file for file in EXAMPLES.values() if file.suffix == ".toml"})


def check_example(file: Path) -> None:
    """Raise `ScenarioError` for an example that was not copied."""
    if file.parent.name == "examples" and file.name in EXAMPLES and not file.exists():
        raise ScenarioError(
            f"{file}: file not found: `anabranch examples --copy {file.parent}` writes it"
        )


def _known(what: str, name: str, files: dict[str, Path]) -> Path:
    if name not in files:
        raise ScenarioError(f"unknown {what} {name!r}: {expected_one_of(name, list(files))}")
    return files[name]


def _list(files: dict[str, Path]) -> None:
    table = tables.new_table("name", "what it shows")
    for name, file in files.items():
        table.add_row(name, tomllib.loads(file.read_text(encoding="utf-8"))["description"])
    tables.STDOUT.print(table)


def _write(contents: dict[Path, bytes], force: bool) -> None:
    """Write files; none where one is there and `force` is not given."""
    for file in contents:
        if file.exists() and not force:
            raise ScenarioError(f"{file}: the file exists: give another name, or --force")
    for file, content in contents.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
