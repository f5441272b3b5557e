"""Figures of a result show what ran, all of it, and say what they show."""

from dataclasses import replace
from pathlib import Path

import matplotlib.colors
import numpy as np
import pytest
from matplotlib.lines import Line2D

import anabranch
from anabranch.figures.style import style

SIX = ["reno", "cubic", "lia", "olia", "balia", "wvegas"]


@pytest.mark.parametrize("rules", [SIX, [rule["name"] for rule in anabranch.rules()]], ids=len)
def test_the_legend_of_one_group_of_bars_is_within_the_figure(
    rules: list[str], small: Path
) -> None:
    alone = {"flows": [{"name": "two", "paths": [["R1"], ["R2"]]}]}
    figure = anabranch.run(small, rules, seeds=1, set=alone).plot()
    figure.draw_without_rendering()
    (legend,) = figure.legends
    box, sheet = legend.get_window_extent(), figure.bbox
    assert [text.get_text() for text in legend.get_texts()] == rules
    assert sheet.x0 <= box.x0 < box.x1 <= sheet.x1
    assert figure.axes[0].get_window_extent().y1 < box.y0
    assert box.y1 <= sheet.y1
    assert figure.axes[0].get_window_extent().height > 0.5 * sheet.height


def test_the_legend_has_the_marker_of_each_algorithm(small: Path) -> None:
    figure = anabranch.run(small, ["lia", "olia"], seeds=1).plot()
    (legend,) = figure.legends
    assert [line.get_marker() for line in legend.findobj(Line2D)] == [
        style("lia")[1],
        style("olia")[1],
    ]


def test_bars_and_lines_have_the_colour_of_the_rule_that_ran(small: Path) -> None:
    result = anabranch.run(small, ["lia", "olia"], seeds=1)
    colours = [patch.get_facecolor() for patch in result.plot().axes[0].patches]
    ran = ["lia", "reno", "olia", "reno"]
    assert colours == [matplotlib.colors.to_rgba(style(rule)[0]) for rule in ran]
    panels = result.plot("windows").axes
    lines = [style(rule)[0] for rule in ("lia", "olia", "reno", "reno")]
    assert [panel.lines[0].get_color() for panel in panels] == lines


def test_a_line_of_a_window_begins_and_ends_with_its_user(small: Path) -> None:
    figure = anabranch.run(
        small, seeds=1, set={"flows.one.start_s": 2.5, "flows.one.stop_s": 4}
    ).plot("windows")
    x, y = figure.axes[1].lines[0].get_data()
    shown = [time for time, window in zip(x, y, strict=True) if window == window]
    assert (min(shown), max(shown)) == (pytest.approx(2.5, abs=0.11), pytest.approx(4, abs=0.11))
    assert figure.axes[1].get_xlim() == figure.axes[0].get_xlim()


def test_no_peak_of_a_window_is_beyond_the_axes(small: Path) -> None:
    result = anabranch.run(small, ["lia", "olia"], seeds=1)
    samples = result.path_samples
    # The panel of OLIA is drawn after that of LIA, and shares its axis.
    higher = samples["window_packets"] * (1 + 2 * (samples["algorithm"] == "olia"))
    result = replace(result, path_samples=samples.assign(window_packets=higher))
    for panel in result.plot("windows").axes:
        top = max(np.nanmax(line.get_ydata()) for line in panel.lines)
        assert top <= panel.get_ylim()[1]


def test_figures_say_which_user_and_seed_they_show(small: Path) -> None:
    result = anabranch.run(small, "lia", seeds=[4, 5])
    windows = result.plot("windows").get_suptitle()
    assert windows == "small, on sim: first user of each flow, seed 4, the first of 2"
    assert result.plot("queues").get_suptitle().endswith("every link, seed 4, the first of 2")
    title = result.plot().axes[0].get_title(loc="left")
    assert title == "small, on sim: means and 95 % intervals over 2 seeds"
