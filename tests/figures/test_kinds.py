"""Each kind of figure shows what it is about; widths, axes of the caller, fonts of a PDF."""

import re
from dataclasses import replace
from pathlib import Path

import matplotlib.colors
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

import anabranch
from anabranch.figures import result as figures
from anabranch.figures.panels import one_trajectory, over_seeds
from anabranch.figures.result import KINDS, write
from anabranch.figures.style import style
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


def test_figures_show_the_first_50_of_many_flows_and_say_so(small: Path) -> None:
    many = "".join(f'\n[[flows]]\nname = "f{i}"\npaths = [["R2"]]\n' for i in range(49))
    small.write_text(small.read_text() + many)
    result = anabranch.run(small, "lia", seeds=1)
    (bars,) = result.plot().axes
    assert len(bars.patches) == 50
    assert bars.get_title(loc="left").endswith(", 50 of 51 flows")
    for kind in ("windows", "goodput-rtt", "rtt"):
        figure = result.plot(kind)
        assert len(figure.axes) == 50
        assert ", 50 of 51 flows" in figure.get_suptitle()
    rates = result.plot("rates")
    assert len(rates.axes[0].collections) == 50
    assert ", 50 of 51 flows, " in rates.get_suptitle()
    network = result.plot("network")
    words = [text.get_text() for text in network.axes[0].texts]
    assert "f47" in words
    assert "f48" not in words
    assert network.axes[0].get_title(loc="left").endswith("network, 50 of 51 flows")


def test_times_of_files_of_the_first_50_of_many_flows_are_shown(tmp_path: Path) -> None:
    file = tmp_path / "files.toml"
    link = 'algorithm = "lia"\nmeasure.duration_s = 5\nlinks.L = { rate_mbps = 9, delay_ms = 1 }\n'
    flow = '[[flows]]\nname = "f{}"\npaths = [["L"]]\nworkload.file.bytes = 3000\n'
    file.write_text(link + "".join(map(flow.format, range(51))))
    figure = anabranch.run(file, seeds=1).plot("completion")
    assert len(figure.axes) == 50
    assert ", 50 of 51 flows" in figure.get_suptitle()


def test_a_run_without_a_sample_has_a_figure_without_panels(small: Path, tmp_path: Path) -> None:
    result = anabranch.run(small, "lia", seeds=1, set={"measure.sample_ms": 1e6})
    assert result.path_samples.empty
    figures.write(result, tmp_path, width_cm=8.8)
    assert result.plot("windows").axes == []


def test_the_same_result_gives_the_same_figures(small: Path, tmp_path: Path) -> None:
    result = anabranch.run(small, seeds=2)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        figures.write(result, tmp_path / name)
    files = sorted(p.name for p in (tmp_path / "first").iterdir())
    assert len(files) == 6
    for name in files:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()


def test_the_caption_says_why_there_is_no_interval(small: Path) -> None:
    assert over_seeds(anabranch.run(small, "lia", seeds=1)) == "one trajectory, one seed"
    several = anabranch.run(small, "lia", seeds=2)
    assert over_seeds(several) == "means and 95 % intervals over 2 seeds"
    assert one_trajectory(anabranch.run(small, "lia", on="equilibrium")) == (
        "computed, without seeds"
    )
    at_once = {f"flows[{i}].start_spread_s": 0 for i in (0, 1)}
    queues = {f"links.R{i}.queue": {"drop_tail": {"packets": 20}} for i in (1, 2)}
    fixed = anabranch.run(small, "lia", seeds=3, set=at_once | queues)
    assert over_seeds(fixed) == "one trajectory, the same with 3 seeds"


def test_each_number_of_one_trajectory_is_marked_in_json(small: Path) -> None:
    one, several = (anabranch.run(small, "lia", seeds=seeds).as_dict() for seeds in (1, 2))
    for document, expected in (one, True), (several, False):
        assert document["one_trajectory"] is expected
        for table in "flows", "links", "totals":
            assert {row["one_trajectory"] for row in document[table]} == {expected}
    computed = anabranch.run(small, "lia", on="equilibrium").as_dict()
    assert computed["one_trajectory"] is False
