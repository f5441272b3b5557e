"""`anabranch theory queueing`, `adjustment` and `rent`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch.cli import tables
from anabranch.cli.notes import note
from anabranch.cli.options import Force, Json, out_option, seeds_option
from anabranch.files import output
from anabranch.scenario import ScenarioError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Theory and Matplotlib are imported where they are used, because they are slow to load.

Out = Annotated[Path | None, out_option("Write the numbers (JSON) and the figure to DIR.")]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the random starts or states.")]
Loads = Annotated[
    str,
    typer.Option("--load", metavar="R1,R2", help="Offered loads, as shares of the bottleneck."),
]


def queueing(
    load: Loads = "0.52,0.24",
    shape: Annotated[
        str, typer.Option(metavar="N1,N2", help="Tail indexes of the Pareto sizes.")
    ] = "2.5,1.2",
    share: Annotated[
        str,
        typer.Option(metavar="P,...", help="Guaranteed rates of subnet 1; subnet 2 has the rest."),
    ] = "0.4,0.5,0.6,0.7",
    files: Annotated[
        int, typer.Option(min=1000, max=10_000_000, metavar="N", help="Files per seed.")
    ] = 400_000,
    seeds: Annotated[Any, seeds_option()] = 20,
    as_json: Json = False,
    out: Out = None,
    force: Force = False,
) -> None:
    """Compare tails of sojourn times under processor sharing with I-TCP's theorems 1 to 3.

    Mean service times are the paper's, 52 and 24 ms. The defaults are its loads and its 20 000 s.

    Examples:

        anabranch theory queueing

        anabranch theory queueing --share 0.3,0.5 --files 4000000 --seeds 10 --out results
    """
    from anabranch.cli.theory.queueing_tables import show_queueing
    from anabranch.statements.itcp import tail_theorems
    from anabranch.statements.itcp.tail_theorems import PAPER, Traffic

    loads, shapes = _two("--load", load), _two("--shape", shape)
    first, second = (
        Traffic(rho, one.mean_s, nu) for rho, one, nu in zip(loads, PAPER, shapes, strict=True)
    )
    shares = _numbers("--share", share)

    def find(progress: Callable[[float], None] | None) -> tail_theorems.Tails:
        return tail_theorems.measure((first, second), shares, files, seeds, progress)

    def draw(found: tail_theorems.Tails) -> "Figure":
        from anabranch.statements.itcp import figure

        return figure.tails(found)

    _answer("queueing", find, show_queueing, as_json, out, force, draw)


def adjustment(
    load: Loads = "0.52,0.24",
    epsilon: Annotated[float, typer.Option(help="Margin by which a share exceeds its load.")] = 0.1,
    gamma: Annotated[float, typer.Option(help="What a decrease subtracts from kappa.")] = 0.2,
    starts: Annotated[
        int, typer.Option(min=1, max=1_000_000, metavar="N", help="Random starts per trial.")
    ] = 2000,
    seed: Seed = 1,
    as_json: Json = False,
) -> None:
    """Study I-TCP's kappas: (11), (12), and the statements about them over random starts.

    Every step is computed by the rule itself, in Rust.

    Examples:

        anabranch theory adjustment

        anabranch theory adjustment --load 0.28,0.08,0.08,0.24 --epsilon 0.05 --json
    """
    from anabranch.cli.theory.queueing_tables import show_adjustment
    from anabranch.statements.itcp import lemmas

    loads = _numbers("--load", load)

    def find(progress: Callable[[float], None] | None) -> lemmas.Adjustment:
        return lemmas.study(loads, epsilon, gamma, starts, seed, progress)

    _answer("adjustment", find, show_adjustment, as_json)


def rent(
    paths: Annotated[int, typer.Option(max=50, metavar="K", help="Paths of the connection.")] = 2,
    price: Annotated[float, typer.Option(metavar="P", help="p_hat, per unit of rate.")] = 0.1,
    states: Annotated[
        int, typer.Option(min=1, max=1_000_000, metavar="N", help="Random states per game.")
    ] = 2000,
    seed: Seed = 1,
    as_json: Json = False,
    out: Out = None,
    force: Force = False,
) -> None:
    """Study the rent-seeking game of the RSF paper: equilibria, Rosen's condition, its ODE (4).

    Examples:

        anabranch theory rent

        anabranch theory rent --paths 4 --price 0.01 --out results
    """
    from anabranch.cli.theory.queueing_tables import show_rent
    from anabranch.statements.rsf import statements

    def find(progress: Callable[[float], None] | None) -> statements.Rent:
        return statements.study(paths, price, states, seed, progress)

    def draw(_: statements.Rent) -> "Figure":
        from anabranch.statements.rsf import figure

        return figure.region()

    _answer("rent", find, show_rent, as_json, out, force, draw)


def register(app: typer.Typer) -> None:
    """Add the three commands to `anabranch theory`."""
    for command in (queueing, adjustment, rent):
        app.command()(command)


def _answer(
    name: str,
    find: Callable[[Callable[[float], None] | None], Any],
    in_words: Callable[[Any], None],
    as_json: bool,
    out: Path | None = None,
    force: bool = False,
    draw: "Callable[[Any], Figure] | None" = None,
) -> None:
    # The output directory is opened first, so that one that cannot be written fails early.
    with output(out, force) as stage:
        with tables.progress(f"theory {name}") as progress:
            found = find(progress)
        if stage and draw:
            from anabranch.figures import style

            text = json.dumps(found.as_dict(), indent=2, allow_nan=False)
            (stage / f"{name}.json").write_text(text + "\n")
            style.save(draw(found), stage / name)
    tables.answer(found, as_json, in_words)
    if out:
        note(f"Numbers and figure are in {out}")


def _numbers(option: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ScenarioError(
            f"{option} {text}: expected numbers separated by commas, as in 0.52,0.24"
        ) from None


def _two(option: str, text: str) -> tuple[float, ...]:
    numbers = _numbers(option, text)
    if len(numbers) != 2:
        raise ScenarioError(f"{option} {text}: expected two numbers, one per subnet")
    return numbers
