"""Each kind of figure shows what it is about; widths, axes of the caller, fonts of a PDF."""

import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

import anabranch
from anabranch.figures.result import KINDS, write
from anabranch.result import Result
from conftest import SMALL, Anabranch

FILES = SMALL.replace(
    'paths = [["R2"]]\n', 'paths = [["R2"]]\nworkload.file.bytes = 20_000\nstart_s = 3\n'
)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    file = tmp_path_factory.mktemp("kinds") / "files.toml"
    file.write_text(FILES)
    return anabranch.run(file, ["lia", "olia"], seeds=2)


def test_every_kind_says_which_scenario_and_fits_the_width_of_a_column(result: Result) -> None:
    for kind in KINDS:
        figure = result.plot(kind, width_cm=8.8)
        figure.draw_without_rendering()
        assert figure.get_figwidth() == pytest.approx(8.8 / 2.54)
        words = [figure.get_suptitle(), *(axes.get_title(loc="left") for axes in figure.axes)]
        assert any(word.startswith("small") for word in words), kind
        assert texts_outside(figure) == [], kind


def texts_outside(figure: Figure) -> list[str]:
    """The texts that end beyond the sheet, but for ticks that are not shown."""
    sheet = figure.bbox
    shown = [
        text
        for axes in figure.axes
        for text in [axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label, *axes.texts]
    ]
    shown += [text for legend in figure.legends for text in legend.get_texts()]
    boxes = [(text.get_text(), text.get_window_extent()) for text in shown if text.get_text()]
    return [
        text for text, box in boxes if box.x0 < sheet.x0 - 1 or box.x1 > sheet.x1 + 1 or box.y0 < -1
    ]


def test_axes_of_the_caller_are_drawn_in(result: Result) -> None:
    figure, axes = plt.subplots(2, 2)
    assert result.plot("queues", ax=axes) is figure
    assert [len(each.lines) for each in axes.flat] == [1, 1, 1, 1]
    single = axes[0, 0]
    single.clear()
    result.plot("goodput", ax=single)
    assert len(single.patches) == 2 * 2
    with pytest.raises(ValueError, match=r"ax: expected 4 axes, got 1: one for each of R1 \(lia\)"):
        result.plot("queues", ax=single)
    plt.close(figure)


def test_stacked_rates_end_at_the_total_with_equal_shares_dashed(result: Result) -> None:
    axes = result.plot("rates").axes[0]
    top = axes.collections[-1].get_paths()[0].vertices[:, 1].max()
    flows = result.flow_samples
    flows = flows[(flows["seed"] == 1) & (flows["algorithm"] == "lia")]
    total = flows.groupby("time_s")["goodput_mbps"].sum()
    assert top == pytest.approx(total.max())  # 60 samples, so that none is joined
    # Two users of three are of the first flow, so that its edge is at two thirds.
    lines = [line.get_ydata()[0] for line in axes.lines]
    assert lines[0] / lines[1] == pytest.approx(2 / 3)
    assert lines[1] == pytest.approx(total[total.index > 2].mean())


def test_the_distribution_of_files_has_a_step_per_file(result: Result) -> None:
    (axes,) = result.plot("completion").axes
    times = np.sort(result.transfers[result.transfers["algorithm"] == "lia"]["duration_s"])
    line = axes.lines[0]
    assert line.get_xdata() == pytest.approx(times)
    assert line.get_ydata() == pytest.approx([0.5, 1.0])  # a file for each of two seeds


def test_goodput_beside_rtt_has_a_point_per_algorithm(result: Result) -> None:
    axes = result.plot("goodput-rtt").axes[0]
    rows = result.summary().query("flow == 'two'")
    points = [
        (line.get_xdata()[0], line.get_ydata()[0])
        for line in axes.lines
        if line.get_marker() != "None"
    ]
    expected = list(rows[["rtt_ms", "goodput_mbps"]].itertuples(index=False, name=None))
    assert [point for point in points if point in expected] == expected


