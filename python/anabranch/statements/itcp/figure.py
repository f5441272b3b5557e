"""The figure of `theory queueing`: tails beside theorems 1 to 3."""

from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from anabranch.figures.style import DASHES, INK, SHEET, colours
from anabranch.statements.itcp import tail_theorems
from anabranch.statements.itcp.tail_theorems import GRID_S, TOGETHER, Tails

COLOURS = colours("reno", "lia", "olia", "balia", "rsf-db", "coupled")


def tails(found: Tails) -> Figure:
    """Sojourn times of both subnets and the workload of the first, means over seeds."""
    titles = {
        "sojourn1": "Sojourn times, subnet 1",
        "sojourn2": "Sojourn times, subnet 2",
        "workload1": "Workload of subnet 1",
    }
    cases = list(found.tails["case"].unique())
    colour_of = {case: COLOURS[i % len(COLOURS)] for i, case in enumerate(cases)}
    with matplotlib.rc_context(SHEET):
        figure = Figure(figsize=(10.5, 3.9))
        panels = figure.subplots(1, 3, sharey=True)
        for axes, (quantity, title) in zip(panels, titles.items(), strict=True):
            chosen = found.tails[found.tails["quantity"] == quantity]
            for case, rows in chosen.groupby("case", sort=False):
                seen = rows[rows["mean"] > 0]
                axes.loglog(seen["x_s"], seen["mean"], color=colour_of[case], lw=1.4)
                dash = DASHES[2] if quantity == "sojourn1" and case != TOGETHER else DASHES[1]
                column = "within" if quantity == "workload1" else "theory"
                theory = rows[rows[column] > 0]
                axes.loglog(theory["x_s"], theory[column], dash, color=colour_of[case], lw=0.9)
            if quantity != "workload1":
                one = found.traffic[int(quantity[-1]) - 1]
                axes.loglog(GRID_S, tail_theorems.size_tail(one, GRID_S), "-.", color=INK, lw=0.9)
            axes.set_title(title)
            axes.set_xlabel("x (s)")
            axes.set_ylim(1e-6, 1.5)
            axes.xaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_major_formatter("{x:g}")
        panels[0].set_ylabel("P(> x)")
        lines: list[tuple[str, dict[str, Any]]] = [
            (case, {"color": colour_of[case], "lw": 1.4}) for case in cases
        ]
        lines += [
            ("theorem 1; theorem 2 in so long a run", {"color": INK, "ls": "--", "lw": 0.9}),
            ("theorem 3, a lower bound", {"color": INK, "ls": ":", "lw": 0.9}),
            ("file sizes", {"color": INK, "ls": "-.", "lw": 0.9}),
        ]
        handles = [Line2D([], [], label=name, **look) for name, look in lines]
        figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure
