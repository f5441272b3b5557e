"""The figure of `theory rent`: where Rosen's condition holds."""

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from anabranch.figures.style import INK, SHEET, colours
from anabranch.statements.rsf.rent import leading_eigenvalue, two_player_edge

COLOURS = colours("lia", "olia", "balia", "rsf-db")


def region() -> Figure:
    """Where Rosen's condition holds: two players by weights, and even weights by concentration."""
    ratios, shares = np.geomspace(1 / 64, 64, 121), np.linspace(0.0, 1.0, 121)[1:-1]
    inside = np.array(
        [[leading_eigenvalue([u, 1 - u], [1, r]) < 0 for r in ratios] for u in shares]
    )
    with matplotlib.rc_context(SHEET):
        figure = Figure(figsize=(8.6, 3.6))
        left, right = figure.subplots(1, 2)
        left.contourf(ratios, shares, inside, levels=[0.5, 1.5], colors=colours("olia"))
        edge = np.array([two_player_edge([1, r]) for r in ratios])
        for side in (-1, 1):
            left.plot(ratios, 0.5 + side * edge / 2, color=INK, lw=1.0)
        left.set_xscale("log", base=4)
        left.xaxis.set_major_formatter("{x:g}")
        left.set_title("Two paths: the condition holds in blue")
        left.set_xlabel("z2 / z1")
        left.set_ylabel("share of path 1")
        for players, colour in zip((2, 3, 5, 8), COLOURS, strict=True):
            # One path has the share s, the others equal parts of the rest.
            big = np.linspace(1 / players, 1.0, 60)[:-1]
            states = [[s, *[(1 - s) / (players - 1)] * (players - 1)] for s in big]
            squares = [float(np.sum(np.square(state))) for state in states]
            values = [leading_eigenvalue(state, np.ones(players)) for state in states]
            right.plot(squares, values, color=colour, label=f"{players} paths")
        right.set_title("Equal weights: it holds below 0")
        right.set_xlabel("sum of squared shares")
        right.set_ylabel("largest eigenvalue")
        right.legend(loc="upper left")
    return figure
