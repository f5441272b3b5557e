"""The curves of a paper's figures on hand-made samples, and their drawings."""

import math
import re
from typing import Any

import pandas as pd
import pytest

from anabranch import Result
from anabranch.experiments import curves
from anabranch.experiments.case import Case
from anabranch.experiments.curves import Curve, Drawing
from anabranch.experiments.drawings import Figure
from anabranch.papers.html import Pictures
from anabranch.papers.report import Item, Report
from anabranch.typed_toml import Where, read
from conftest import blank_report

CASES = [Case("near.lia"), Case("near.olia")]


def result(**tables: pd.DataFrame) -> Result:
    """A Result with these tables."""
    names = ("flows", "paths", "links", "transfers")
    samples = ("flow_samples", "path_samples", "link_samples")
    made = {name: tables.get(name, pd.DataFrame()) for name in names + samples}
    return Result(scenario=None, backend="sim", keys=("case", "algorithm", "seed"), **made)


def windows(cases: list[Case] = CASES) -> dict[Case, Result]:
    """Two cases, two seeds, one user with two paths, four samples.

    Path 0 has the window 10 t, path 1 the window 1; seed 2 has 2 more on path 0, olia twice all.
    """
    return {case: result(path_samples=samples(2 if "olia" in case else 1)) for case in cases}


def samples(scale: int) -> pd.DataFrame:
    rows = [
        {
            "seed": seed,
            "time_s": t,
            "flow": "mp",
            "user": 0,
            "path": path,
            "window_packets": scale * (1 if path else 10 * t + 2 * (seed == 2)),
        }
        for seed in (1, 2)
        for t in (0.5, 1.0, 1.5, 2.0)
        for path in (0, 1)
    ]
    return pd.DataFrame(rows)


def drawn(figure: Any, results: dict[Case, Result]) -> Drawing:
    runs = {case: {1: curves.extract(figure, result)} for case, result in results.items()}
    return curves.together([curves.drawn(figure, runs[case], case) for case in results])


def figure(kind: str, **spec: object) -> Any:
    """A figure as it stands in an `experiments.toml`."""
    return read(Figure, {"kind": kind, **spec}, Where())


WINDOW = {"column": "path_samples.window_packets", "flow": "mp"}


def test_a_series_adds_paths_and_averages_seeds() -> None:
    drawing = drawn(figure("series", lines=[WINDOW]), windows())
    lia, olia = drawing.curves
    assert lia.x == [0.5, 1.0, 1.5, 2.0]
    assert lia.y == [7, 12, 17, 22]  # 10 t + 1 and, with seed 2, two more
    assert olia.y == [14, 24, 34, 44]
    assert (lia.name, lia.algorithm, olia.algorithm) == ("near.lia", "lia", "olia")


def test_a_series_may_be_of_one_seed_path_and_interval() -> None:
    spec = figure("series", lines=[{**WINDOW, "path": 0}], seed=2, from_s=0.5, to_s=1.5)
    (found,) = drawn(spec, windows(CASES[:1])).curves
    assert (found.x, found.y) == ([1.0, 1.5], [12, 17])


def test_a_bin_is_the_mean_of_the_samples_that_end_in_it() -> None:
    spec = figure("series", lines=[{**WINDOW, "path": 0}], seed=1, bin_s=1.0)
    (found,) = drawn(spec, windows(CASES[:1])).curves
    # 5 and 10 end within the first second, 15 and 20 within the next.
    assert (found.x, found.y) == ([0.5, 1.5], [7.5, 17.5])


def test_panels_are_cases_or_lines_and_the_legend_names_the_other() -> None:
    lines = [{**WINDOW, "path": path, "label": f"path{path}"} for path in (0, 1)]
    by_case = drawn(figure("series", lines=lines, panels="case"), windows())
    assert list(by_case.panels) == CASES
    assert [(c.name, c.dash) for c in by_case.panels[CASES[0]]] == [("path0", 0), ("path1", 1)]
    by_line = drawn(figure("series", lines=lines, panels="line"), windows())
    assert list(by_line.panels) == ["path0", "path1"]
    assert [(c.name, c.dash) for c in by_line.panels["path1"]] == [(case, 0) for case in CASES]
    together = drawn(figure("series", lines=lines), windows(CASES[:1]))
    assert [c.name for c in together.curves] == ["near.lia.path0", "near.lia.path1"]


def test_a_line_may_have_another_colour_and_levels() -> None:
    line = {**WINDOW, "algorithm": "reno", "levels": [[0, 1, 5], [1, 2, 7]]}
    drawing = drawn(figure("series", lines=[line]), windows())
    levels = [curve for curve in drawing.curves if not curve.algorithm]  # once for both cases
    assert {curve.algorithm for curve in drawing.curves} == {"reno", ""}
    assert [(level.x, level.y) for level in levels] == [([0, 1], [5, 5]), ([1, 2], [7, 7])]


