"""The kinds of figures of a Result, and how they are written."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from anabranch.figures import network, over_time, per_rule, sweep
from anabranch.figures.panels import Drawing, render
from anabranch.figures.style import save
from anabranch.result import Result
from anabranch.scenario import expected_one_of

KINDS: dict[str, Callable[[Result], Drawing]] = {
    "goodput": per_rule.goodput,
    "windows": over_time.windows,
    "queues": over_time.queues,
    "goodput-rtt": per_rule.goodput_rtt,
    "rates": over_time.rates,
    "plane": over_time.plane,
    "rtt": per_rule.rtt,
    "completion": per_rule.completion,
    "network": network.network,
}
"""The kinds for runs of one scenario."""

NARROWEST_CM, WIDEST_CM = 4.0, 100.0
"""Widths of figures."""

WRITTEN = ("goodput", "windows", "queues")
"""The kinds that --out writes; the others are drawn by `anabranch plot`."""


def draw(result: Result, kind: str, ax: Any = None, width_cm: float | None = None) -> Figure:
    """A figure of this kind. Raises ValueError where the result has no such figure."""
    if width_cm is not None and not NARROWEST_CM <= width_cm <= WIDEST_CM:
        limits = f"{NARROWEST_CM:g} to {WIDEST_CM:g} cm"
        raise ValueError(f"width_cm = {width_cm!r}: expected {limits}, or None")
    if kind not in KINDS and kind != "sweep":
        raise ValueError(f"unknown figure {kind!r}: {expected_one_of(kind, [*KINDS, 'sweep'])}")
    swept = len(result.cases) > 1
    if swept and kind not in ("sweep", "network"):
        raise ValueError('figures show one point of a sweep: plot the run of one, or plot("sweep")')
    if kind == "sweep" and not swept:
        raise ValueError("sweep: nothing was swept, all runs have the same values")
    drawing = sweep.sweep(result) if kind == "sweep" else KINDS[kind](result)
    return render(drawing, width_cm, ax)


def write(
    result: Result,
    directory: Path,
    formats: Sequence[str] = ("svg", "png"),
    width_cm: float | None = None,
    kinds: Sequence[str] = WRITTEN,
) -> None:
    """Write figures into an existing directory in these formats; "latex" writes the tables."""
    pictures = [form for form in formats if form != "latex"]
    for kind in kinds if pictures else ():
        save(draw(result, kind, width_cm=width_cm), directory / kind, pictures)
    if "latex" in formats:
        for name, text in result.latex_tables().items():
            (directory / f"{name}.tex").write_text(text, encoding="utf-8")
