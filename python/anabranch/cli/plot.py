"""`anabranch plot`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli.notes import note
from anabranch.cli.options import Force, Formats, Width, names, out_option, pictures
from anabranch.files import MANIFEST, output
from anabranch.scenario import ScenarioError, expected_one_of

if TYPE_CHECKING:
    from anabranch.result import Result

ANIMATION = "animation"
"""A kind that is a GIF, whatever the formats."""


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command("plot")(plot_command)


def plot_command(
    directory: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="What --out of run, compare or sweep has written."),
    ],
    out: Annotated[Path, out_option("Write the figures to this directory.")],
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="Kinds of figures: goodput, goodput-rtt, windows, queues, rates, plane, rtt, "
            "completion, network, animation; of a sweep: sweep. Default: goodput,rates,network, or "
            "sweep.",
        ),
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE", help="Only the points of a sweep with this value. Repeatable."
        ),
    ] = None,
    formats: Formats = None,
    width: Width = None,
    force: Force = False,
) -> None:
    """Draw figures of stored results: of runs, or of a sweep as curves or as a heat map.

    A sweep of one key gives a curve per rule, one of two keys a heat map; --at chooses among more.

    Examples:

        anabranch plot results --out figures --format pdf --width column

        anabranch plot results --kind goodput-rtt,rtt,plane,animation --out figures

        anabranch plot rates --out figures --at flows.two-path.count=2
    """
    from anabranch.figures import result as figures

    result = _loaded(directory)
    for setting in at or []:
        result = _chosen(result, setting)
    swept = len(result.cases) > 1
    kinds = names(kind, "--kind") if kind else ["sweep"] if swept else list(DEFAULT)
    known = [*figures.KINDS, "sweep", ANIMATION]
    for each in kinds:
        if each not in known:
            raise ScenarioError(f"--kind {each}: {expected_one_of(each, known)}")
    look = pictures(formats, width, out)
    missing = []
    with output(out, force) as stage:
        assert stage is not None
        for each in kinds:
            try:
                if each == ANIMATION:
                    result.animate(stage / "animation.gif")
                else:
                    figures.write(result, stage, look.formats, look.width_cm, [each])
            except ValueError as error:
                missing.append(f"{directory}: {error}")
        if len(missing) == len(kinds):
            raise ScenarioError("; ".join(missing))
    note(f"Figures are in {out}")
    if missing:
        raise ScenarioError(f"{'; '.join(missing)}; the other figures are in {out}")


DEFAULT = ("goodput", "rates", "network")


def _loaded(directory: Path) -> "Result":
    from anabranch.result import Result
    from anabranch.sweeps import tables
    from anabranch.sweeps.store import DEFINITION

    if (directory / DEFINITION).is_file() and not (directory / MANIFEST).is_file():
        return tables.load(directory)
    return Result.load(directory)


def _chosen(result: "Result", setting: str) -> "Result":
    """The points with this value. Raises `ScenarioError`."""
    from dataclasses import replace

    key, equals, value = setting.partition("=")
    if not equals or key not in result.cases:
        keys = ", ".join(result.cases)
        raise ScenarioError(f"--at {setting}: expected KEY=VALUE with one of the keys {keys}")
    found = {
        name: table[
            table[key].map(lambda cell: f"{cell:g}" if isinstance(cell, float) else str(cell))
            == value
        ]
        for name, table in result.tables().items()
        if key in table
    }
    if found["flows"].empty:
        values = ", ".join(str(one) for one in result.flows[key].unique())
        raise ScenarioError(f"--at {setting}: expected one of {values}")
    return replace(result, **found)