def test_a_tail_has_its_ccdf_and_the_fitted_line() -> None:
    # P(X >= x) = x^-1 at x = 1000 / i, i = 1 ... 1000.
    durations = [1000 / i for i in range(1, 1001)]
    transfers = pd.DataFrame({"flow": "f", "duration_s": durations, "bytes": 1})
    spec = figure("distribution", tail=True, low_s=2.0, high_s=100.0)
    drawing = drawn(spec, {CASES[0]: result(transfers=transfers)})
    curve, fit = drawing.curves
    assert (curve.panel, fit.panel, drawing.log) == ("near", "near", "xy")
    assert (curve.x[0], curve.y[0], curve.y[-1]) == (1.0, 1.0, 0.001)
    assert re.fullmatch(r"lia\.slope −1\.0\d", fit.name)
    assert fit.x == [2.0, 100.0]
    assert fit.y == pytest.approx([0.5, 0.01], rel=0.05)


def test_a_sweep_has_a_line_per_algorithm_and_a_panel_per_setting() -> None:
    cases = ["a.mb4.lia", "a.mb2.lia", "a.mb2.olia", "b.mb2.lia"]
    means = pd.DataFrame(
        {"case": cases, "value": [4.0, 2.0, 3.0, 9.0], "value_ci95": [0.1, math.nan, 0.3, 0.2]}
    )
    spec = figure("sweep", metric="mbps", over={"mb2": 2, "mb4": 4})
    theory = {"best": {"a.mb4": 5.0, "a.mb2": 2.5}, "worst": {"b": 1.0}}
    drawing = curves.sweep(spec, means, {"a.mb4.lia": 4.4}, theory)
    assert list(drawing.panels) == ["a", "b"]
    lia, published, olia, best = drawing.panels["a"]
    assert (lia.x, lia.y, lia.interval) == ([2, 4], [2, 4], [None, 0.1])
    assert (published.x, published.y, published.mark) == ([4], [4.4], "hollow")
    assert (olia.x, olia.algorithm) == ([2], "olia")
    assert (best.name, best.x, best.y, best.dash) == ("best", [2, 4], [2.5, 5.0], 0)
    assert [(c.name, c.x, c.dash) for c in drawing.panels["b"]] == [
        ("lia", [2], 0),
        ("worst", [2], 1),
    ]


# ------------------------------------------------------------------ drawings
def report(*drawings: Drawing) -> Report:
    item = Item("i", "An item", "Somewhere", [], [], (), drawings)
    algorithms = {"balia": "balia", "capless": "balia:cap=inf", "lia": "lia"}
    labels = {"balia": "Balia", "near": "Near", "capless": "Balia, no cap"}
    return blank_report(items=[item], labels=labels, algorithms=algorithms)


def curve(name: str, algorithm: str, **look: object) -> Curve:
    return Curve(name, algorithm, [1.0, 2.0, 3.0], [1.0, 4.0, 2.0], **look)


def test_curves_have_the_colours_of_their_algorithms_and_the_page_s_ink() -> None:
    drawing = Drawing("", "time (s)", "Mbps", [curve("balia", "balia", panel="near")])
    pictures = Pictures(report(drawing))
    ((svg,),) = pictures.item(pictures.report.items[0])
    green = pictures.colours.index("#70c274")
    assert f"stroke: var(--series-{green})" in svg
    assert "var(--ink)" in svg
    assert "#70c274" not in svg
    assert "Near" in svg


def test_labels_with_the_same_algorithm_differ_in_colour() -> None:
    pictures = Pictures(report())
    colours = [pictures.style(label)[0] for label in ("balia", "capless", "lia")]
    assert len(set(colours)) == 3
    assert colours[0] == "#70c274"


def test_a_legend_has_one_entry_per_name_in_ink_where_panels_differ() -> None:
    paths = [
        curve(f"path{path}", case, dash=path, panel=case)
        for case in ("balia", "lia")
        for path in (0, 1)
    ]
    pictures = Pictures(report())
    handles = pictures.curve_legend(Drawing("", "", "", paths))
    assert [handle.get_label() for handle in handles] == ["path0", "path1"]
    assert {handle.get_color() for handle in handles} == {"#010203"}


def test_the_shared_axes_include_the_curves_of_all_panels() -> None:
    low = curve("a", "lia", panel="near")
    high = Curve("b", "lia", [1.0, 2.0], [40.0, 50.0], panel="far")
    drawing = Drawing("", "x", "y", [low, high])
    ((_legend, *panels),) = Pictures(report(drawing)).item(report(drawing).items[0])
    assert [">40</text>" in svg for svg in panels] == [True, True]


def test_a_logarithmic_axis_has_plain_numbers() -> None:
    drawing = Drawing("", "x", "y", [Curve("lia", "lia", [1, 2], [0.01, 10])], log="y")
    pictures = Pictures(report(drawing))
    text = str(pictures.item(pictures.report.items[0]))
    assert "math" not in text
    assert re.findall(r">([0-9.]+)</text>", text)[-4:] == ["0.01", "0.1", "1", "10"]
