"""`anabranch theory optimum`, `wvegas` and `fixed-points`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli import tables
from anabranch.cli.notes import note
from anabranch.cli.options import (
    ANY,
    File,
    Force,
    Json,
    Probing,
    RttMs,
    Set,
    only_names,
    out_option,
    scenario_of,
)
from anabranch.files import output
from anabranch.formats import interval, number
from anabranch.scenario import ScenarioError

if TYPE_CHECKING:
    import pandas as pd

    from anabranch.papers.predictions import Prediction
    from anabranch.papers.suite import Paper
    from anabranch.statements.wvegas.iterations import Convergence
    from anabranch.theory.optimum.distance import Distance
    from anabranch.theory.optimum.fixed_points import FixedPoint
    from anabranch.theory.optimum.optimum import Optimum
    from anabranch.theory.schedule import Interval

# Theory and Matplotlib are imported where they are used, because they are slow to load.


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("optimum")(optimum_command)
    app.command("fixed-points")(fixed_points_command)
    app.command("wvegas")(wvegas_command)


def optimum_command(
    file: File,
    utility: Annotated[
        str, typer.Option(metavar="U", help="log (proportional fairness), or alpha=A.")
    ] = "log",
    probing: Probing = False,
    rtt_ms: RttMs = None,
    weight: Annotated[
        list[str] | None,
        typer.Option(metavar="FLOW=W", help="The weight of a flow's users. Repeatable."),
    ] = None,
    algorithm: Annotated[
        str,
        typer.Option(
            "--algorithm",
            "-a",
            metavar="A,B,...",
            help="Compare with the fixed points of these rules.",
        ),
    ] = "",
    split: Annotated[
        bool,
        typer.Option(
            "--split", help="The least and the largest rate of each path among all optima."
        ),
    ] = False,
    set_: Set = None,
    as_json: Json = False,
) -> None:
    """Compute the optimal rates of a scenario's users, and the price of every link.

    If flows start and stop or links fail: the optimum of each interval.

    Examples:

        anabranch theory optimum examples/two_links.toml

        anabranch theory optimum papers/olia/scenario_a.toml --probing --rtt-ms 150 -a lia,olia

        anabranch theory optimum examples/two_links.toml --utility alpha=2 --json

        anabranch theory optimum examples/two_links.toml --set links.left.rate_mbps=30
    """
    from anabranch.theory.optimum.fixed_points import fixed_point_of
    from anabranch.theory.optimum.maximise import AlphaFair
    from anabranch.theory.optimum.optimum import optima

    chosen = only_names(algorithm) if algorithm else []
    scenario, rtt_s = scenario_of(file, set_, ANY), rtt_ms and rtt_ms / 1e3
    fair, weights = AlphaFair.parse(utility), dict(map(_weight, weight or []))
    with tables.progress("theory optimum") as progress:
        found = optima(
            scenario, fair, probing=probing, rtt_s=rtt_s, weights=weights, progress=progress
        )
        rules = [
            {
                name: fixed_point_of(scenario, name, best.interval, rtt_s, probing).user_mbps()
                for name in chosen
            }
            for best in found
        ]
    if as_json:
        words = {"scenario": scenario.name, "utility": str(fair), "probing": probing}
        pairs = zip(found, rules, strict=True)
        documents = [best.as_dict(split) | {"fixed_points_mbps": points} for best, points in pairs]
        tables.print_json({**words, "intervals": documents})
    else:
        tables.STDOUT.print(f"{scenario.name or 'scenario'}: the optimum for utility {fair}")
        for best, points in zip(found, rules, strict=True):
            show_optimum(best, points, split)


def _weight(setting: str) -> tuple[str, float]:
    flow, _, value = setting.rpartition("=")
    try:
        return flow, float(value)
    except ValueError:
        raise ScenarioError(f"--weight {setting}: expected FLOW=W, as in phone=2") from None


def fixed_points_command(
    what: Annotated[
        str, typer.Argument(metavar="FILE|PAPER", help="A scenario file, or a paper such as olia.")
    ],
    algorithm: Annotated[
        str, typer.Option("--algorithm", "-a", metavar="A,B,...", help="The rules to solve for.")
    ] = "lia,olia",
    probing: Probing = False,
    rtt_ms: RttMs = None,
    set_: Set = None,
    as_json: Json = False,
) -> None:
    """Compute the equilibrium of loss-based rules at given RTTs.

    For a paper: what theory predicts for its runs, and what the paper prints.

    Examples:

        anabranch theory fixed-points olia

        anabranch theory fixed-points examples/two_links.toml --algorithm lia,olia,balia
    """
    from anabranch.theory.optimum.fixed_points import fixed_point_of
    from anabranch.theory.schedule import intervals

    if what != "-" and not Path(what).suffix:
        if set_:
            raise ScenarioError(f"--set {set_[0]}: expected a scenario file, but {what} is a paper")
        _predictions(what, as_json)
        return
    scenario, rtt_s = scenario_of(what, set_, ANY), rtt_ms and rtt_ms / 1e3
    with tables.progress("theory fixed-points"):
        found = [
            (interval, name, fixed_point_of(scenario, name, interval, rtt_s, probing))
            for interval in intervals(scenario)
            for name in only_names(algorithm)
        ]
    if as_json:
        documents = [
            {"from_s": interval.from_s, "to_s": interval.to_s, "algorithm": name, **point.as_dict()}
            for interval, name, point in found
        ]
        tables.print_json({"scenario": scenario.name, "fixed_points": documents})
    else:
        for interval, name, point in found:
            show_fixed_point(interval, name, point)


def _predictions(name: str, as_json: bool) -> None:
    from anabranch.papers.folder import open_paper
    from anabranch.papers.predictions import predictions

    paper = open_paper(name)
    with tables.progress(f"theory fixed-points {name}"):
        found = predictions(paper)
    if not found:
        raise ScenarioError(f"{name}: its experiments.toml has no [predictions]")
    if as_json:
        tables.print_json([vars(entry) for entry in found])
    else:
        show_predictions(paper, found)


def wvegas_command(
    steps: Annotated[
        int, typer.Option(min=1, max=1_000_000, metavar="N", help="Number of steps.")
    ] = 1000,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the random weights.")] = 1,
    out: Annotated[Path | None, out_option("Write the figure (SVG, PNG) to DIR.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Compare the iterations of wVegas' paper with the solver, on its two networks.

    The iterations are those of its figures 3a and 4. Afterwards the statements of the paper about
    the optimum are tested.

    Example:

        anabranch theory wvegas --out results/wvegas
    """
    from anabranch.papers.folder import open_paper
    from anabranch.statements.wvegas import statements as wvegas_statements
    from anabranch.statements.wvegas.iterations import convergence

    with output(out, force) as stage:
        with tables.progress("theory wvegas"):
            folder = open_paper("wvegas").folder
            found = convergence(folder, steps, seed)
            judged = wvegas_statements.statements(folder)
        if stage:
            from anabranch.figures import style
            from anabranch.statements.wvegas.figure import figure

            style.save(figure(found), stage / "wvegas_iterations")
        if as_json:
            document = [one.as_dict() for one in found]
            statements = [asdict(one) for one in judged]
            tables.print_json({"iterations": document, "statements": statements})
        else:
            show_convergence(found)
            tables.STDOUT.print()
            tables.statements(judged)
    if out:
        note(f"The figure is in {out}")


