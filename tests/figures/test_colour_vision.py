"""Colours of figures differ for every kind of colour vision."""

from itertools import combinations

import numpy as np
import pytest

from anabranch.figures import style
from anabranch.figures.style import APART, DEFICIENCIES, apart, seen

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
    palette = {name: seen(colour) for name, (colour, _) in style.styles().items()}
    palette |= {f"other {i}": seen(colour) for i, (colour, _) in enumerate(style.OTHERS)}
    pairs = {(a, b): apart(palette[a], palette[b]) for a, b in combinations(palette, 2)}
    assert len(pairs) >= 18 * 17 / 2
    assert {pair: round(far, 1) for pair, far in pairs.items() if far <= APART} == {}
