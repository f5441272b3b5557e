"""Colours of the page: visible on both grounds, and flows that are not confused, in any vision."""

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from anabranch.extras.ui.palette import FLOWS, GROUNDS, contrast, palette
from anabranch.figures.style import APART, apart, seen

STYLE = (
    Path(__file__).parents[3] / "python" / "anabranch" / "extras" / "ui" / "static" / "style.css"
)


@pytest.mark.parametrize("scheme", GROUNDS)
def test_every_line_stands_out_from_its_ground(scheme: str):
    colours: dict[str, Any] = palette()[scheme]
    assert f"--card: {GROUNDS[scheme]}" in STYLE.read_text()
    for colour in [*colours["rules"].values(), *colours["flows"], *colours["others"]]:
        assert contrast(colour, GROUNDS[scheme]) >= 3  # WCAG 2.2, 1.4.11


@pytest.mark.parametrize("scheme", GROUNDS)
def test_the_flows_of_a_scenario_are_not_confused(scheme: str):
    colours: dict[str, Any] = palette()[scheme]
    flows = [seen(colour) for colour in colours["flows"]]
    assert len(flows) == len(FLOWS)
    for one, other in combinations(flows, 2):
        assert apart(one, other) >= APART


def test_a_colour_that_stands_out_is_that_of_the_figures():
    colours: dict[str, Any] = palette()["light"]
    assert colours["rules"]["lia"] == "#e75b44"
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
