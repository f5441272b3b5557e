"""Labels: whose bar, point or panel it is, and how high figures are."""

import warnings
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

import anabranch
from anabranch.figures.panels import CM
from anabranch.figures.result import draw
from anabranch.figures.style import OTHERS, style, styles
from anabranch.figures.sweep import sweep
from anabranch.formats import latex_table
from conftest import SMALL, Anabranch


class Mine(anabranch.Rule):
    """A rule of a user."""

    def increase(self, r, paths):  # type: ignore[no-untyped-def]
        return 0.5 / paths[r].window


def bar_names(figure: Figure) -> list[str]:
    """The names under the bars."""
    return [tick.get_text() for tick in figure.axes[0].get_xticklabels(minor=True)]


def test_a_bar_of_a_flow_with_its_own_rule_says_beside_which_it_ran(small: Path) -> None:
    figure = anabranch.run(small, ["lia", "olia"], seeds=1).plot()
    assert bar_names(figure) == ["lia", "olia", "beside lia", "beside olia"]
    flows = [tick.get_text() for tick in figure.axes[0].get_xticklabels()]
    assert flows == ["two", "one\n(reno)"]


RULES = ["lia", "olia", "balia", "cubic", "wvegas", "reno", "coupled-cubic", "balia:cap=2"]


@pytest.mark.parametrize("width_cm", [None, 8.8])
@pytest.mark.parametrize("count", [3, 8])
def test_the_names_of_bars_do_not_overlap(width_cm: float | None, count: int, small: Path) -> None:
    figure = anabranch.run(small, RULES[:count], seeds=1).plot(width_cm=width_cm)
    assert len(bar_names(figure)) == 2 * count
    figure.draw_without_rendering()
    ticks = [*figure.axes[0].get_xticklabels(minor=True), *figure.axes[0].get_xticklabels()]
    boxes = [tick.get_window_extent() for tick in ticks]
    for i, one in enumerate(boxes):
        assert not any(one.overlaps(other) for other in boxes[i + 1 :]), ticks[i].get_text()
        assert figure.bbox.y0 <= one.y0


def test_a_marker_is_an_area_that_an_error_bar_does_not_hide() -> None:
    looks = [*styles().values(), *OTHERS]
    markers = [marker for _, marker in looks]
    # Lines: ticks, plus, cross and the four with three arms.
    assert not {"|", "_", "+", "x", "1", "2", "3", "4"}.intersection(map(str, markers))
    assert len(set(markers)) == len(markers)
    assert style("Mine", ["lia", "olia", "Mine"]) == OTHERS[0]


def test_the_panels_of_a_heat_map_name_the_rule_and_have_the_values_that_ran(small: Path) -> None:
    over = {"links.R1.rate_mbps": [8, 16, 32], "links.R2.rate_mbps": [5, 7]}
    result = anabranch.sweep(small, over=over, algorithm=["lia", "olia"], seeds=1)
    drawing = sweep(result)
    titles = ["two (lia)", "two (olia)", "one (reno), beside lia", "one (reno), beside olia"]
    assert [panel.title for panel in drawing.panels] == titles
    axes = draw(result, "sweep").axes[0]
    assert list(axes.get_xticks()) == [8, 16, 32]
    assert list(axes.get_yticks()) == [5, 7]


def test_a_figure_for_a_column_is_no_higher_than_a_page(small: Path) -> None:
    result = anabranch.run(small, ["lia", "olia", "balia", "reno", "cubic", "wvegas"], seeds=1)
    for kind in ("windows", "queues", "goodput", "rates"):
        figure = draw(result, kind, width_cm=8.8)
        assert figure.get_figheight() <= 24 * CM + 1e-9
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            figure.draw_without_rendering()


@pytest.mark.parametrize("width", [-1, 0, 3.9, 101, float("nan"), float("inf")])
def test_a_width_that_is_none_is_refused(width: float, small: Path) -> None:
    result = anabranch.run(small, seeds=1)
    with pytest.raises(ValueError, match=r"width_cm = .*: expected 4 to 100 cm"):
        result.plot(width_cm=width)


def test_long_names_and_emoji_warn_of_nothing_but_the_font(
    tmp_path: Path, process: Anabranch
) -> None:
    file = tmp_path / "long.toml"
    text = SMALL.replace("R1", "L" * 5000).replace('"two"', f'"{"w" * 5000}"')
    file.write_text(text.replace('"small"', '"\U0001f980"'), encoding="utf-8")
    quiet = process("run", file, "--seeds", 1, "--out", tmp_path / "a", "-q")
    assert (quiet.returncode, quiet.stderr) == (0, "")
    usual = process("run", file, "--seeds", 1, "--out", tmp_path / "b")
    glyphs = [line for line in usual.stderr.splitlines() if "Glyph" in line]
    assert len(glyphs) == 1
    assert glyphs[0].startswith("anabranch: warning: Glyph 129408")
    assert "UserWarning" not in usual.stderr
    assert "layout not applied" not in usual.stderr


def test_numbers_of_a_latex_table_are_in_mathematics_and_to_the_right() -> None:
    rows = {
        "flow": ["a_b", "50 %"],
        "loss_probability": [0.0001893, 0.0],
        "loss_probability_ci95": [8.1e-05, 0.0],
        "goodput_mbps": [30.48, float("nan")],
        "goodput_mbps_ci95": [7.84, float("nan")],
    }
    lines = latex_table(pd.DataFrame(rows)).splitlines()
    assert lines[0] == r"\begin{tabular}{lrr}"
    # Half an interval has two digits, and the mean ends where it does.
    assert lines[4] == r"a\_b & $0.000189 \pm 0.000081$ & $30.5 \pm 7.8$ \\"
    assert lines[5] == r"50 \% & $0$ & -- \\"


def test_the_point_of_a_flow_with_its_own_rule_is_named(small: Path) -> None:
    result = anabranch.run(small, ["lia", "olia"], seeds=1)
    titles = [axes.get_title(loc="left") for axes in draw(result, "goodput-rtt").axes]
    assert titles == ["two", "one (reno)"]
    assert replace(result).plot("plane").axes[0].get_title(loc="left") == "two (lia)"
