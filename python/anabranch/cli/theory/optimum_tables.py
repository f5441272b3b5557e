"""Optima, fixed points and iterations as tables on the terminal."""

from collections.abc import Mapping, Sequence

import pandas as pd

from anabranch.cli import tables
from anabranch.formats import interval, number
from anabranch.papers.entries.case import Case
from anabranch.papers.entries.paper import Paper
from anabranch.papers.predictions import FIXED_POINT, OPTIMUM, PROBING, Prediction
from anabranch.statements.wvegas.iterations import Convergence
from anabranch.theory.optimum.distance import MEASURES, Distance
from anabranch.theory.optimum.fixed_points import FixedPoint
from anabranch.theory.optimum.optimum import Optimum
from anabranch.theory.schedule import Interval

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


def optimum(best: Optimum, rules: Mapping[str, Mapping[str, float]], split: bool) -> None:
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


def fixed_point(interval: Interval, name: str, point: FixedPoint) -> None:
    """Paths and links at a rule's fixed point."""
    tables.STDOUT.print(f"\n{name}, {interval} (residual {point.residual:.0e})\n")
    paths = point.paths()
    paths["path"] = ["+".join(links) for links in point.network.links_of_paths()]
    _print(paths)
    _print(point.links())


def predictions(paper: Paper, found: Sequence[Prediction]) -> None:
    """The theory of a paper: computed and printed values, a line per case."""
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


def convergence(found: Sequence[Convergence]) -> None:
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


def distance(far: Distance) -> None:
    """A line per case: its distance from the optimum."""
    tables.STDOUT.print("\nDistance from the optimum (proportional fairness)\n")
    heads = ["of its total", "Jain's index", "at the optimum", "utility gap", "spread of prices"]
    table = tables.new_table(*far.cases, *heads)
    for row in far.frame.to_dict(orient="records"):
        cells = [interval(row[name], row[f"{name}_ci95"], ".4f") for name in MEASURES]
        table.add_row(*(str(row[case]) for case in far.cases), *cells)
    tables.STDOUT.print(table)


def _print(frame: pd.DataFrame) -> None:
    table = tables.new_table(*(HEADS.get(column, column) for column in frame.columns))
    for row in frame.itertuples(index=False):
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