# Optima, fixed points and iterations as tables on the terminal.


HEADS = {
    "path": "via",
    "links": "via",
    "rate_mbps": "rate (Mbps)",
    "least_mbps": "least (Mbps)",
    "most_mbps": "most (Mbps)",
    "capacity_mbps": "capacity (Mbps)",
    "load_mbps": "load (Mbps)",
    "rtt_ms": "RTT (ms)",
    "price": "price per Mbps",
    "marginal": "worth of 1 Mbps more",
}


def show_optimum(best: "Optimum", rules: Mapping[str, Mapping[str, float]], split: bool) -> None:
    """One interval: flows, paths and links; `rules` has the rates of rules to compare."""
    solver = f"{best.solution.solver}, relative gap {best.solution.gap:.0e}"
    tables.STDOUT.print(f"\n{best.interval} ({solver})\n")
    flows = best.flows()
    for name, rates in rules.items():
        flows[f"{name} (Mbps)"] = flows["flow"].map(rates)
    # A path's number says less than its links, which are in the table, too.
    paths = best.paths(split).drop(columns="path")
    paths["links"] = paths["links"].str.replace(", ", "+")
    for frame in (flows, paths, best.links()):
        _print(frame)


def show_fixed_point(interval: "Interval", name: str, point: "FixedPoint") -> None:
    """Paths and links at a rule's fixed point."""
    tables.STDOUT.print(f"\n{name}, {interval} (residual {point.residual:.0e})\n")
    paths = point.paths()
    paths["path"] = ["+".join(links) for links in point.network.links_of_paths()]
    _print(paths)
    _print(point.links())


