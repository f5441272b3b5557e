"""The drawing of a scenario's network: every flow, link and path is in it, and nothing overlaps."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from anabranch._core import Scenario
from anabranch.figures.network import topology
from anabranch.papers.folder import FOLDER
from anabranch.scenario import load

FILES = sorted(FOLDER.glob("*/scenario*.toml"))

TWO_HOPS = """
algorithm = "lia"
seeds = [1]
measure.duration_s = 10
links.A = { rate_mbps = 9, delay_ms = 5 }
links.B = { rate_mbps = 9, delay_ms = 5 }
links."C<D" = { rate_mbps = 9, delay_ms = 5 }
"""


def flow(*paths: str) -> str:
    """A flow over these paths, each written as "A B" for the links A and B."""
    links = [[f'"{link}"' for link in path.split()] for path in paths]
    lists = ", ".join(f"[{', '.join(path)}]" for path in links)
    return f'[[flows]]\nname = "over {" and ".join(paths)}"\npaths = [{lists}]\n'


def drawn(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(str(topology(Scenario.parse(text).network())))


def boxes(svg: ElementTree.Element) -> list[tuple[float, float]]:
    return [(float(box.attrib["x"]), float(box.attrib["y"])) for box in svg.iter("rect")]


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_every_scenario_of_the_papers_is_drawn(file: Path) -> None:
    network = load(file).network()
    svg = ElementTree.fromstring(str(topology(network)))
    words = {text.text for text in svg.iter("tspan")}
    assert {link["name"] for link in network["links"]} <= words
    paths = [path for one in network["flows"] for path in one["paths"]]
    assert len(list(svg.iter("path"))) == len(paths)
    height = float(svg.attrib["height"])
    assert all(float(text.attrib["y"]) < height for text in svg.iter("tspan"))


def test_a_link_is_right_of_the_links_before_it() -> None:
    # A is the first link of one path and the second of the other.
    (a_x, a_y), (b_x, b_y) = boxes(drawn(TWO_HOPS + flow("A", "B A")))
    assert a_x > b_x
    assert a_y != b_y  # the path that goes to A alone passes beside B


def test_links_in_a_circle_are_drawn_once_per_hop() -> None:
    assert len(boxes(drawn(TWO_HOPS + flow("A B") + flow("B A")))) == 4


def test_names_are_escaped() -> None:
    svg = str(topology(Scenario.parse(TWO_HOPS + flow("C<D")).network()))
    assert "C&lt;D" in svg
    assert not re.search("C<D", svg)
