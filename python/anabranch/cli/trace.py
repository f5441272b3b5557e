"""`anabranch trace`: traces of links in other formats, and synthetic ones."""

from pathlib import Path
from typing import Annotated

import typer

from anabranch.cli import tables
from anabranch.cli.notes import App, note
from anabranch.conversion.traces import (
    COLUMNS,
    FORMATS,
    REPEATED_S,
    LinkTrace,
    read,
    recognised,
    to_csv,
    to_mahimahi,
)
from anabranch.scenario import ScenarioError, expected_one_of

WRITERS = ("csv", "mahimahi")

app = App(no_args_is_help=True, help="Convert and make traces of links.")


def register(parent: typer.Typer) -> None:
    """Add these commands."""
    parent.add_typer(app, name="trace")


@app.command("formats")
def formats_command() -> None:
    """List the formats that can be read, and the kinds that can be made.

    Examples:

        anabranch trace formats
    """
    from anabranch.conversion.described import KINDS  # with NumPy, which is slow to load

    table = tables.new_table("format", "what it has")
    for name, kind in FORMATS.items():
        table.add_row(name, kind.meaning)
    synthetic = tables.new_table("kind", "what it has")
    for name, one in KINDS.items():
        synthetic.add_row(name, one.meaning)
    tables.STDOUT.print(table, "", synthetic, sep="\n")


@app.command("convert")
def convert_command(
    source: Annotated[Path, typer.Argument(metavar="IN", help="The trace to read.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="What to write.")],
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="FORMAT", help="Of IN. Default: by its first line."),
    ] = None,
    to: Annotated[str, typer.Option("--to", metavar="FORMAT", help="csv or mahimahi.")] = "csv",
    repeated_s: Annotated[
        float,
        typer.Option(
            "--repeated-s",
            metavar="S",
            min=1,
            max=86_400,
            help="For how long a CSV has the periods of a trace that repeats.",
        ),
    ] = REPEATED_S,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT.")] = False,
) -> None:
    """Convert a trace to one that a link can name (`trace_file`), and say what it lacks.

    Examples:

        anabranch trace convert 7_1_wifi.csv --from multipath-wireless wifi.csv

        anabranch trace convert wifi.csv --from csv --to mahimahi wifi.trace

        anabranch trace convert examples/lte.trace lte.csv --repeated-s 60
    """
    if to not in WRITERS:
        raise ScenarioError(f"unknown format {to!r}: {expected_one_of(to, list(WRITERS))}")
    _refuse_existing(target, force)
    try:
        content = source.read_text(encoding="utf-8")
        form = from_ or recognised(content)
        trace = read(content, form)
        text = to_csv(trace, repeated_s) if to == "csv" else to_mahimahi(trace)
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{source}: cannot read the file: {error}") from None
    except ScenarioError as error:
        raise ScenarioError(f"{source}: {error}") from None
    _write(target, text)
    if form == "time-mbps":
        note(f"{source}: 2 columns without a header: read as time_s, rate_mbps")
    elif from_ is None:
        note(f"{source}: read as {form}: {FORMATS[form].meaning}")
    note(f"Wrote {target}: {len(trace.time_s)} values over {trace.end_s:g} s. {_lacks(trace, to)}")
    if trace.period_s is not None and to == "csv" and len(trace.time_s) > 1:
        note(
            f"It repeats each {trace.period_s:g} s, which a CSV does not: it has whole periods for "
            f"{repeated_s:g} s or more, then the mean (--repeated-s)."
        )


@app.command("make")
def make_command(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="lte, wifi or leo.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="What to write.")],
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of the random numbers.")] = 1,
    duration_s: Annotated[
        float | None,
        typer.Option("--duration-s", metavar="S", min=1, max=86_400, help="How long it is."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT.")] = False,
) -> None:
    """Make a synthetic trace of a kind of link (`trace_file`); nothing in it was measured.

    Examples:

        anabranch trace make wifi wifi.csv

        anabranch trace make leo leo.csv --seed 7 --duration-s 600
    """
    from anabranch.conversion.described import KINDS, made

    if kind not in KINDS:
        raise ScenarioError(f"unknown kind {kind!r}: {expected_one_of(kind, list(KINDS))}")
    _refuse_existing(target, force)
    _write(target, made(kind, seed, duration_s))
    note(f"Wrote {target}, seed {seed}: {KINDS[kind].meaning}")


def _refuse_existing(target: Path, force: bool) -> None:
    if target.exists() and not force:
        raise ScenarioError(f"{target}: the file exists: give another name, or --force")


def _write(target: Path, text: str) -> None:
    """Write a file, or nothing."""
    temporary = target.with_name(f".{target.name}.part")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(target)


def _lacks(trace: LinkTrace, to: str) -> str:
    """Columns that a written trace lacks, and the keys that give them instead."""
    written = set(trace.columns) & ({"rate_mbps"} if to == "mahimahi" else set(COLUMNS))
    missing = [name for name in COLUMNS if name not in written]
    if not missing:
        return "It has rate, delay and loss."
    return f"It lacks {', '.join(missing)}: the keys of the link say them."
