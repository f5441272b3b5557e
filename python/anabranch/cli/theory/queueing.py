"""`anabranch theory queueing`, `adjustment` and `rent`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch.cli import tables
from anabranch.cli.notes import note
from anabranch.cli.options import Force, Json, out_option, seeds_option
from anabranch.cli.tables import STDOUT, new_table, statements
from anabranch.files import output
from anabranch.formats import interval, numbers, share
from anabranch.scenario import ScenarioError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from anabranch.statements.itcp.lemmas import Adjustment
    from anabranch.statements.itcp.tail_theorems import Tails
    from anabranch.statements.rsf.statements import Rent

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


# Results of `theory queueing`, `adjustment` and `rent` as tables on the terminal.


READ = [10, 15, 20, 25, 30, 35, 40]
"""Points of `GRID_S` in the table of a tail: 0.1 to 100 s, two per decade."""


def show_queueing(found: "Tails") -> None:
    """Slopes, then theorems 1, 2 and 3 and the measured tails."""
    from anabranch.statements.itcp.tail_theorems import FIT_S, TOGETHER

    loads = " and ".join(f"{one.load:g} (index {one.shape:g})" for one in found.traffic)
    STDOUT.print(
        f"Loads {loads}; {found.files} files in {found.duration_s:.0f} s, {found.seeds} seeds\n"
    )
    slopes = new_table("case", "sojourn times", "tail index", "theory")
    for row in found.slopes.to_dict(orient="records"):
        subnet = f"subnet {str(row['quantity'])[-1]}"
        slopes.add_row(row["case"], subnet, _interval(row, "index", 2), row["theory"])
    low, high = FIT_S
    _titled(f"Index of P(S > x) from {low:g} to {high:g} s, median ± 95 % interval", slopes)
    together = found.tails[found.tails["case"] == TOGETHER]
    for number in (1, 2):
        rows = together[together["quantity"] == f"sojourn{number}"]
        _tail(f"Theorem 1, subnet {number}, one queue: P(S > x)", rows, "P(B > (1 - rho) x)")
    for case, rows in found.tails.groupby("case", sort=False):
        workload = rows[rows["quantity"] == "workload1"]
        if case != TOGETHER and workload["theory"].notna().any():
            _tail(f"Theorem 2, {case}: P(V1 > x)", workload, "theorem 2")
            sojourn = rows[rows["quantity"] == "sojourn1"]
            _tail(f"Theorem 3, {case}: P(S1 > x)", sojourn, "lower bound")
    statements(found.statements)


def _tail(title: str, rows: "pd.DataFrame", theory: str) -> None:
    import numpy as np

    from anabranch.statements.itcp.tail_theorems import GRID_S

    rows = rows[np.isclose(rows["x_s"].to_numpy()[:, None], GRID_S[READ]).any(axis=1)]
    within = rows["within"].notna().any()
    table = new_table(
        "x (s)",
        "mean ± 95 %",
        "median",
        theory,
        "measured / theory",
        *(["in so short a run", "measured / that"] if within else []),
    )
    for row in rows.to_dict(orient="records"):
        mean = row["mean"]
        cells = [f"{row['x_s']:.3g}", _interval(row, "mean", 3), f"{row['median']:.3g}"]
        for column in ["theory", "within"] if within else ["theory"]:
            expected = row[column]
            cells += [f"{expected:.3g}", f"{mean / expected:.3g}" if expected > 0 else "-"]
        table.add_row(*cells)
    _titled(title, table)


def show_adjustment(found: "Adjustment") -> None:
    """Eigenvalues of (12), the end of (11), proposition 1 over random starts."""
    linear = found.linear
    STDOUT.print(
        f"Loads {numbers(linear.loads)}, epsilon {linear.epsilon:g}\n\n"
        f"Equation (12)\n"
        f"  eigenvalues per round  {numbers(linear.eigenvalues)}\n"
        f"  kappa                  {'tends to 0' if linear.is_stable else 'grows without bound'}\n"
        f"  phi tends to           {numbers(linear.shares)}, which is rho / sum rho\n"
        f"  at the rate            {linear.gap:.4g} per round\n\n"
        f"Equation (11), 1 <= kappa <= M\n"
        f"  from every kappa = M   {numbers(found.flow.kappa[-1])} after "
        f"{found.flow.rounds[-1]:g} rounds\n"
        f"  phi                    {numbers(found.flow.shares[-1])}\n"
    )
    table = new_table(
        "proposition 1", "starts", "keep (iv)", "reach phi > rho", "stuck", "no end", "worst steps"
    )
    for trial in found.trials:
        table.add_row(
            trial.name,
            f"{trial.starts}",
            f"{trial.kept}",
            f"{trial.reached} ({share(trial.reached / max(1, trial.kept), 1)})",
            f"{trial.stuck}",
            f"{trial.endless}",
            f"{trial.worst_steps}",
        )
    STDOUT.print(table)
    for trial in found.trials:
        if start := trial.counterexample:
            STDOUT.print(f"\nCounterexample, {trial.name}:\n  {start}")
    STDOUT.print()
    statements(found.statements)


def show_rent(found: "Rent") -> None:
    """Equilibria, Rosen's condition with its region, the rules compared with the game."""
    STDOUT.print(f"Price {found.price:g}, {found.paths} paths\n")
    table = new_table(
        "game", "capacity", "weights z", "rates", "multiplier", "KKT residual", "a deviation gains"
    )
    for name, capacity, equilibrium in found.equilibria:
        table.add_row(
            name,
            f"{capacity:.4g}",
            numbers(equilibrium.weights),
            numbers(equilibrium.rates),
            f"{equilibrium.multiplier:.4g}",
            f"{equilibrium.kkt_residual:.1e}",
            f"{equilibrium.best_gain:.1e}",
        )
    for split in found.splits:
        table.add_row(
            f"(15), (16), {split.name}",
            f"{split.rates.sum():.4g}",
            "1, 1",
            " and ".join(numbers(row) for row in split.rates),
            "the same",
            f"{split.kkt_residual:.1e}",
            f"{split.best_gain:.1e}",
        )
    _titled("Equilibria", table)
    table = new_table("game", "players", "weights z", "states", "holds", "largest eigenvalue")
    for scan in found.scans:
        holds = f"{scan.holding} ({share(scan.holding / scan.states, 1)})"
        # An exact 0 is a rounding error here.
        worst = "0" if abs(scan.worst) < 1e-12 else f"{scan.worst:.2g}"
        table.add_row(scan.game, f"{scan.players}", scan.weights, f"{scan.states}", holds, worst)
    _titled("Rosen's condition: (G + G') S^2 / 2 negative definite", table)
    STDOUT.print(f"{region()}\n")
    table = new_table("rule", "RTT (ms)", "loss", "rates (packets/s)", "ratio", "the game's ratio")
    for one in found.rule_rates:
        table.add_row(
            one.rule,
            numbers([1e3 * rtt for rtt in one.rtt_s]),
            numbers(one.loss),
            numbers(one.rates),
            f"{one.rates[0] / one.rates[1]:.3g}",
            "1",
        )
    _titled("Equilibria of the paper's rules", table)
    statements(found.statements)


def region() -> str:
    """The map of Rosen's condition for two players: + where it holds."""
    import numpy as np

    from anabranch.statements.rsf.rent import leading_eigenvalue

    shares, ratios = np.linspace(0.025, 0.975, 39), [1.0, 2.0, 4.0, 8.0, 16.0, 64.0]
    lines = ["Two players: + where it holds, over the share u of the first (0 to 1)"]
    for ratio in ratios:
        marks = (leading_eigenvalue([u, 1 - u], [1.0, ratio]) < 0 for u in shares)
        lines.append(f"  z2 / z1 = {ratio:4g}  " + "".join("+" if m else "." for m in marks))
    return "\n".join(lines)


def _titled(title: str, table: object) -> None:
    STDOUT.print(title, table, "", sep="\n")


def _interval(row: dict[object, float], column: str, digits: int) -> str:
    return interval(row[column], row[f"{column}_ci95"], f".{digits}g", ".1g")
