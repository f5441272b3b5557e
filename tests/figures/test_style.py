"""Colours and markers: one pair per algorithm, also for one that is added."""

import pytest
from matplotlib.lines import Line2D

import anabranch
from anabranch.figures import style


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