def show_predictions(paper: "Paper", found: "Sequence[Prediction]") -> None:
    """The theory of a paper: computed and printed values, a line per case."""
    from anabranch.experiments.case import Case
    from anabranch.papers.predictions import FIXED_POINT, OPTIMUM, PROBING

    lines: dict[tuple[str, str, str], dict[str, float]] = {}
    for entry in found:
        lines.setdefault((entry.item, entry.metric, entry.case), {})[entry.kind] = entry.value
    printed = {"fixed_point": FIXED_POINT, "opt_no_probing": OPTIMUM, "opt_probing": PROBING}
    heads = ["fixed point", "printed", "optimum", "printed", "with probing", "printed"]
    table = tables.new_table("", "", "case", *heads)
    for (item, metric, case), values in lines.items():
        facts = paper.items[item].metric(metric).theory
        cells = []
        for kind, ours in printed.items():
            theirs = [v for key, v in facts.get(kind, {}).items() if Case(case).is_of(key)]
            cells += [_number(values.get(ours)), _number(theirs[0] if theirs else None)]
        table.add_row(item, metric, case, *cells)
    tables.STDOUT.print(table)


def show_convergence(found: "Sequence[Convergence]") -> None:
    """The steps that each iteration takes, and its last rates."""
    for one in found:
        tables.STDOUT.print(f"\n{one.name}: rates in Mbps\n")
        heads = [f"{it.name}, {it.steps} steps" for it in one.iterations]
        table = tables.new_table("path", "solver", *heads)
        for path, label in enumerate(one.labels):
            ends = [f"{it.rate[-1, path]:.4f}" for it in one.iterations]
            table.add_row(label, f"{one.optimum[path]:.4f}", *ends)
        table.add_section()
        near = [str(it.settled(one.optimum, one.within_mbps)) for it in one.iterations]
        table.add_row(f"steps until within {one.within_mbps:g}", "", *near)
        tables.STDOUT.print(table)


def show_distance(far: "Distance") -> None:
    """A line per case: its distance from the optimum."""
    from anabranch.theory.optimum.distance import MEASURES

    tables.STDOUT.print("\nDistance from the optimum (proportional fairness)\n")
    heads = ["of its total", "Jain's index", "at the optimum", "utility gap", "spread of prices"]
    table = tables.new_table(*far.cases, *heads)
    for row in far.frame.to_dict(orient="records"):
        cells = [interval(row[name], row[f"{name}_ci95"], ".4f") for name in MEASURES]
        table.add_row(*(str(row[case]) for case in far.cases), *cells)
    tables.STDOUT.print(table)


def _print(frame: "pd.DataFrame") -> None:
    table = tables.new_table(*(HEADS.get(column, column) for column in frame.columns))
    table.complete = "--json has"
    for row in table.first(frame, frame.columns[0]).itertuples(index=False):
        table.add_row(*map(_cell, row))
    tables.STDOUT.print(table, "")


def _cell(value: object) -> str:
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _number(value: float | None) -> str:
    """Four decimals; a small number, such as a price or a loss, has four significant digits."""
    small = value is not None and 1e-6 < abs(value) < 0.01
    return number(value, ".4g" if small else "z.4f", missing="-")