def test_the_plane_shows_both_windows_after_the_warm_up(result: Result) -> None:
    axes = result.plot("plane").axes[0]
    samples = result.path_samples.query(
        "seed == 1 and algorithm == 'lia' and flow == 'two' and user == 0 and time_s > 2"
    )
    both = [samples[samples["path"] == path]["window_packets"].tolist() for path in (0, 1)]
    assert [list(axes.lines[0].get_xdata()), list(axes.lines[0].get_ydata())] == both


def test_the_network_names_every_flow_and_link(result: Result) -> None:
    (axes,) = result.plot("network").axes
    words = "\n".join(text.get_text() for text in axes.texts)
    for name in ("two × 2", "one", "R1\n10 Mbps, 10 ms", "R2"):
        assert name in words


def test_letters_of_a_pdf_are_of_type_42(result: Result, tmp_path: Path) -> None:
    write(result, tmp_path, ["pdf"], 8.8, ["goodput"])
    fonts = set(
        re.findall(
            rb"/Subtype /(Type3|TrueType|Type0|CIDFontType2)\b",
            (tmp_path / "goodput.pdf").read_bytes(),
        )
    )
    assert b"Type3" not in fonts
    assert b"CIDFontType2" in fonts


def test_latex_tables_have_the_intervals(result: Result) -> None:
    tables = result.latex_tables()
    assert list(tables) == ["flows", "links", "totals", "transfers"]
    assert "goodput mbps" in tables["flows"]
    assert r"\begin{tabular}{lllrrrr}" in tables["flows"]
    assert re.search(r"lia & two & lia & 2 (& \$[\d.]+( \\pm [\d.]+)?\$ ){3}", tables["flows"])
    assert r"\pm" in tables["flows"]
    assert "±" not in tables["flows"]


def test_an_animation_has_the_frames_asked_for(result: Result, tmp_path: Path) -> None:
    from PIL import Image

    result.animate(tmp_path / "a.gif", frames=3)
    with Image.open(tmp_path / "a.gif") as film:
        assert film.n_frames == 3


def test_a_stored_sweep_is_a_curve_or_a_heat_map(
    small: Path, tmp_path: Path, anabranch: Anabranch
) -> None:
    over = ["--over", "links.R1.rate_mbps=5,50", "--over", "links.R2.delay_ms=5,10,20"]
    store, out = tmp_path / "store", tmp_path / "figures"
    assert anabranch("sweep", small, *over, "--seeds", 1, "--out", store, "-q").returncode == 0
    done = anabranch("plot", store, "--out", out, "--format", "svg", "--at", "links.R2.delay_ms=5")
    assert (done.returncode, [file.name for file in out.iterdir()]) == (0, ["sweep.svg"])
    refused = anabranch("plot", store, "--out", out, "--at", "links.R2.delay_ms=6")
    assert "--at links.R2.delay_ms=6: expected one of 5, 10, 20" in refused.stderr


def test_a_heat_map_has_the_goodputs_of_the_grid_and_a_curve_the_swept_values(small: Path) -> None:
    grid = {"links.R1.rate_mbps": [5, 50], "links.R2.delay_ms": [5, 10, 20]}
    result = anabranch.sweep(small, grid, seeds=1)
    first = result.plot("sweep").axes[0]
    (mesh,) = [each for each in first.collections if isinstance(each, QuadMesh)]
    rows = (
        result.summary()
        .query("flow == 'two'")
        .sort_values(["links.R2.delay_ms", "links.R1.rate_mbps"])
    )
    assert list(mesh.get_array().ravel()) == pytest.approx(rows["goodput_mbps"].tolist())
    curve = anabranch.sweep(small, {"links.R1.rate_mbps": [50, 5]}, seeds=1).plot("sweep").axes[0]
    assert curve.lines[0].get_xdata() == pytest.approx([5, 50])
    with pytest.raises(ValueError, match=r"figures show one point of a sweep"):
        result.plot()
