"""Lines of charts: the samples of the tables, thinned, users of many alike as their mean; and their
colours: visible on both grounds, and flows that are not confused, in any vision."""

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch
from anabranch.extras.ui.palette import FLOWS, GROUNDS, contrast, palette
from anabranch.extras.ui.series import POINTS, Thinner, groups, plan
from anabranch.figures.style import APART, apart, seen

ROOT = Path(__file__).parents[3]


def tables_of(result: anabranch.Result) -> dict:
    return {
        name: {c: frame[c].to_numpy() for c in frame} for name, frame in result.tables().items()
    }


def test_a_line_per_user_and_path_is_that_users_column():
    result = anabranch.run(ROOT / "examples" / "two_against_one.toml", seeds=[1])
    points = Thinner(result.scenario).add(tables_of(result), whole_run=True)
    lines = plan(result.scenario)
    assert lines["users"] == [{"flow": 0, "user": 0}, {"flow": 1, "user": 0}]
    names = result.scenario.flow_names
    for number, line in enumerate(lines["paths"]):
        rows = result.path_samples
        own = (rows["flow"] == names[line["flow"]]) & (rows["user"] == line["user"])
        own &= rows["path"] == line["path"]
        expected = rows[own]["window_packets"].to_numpy()
        found = np.array(points["window"][number], dtype=float)
        assert found == pytest.approx(expected, abs=1e-4, nan_ok=True)


def test_many_users_are_the_mean_of_their_flow():
    values = {"flows.two-path.count": 3}
    result = anabranch.run(ROOT / "examples" / "two_links.toml", seeds=[1], set=values)
    thinner = Thinner(result.scenario)
    points = thinner.add(tables_of(result), whole_run=True)
    stride = round(result.scenario.duration_s / 0.1 / POINTS)
    rows = result.flow_samples
    for number, flow in enumerate(result.scenario.flow_names):
        mean = rows[rows["flow"] == flow].groupby("time_s")["goodput_mbps"].mean().to_numpy()
        expected = mean.reshape(-1, stride).mean(axis=1)
        assert points["goodput"][number] == pytest.approx(expected, abs=1e-3)
    assert [group.users for group in groups(result.scenario)] == [3, 5, 5]
    rows = result.path_samples
    for path in range(2):
        own = rows[(rows["flow"] == "two-path") & (rows["path"] == path)]
        windows = own.pivot(index="time_s", columns="user", values="window_packets").to_numpy()
        expected = np.nanmean(windows[-2 * stride :].reshape(2, stride, 3).mean(axis=1), axis=1)
        assert points["window"][path][-2:] == pytest.approx(expected, abs=1e-3)


def test_pieces_give_the_points_of_the_whole():
    short = {"measure.duration_s": 130, "measure.sample_ms": 100}
    result = anabranch.run(ROOT / "examples" / "two_links.toml", seeds=[1], set=short)
    tables = tables_of(result)
    whole = Thinner(result.scenario).add(tables, whole_run=True)
    pieces = Thinner(result.scenario)
    counts = {"flow_samples": 11, "path_samples": 12, "link_samples": 2}
    found: dict = {}
    for first, last in [(0, 7), (7, 8), (8, 300)]:
        part = {
            name: {c: values[first * n : last * n] for c, values in tables[name].items()}
            for name, n in counts.items()
        }
        extend(found, pieces.add(part))
    extend(found, pieces.add(tables, whole_run=True))
    assert found == whole


def extend(found: dict, points: dict) -> None:
    for name, columns in points.items():
        if name == "time":
            found.setdefault(name, []).extend(columns)
            continue
        lines = found.setdefault(name, [[] for _ in columns])
        for line, column in zip(lines, columns, strict=True):
            line.extend(column)


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
