"""The figures of a result."""

from pathlib import Path

import anabranch
from anabranch.figures import result as figures


def test_figures_have_a_bar_or_panel_per_flow_and_algorithm(small: Path) -> None:
    result = anabranch.run(small, ["lia", "olia"], seeds=2)
    (bars,) = result.plot().axes
    assert len(bars.patches) == 2 * 2
    assert [label.get_text() for label in bars.get_xticklabels()] == ["two", "one\n(reno)"]
    windows = result.plot("windows").axes
    assert [(a.get_title(loc="left"), len(a.lines)) for a in windows] == [
        ("two (lia)", 2),
        ("two (olia)", 2),
        ("one (reno), beside lia", 1),
        ("one (reno), beside olia", 1),
    ]
    assert len(result.plot("queues").axes) == 2 * 2


def test_the_same_result_gives_the_same_figures(small: Path, tmp_path: Path) -> None:
    result = anabranch.run(small, seeds=2)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        figures.write(result, tmp_path / name)
    files = sorted(p.name for p in (tmp_path / "first").iterdir())
    assert len(files) == 6
    for name in files:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()
