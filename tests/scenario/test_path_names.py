"""Paths go by the names of their links."""

from pathlib import Path

import anabranch
from anabranch.scenario import path_names
from conftest import SMALL


def test_links_are_joined_and_equal_paths_are_numbered(small: Path) -> None:
    paths = 'paths = [["R1", "R2"], { links = ["R2"], return_delay_ms = 5 }, ["R2"]]'
    small.write_text(SMALL.replace('paths = [["R1"], ["R2"]]', paths))
    names = path_names(anabranch.load(small))
    assert names == {"two": ["R1+R2", "R2 (1)", "R2 (2)"], "one": ["R2"]}


def test_the_figure_of_windows_names_the_links(small: Path) -> None:
    figure = anabranch.run(small, seeds=1).plot("windows")
    (legend,) = [axes.get_legend() for axes in figure.axes if axes.get_legend()]
    assert [text.get_text() for text in legend.get_texts()] == ["via R1", "via R2"]
