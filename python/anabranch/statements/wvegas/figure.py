"""The figure of wVegas' iterations: rates, prices of paths, and errors by step."""

from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from anabranch.figures.style import LIMITS, SHEET, colours, plain_log
from anabranch.statements.wvegas.iterations import Convergence

COLOURS = colours("olia", "lia", "rsf-db", "balia", "coupled", "cubic")
"""Colours of paths; the first three also of iterations."""


def figure(found: Sequence[Convergence]) -> Figure:
    """A row per network."""
    with matplotlib.rc_context(SHEET):
        made = Figure(figsize=(10.5, 3.4 * len(found)))
        rows = made.subplots(len(found), 3, squeeze=False)
        for one, (rates, prices, errors) in zip(found, rows, strict=True):
            _rates(rates, one)
            _prices(prices, one)
            _errors(errors, one)
            rates.set_title(one.name)
            prices.set_title("what the paths of one user cost")
            errors.set_title("the three iterations")
    return made


def _rates(axes: Axes, one: Convergence) -> None:
    """Rates of algorithm 2 as full lines, the optimum dashed."""
    iteration = one.iterations[0]
    steps = np.arange(iteration.steps + 1)
    for path, label in enumerate(one.labels):
        colour = COLOURS[path % len(COLOURS)]
        axes.plot(steps, iteration.rate[:, path], color=colour, linewidth=1.2, label=label)
        axes.axhline(one.optimum[path], color=colour, linewidth=0.8, linestyle="--")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("rate (Mbps)")
    axes.set_xlabel("step of algorithm 2")
    _legend(axes)


def _prices(axes: Axes, one: Convergence) -> None:
    """Prices of the paths of users with several paths: equal on paths in use."""
    iteration = one.iterations[0]
    prices = iteration.price @ one.routes
    for path, label in enumerate(one.labels):
        if "-" in label:
            axes.plot(prices[:, path], color=COLOURS[path % len(COLOURS)], label=label)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("price (per Mbps)")
    axes.set_xlabel("step of algorithm 2")
    _legend(axes)


def _errors(axes: Axes, one: Convergence) -> None:
    """The largest error over the paths of each iteration, on log axes."""
    for iteration, colour in zip(one.iterations, COLOURS, strict=False):
        error = iteration.error(one.optimum)
        axes.loglog(np.arange(1, len(error) + 1), error, color=colour, label=iteration.name)
    axes.axhline(one.within_mbps, color=LIMITS, linewidth=0.8, linestyle=":")
    axes.set_ylabel("farthest from the optimum (Mbps)")
    axes.set_xlabel("step")
    plain_log(axes, "xy")
    _legend(axes)


def _legend(axes: Axes) -> None:
    """A legend below the axes, clear of the lines."""
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=3, fontsize="small")
