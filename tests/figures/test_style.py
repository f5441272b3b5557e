"""Colours, markers, and the size of SVG."""

from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

import anabranch
from anabranch.figures import style
from anabranch.figures.compact import compact
from anabranch.figures.style import APART, DEFICIENCIES, apart, seen


@pytest.mark.parametrize("added", [[], ["new"], ["new", "newer", *map(str, range(30))]])
def test_every_algorithm_of_the_table_has_a_style_of_its_own(
    added: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [rule["name"] for rule in anabranch.rules()] + added
    monkeypatch.setattr(style, "rules", lambda: [{"name": name} for name in names])
    looks = [*(style.style(name) for name in names), *style.OTHERS]
    for colours_or_markers in zip(*looks, strict=True):
        assert len(set(colours_or_markers)) == len(looks)
    for name, look in style.CHOSEN.items():
        assert style.style(name) == look


def test_a_generated_style_can_be_drawn_and_stays_when_another_rule_is_added(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [*style.CHOSEN, "new"]
    monkeypatch.setattr(style, "rules", lambda: [{"name": name} for name in names])
    colour, marker = style.style("new")
    Line2D([], [], color=colour, marker=marker)
    names.append("newer")
    assert style.style("new") == (colour, marker)


def test_several_variants_of_an_algorithm_differ_in_style() -> None:
    twins = ["balia", "balia:cap=inf", "Mine"]
    assert len({style.style(name, twins) for name in twins}) == 3
    assert style.style("balia", twins) == style.style("balia") == style.CHOSEN["balia"]


OLD_LIA, OLD_BALIA = "#e15759", "#59a14f"


def test_full_vision_is_cie_lab() -> None:
    # The primary red of sRGB, as every table of CIE L*a*b* with D65 has it.
    assert seen("#ff0000")[0] == pytest.approx([53.24, 80.09, 67.20], abs=0.03)
    assert seen("#ffffff")[0] == pytest.approx([100, 0, 0], abs=0.03)


@pytest.mark.parametrize("kind", DEFICIENCIES)
def test_a_deficiency_leaves_grey_as_it_is(kind: str) -> None:
    # Each row of Machado's matrices sums to 1, so that equal parts of R, G and B stay equal.
    assert np.sum(DEFICIENCIES[kind], axis=1) == pytest.approx(1, abs=2e-6)


def test_red_and_green_of_equal_lightness_are_one_colour_without_m_cones() -> None:
    one, other = seen(OLD_LIA), seen(OLD_BALIA)
    full, _, deuteranopia, _ = np.linalg.norm(one - other, axis=1)
    assert full > 90
    # Another implementation of the same matrices gave 0.9.
    assert deuteranopia == pytest.approx(0.9, abs=0.05)
    assert apart(one, other) == deuteranopia


def test_two_rules_differ_for_every_kind_of_vision() -> None:
    palette = {name: seen(colour) for name, (colour, _) in style.CHOSEN.items()}
    palette |= {f"other {i}": seen(colour) for i, (colour, _) in enumerate(style.OTHERS)}
    pairs = {(a, b): apart(palette[a], palette[b]) for a, b in combinations(palette, 2)}
    assert len(pairs) >= 18 * 17 / 2
    assert {pair: round(far, 1) for pair, far in pairs.items() if far <= APART} == {}


IMAGES = Path(__file__).parents[2] / "docs" / "img"


def test_the_figures_of_the_documentation_are_small() -> None:
    sizes = {file.name: file.stat().st_size for file in IMAGES.iterdir()}
    assert "two-against-one-kernel.svg" in sizes
    assert {name: size for name, size in sizes.items() if size > 180_000} == {}


def test_repeated_styles_become_classes_and_only_ids_in_use_remain() -> None:
    use = '<use href="#mark" x="1.239" style="fill: red"/>'
    group = '<g clip-path="url(#c)"/><g/>'
    svg = f'<svg><style></style><g id="a">{group}<path id="mark" d="M 0 0"/>{use * 4}</g></svg>'
    short = '<use href="#i1" x="1.24" class="s0"/>'
    path = '<g clip-path="url(#i0)"/><path id="i1" d="M 0 0"/>'
    assert compact(svg) == f"<svg><style>.s0{{fill: red}}</style>{path}{short * 4}</svg>"


def test_a_line_keeps_its_corners_and_curves_stay() -> None:
    line = '<path d="M 1 1 L 2 1 L 3 1 L 3 2 L 4 3 z"/>'
    assert compact(line) == '<path d="M 1 1 3 1 3 2 4 3 z"/>'
    repeated = '<path d="M 1 1 L 3 1 L 3.01 1 L 3 9"/>'
    assert compact(repeated) == '<path d="M 1 1 3 1 3 9"/>'
    curve = '<path d="M 1 1 Q 2 1 3 1 L 4 1"/>'
    assert compact(curve) == curve


def test_a_saved_figure_is_a_document_of_its_size(tmp_path: Path) -> None:
    figure = Figure(figsize=(2, 1))
    figure.add_subplot().contourf([[3, 1], [1, 2]]).set_rasterized(True)
    style.save(figure, tmp_path / "it")
    root = ElementTree.parse(tmp_path / "it.svg").getroot()
    assert (root.get("width"), root.get("height")) == ("144pt", "72pt")
