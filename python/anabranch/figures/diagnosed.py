"""The paths of a diagnosed connection over time, and what its buffers hold."""

from functools import partial
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from anabranch.figures.panels import Drawing, Panel, render
from anabranch.figures.style import LABELS, colours, save
from anabranch.scenario import ScenarioError

FORMATS = ("svg", "png", "pdf")
WINDOW, OTHER = colours("olia", "lia")
"""Colours of samples in which a path's own window holds it, and of others."""


def write(paths: pd.DataFrame, totals: pd.DataFrame, caption: str, file: Path) -> None:
    """Write the figure of `anabranch.diagnose.report.samples`. Raises `ScenarioError`."""
    form = file.suffix.removeprefix(".")
    if form not in FORMATS:
        raise ScenarioError(f"{file}: expected a name that ends with {', '.join(FORMATS)}")
    if file.exists():
        raise ScenarioError(f"{file}: exists already: name a new file")
    if paths["time_s"].nunique() < 2:
        raise ScenarioError(f"{file}: a picture needs two samples: take ss twice, or a capture")
    save(render(drawing(paths, totals, caption)), file.with_suffix(""), [form])


def drawing(paths: pd.DataFrame, totals: pd.DataFrame, caption: str) -> Drawing:
    """A column per path with rate, RTT and window; below them the connection's data."""
    rows = (("rate (Mbps)", _rate), ("RTT (ms)", _rtt), ("packets", _window))
    panels = [
        Panel(partial(draw, of_path), str(name) if not i else "", "time (s)", label, row=label)
        for i, (label, draw) in enumerate(rows)
        for name, of_path in paths.groupby("path", sort=False)
    ]
    known = [name for name in TOTALS if totals[name].notna().any()]
    if known:
        draw = partial(_totals, totals, known)
        panels.append(Panel(draw, "", "time (s)", "connection (kB)", row="all", legend=True))
    return Drawing(panels, caption, max(5.0, 2.5 * paths["path"].nunique()), 1.3)


TOTALS = {
    "unacknowledged_bytes": "unacknowledged",
    "window_bytes": "receive window",
    "buffer_bytes": "send buffer",
}


def _rate(rows: pd.DataFrame, axes: Axes) -> None:
    axes.step(rows["time_s"], rows["rate_mbps"], where="pre", color=WINDOW)


def _rtt(rows: pd.DataFrame, axes: Axes) -> None:
    axes.plot(rows["time_s"], rows["rtt_ms"], color=WINDOW)
    axes.plot(rows["time_s"], rows["minrtt_ms"], "--", color=LABELS, linewidth=0.8)


def _window(rows: pd.DataFrame, axes: Axes) -> None:
    """In flight, by what holds it, below the window."""
    axes.plot(rows["time_s"], rows["window_packets"], "--", color=LABELS, linewidth=0.8)
    for full, colour in ((True, WINDOW), (False, OTHER)):
        some = rows[rows["full"] == full]
        axes.plot(some["time_s"], some["in_flight_packets"], "o", color=colour, markersize=2.5)


def _totals(totals: pd.DataFrame, known: list[str], axes: Axes) -> None:
    for name, style in zip(known, ("-", "--", ":"), strict=False):
        axes.plot(totals["time_s"], totals[name] / 1e3, style, label=TOTALS[name])
