"""The optimum as the papers print it, and as its command prints it."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from anabranch.papers.folder import FOLDER, open_paper
from anabranch.scenario import load
from anabranch.statements.wvegas.iterations import WITHOUT_HEADERS
from anabranch.theory.optimum.optimum import optima
from conftest import Anabranch
from theory.optimum.problems import TWO_LINKS


def interval_rates(
    name: str, overrides: Mapping[str, object] = WITHOUT_HEADERS
) -> dict[str, dict[str, float]]:
    """Rates by interval, named as in the papers (`0_100`), of each path (`flow2_1`) and flow.

    The printed optima add up to the links' capacities, so headers are left out.
    """
    found = {}
    for best in optima(load(FOLDER / "wvegas" / f"scenario_{name}.toml", overrides)):
        by_path = {f"{r.flow}_{r.path + 1}": r.rate_mbps for r in best.paths().itertuples()}
        label = f"{best.interval.from_s:g}_{best.interval.to_s:g}"
        found[label] = by_path | {r.flow: r.rate_mbps for r in best.flows().itertuples()}
    return found


@pytest.fixture(scope="module")
def printed():
    return open_paper("wvegas").items


def test_figure_3_of_wvegas(printed):
    (found,) = interval_rates("fig2a").values()
    optimum = printed["fig3"].metrics["rate_mbps"].theory["optimum"]
    assert {key: found[key] for key in optimum} == pytest.approx(optimum, abs=5e-5)


def test_headers_take_their_part_of_every_printed_rate(printed):
    # 54 of 1054 bytes are headers. With log utility the optimum is proportional to the capacities.
    (found,) = interval_rates("fig2a", {}).values()
    optimum = printed["fig3"].metrics["rate_mbps"].theory["optimum"]
    goodput = {key: rate * 1000 / 1054 for key, rate in optimum.items()}
    assert {key: found[key] for key in optimum} == pytest.approx(goodput, abs=5e-5)


def test_the_triangle_of_wvegas(printed):
    (found,) = interval_rates("fig1b").values()
    optimum = printed["fig4"].metrics["rate_mbps"].theory["optimum"]
    for flow in ("flow1", "flow2", "flow3"):
        assert found[f"{flow}_1"] == pytest.approx(optimum["one_hop"], abs=5e-5)
        assert found[f"{flow}_2"] == pytest.approx(optimum["two_hop"], abs=5e-5)


@pytest.mark.parametrize("path", [1, 2])
def test_table_2_of_wvegas(printed, path):
    found = interval_rates("fig1a")
    optimum = printed["table2"].metrics[f"rate_2_{path}"].theory["optimum"]
    rate = {key: found[key][f"flow2_{path}"] for key in optimum}
    assert rate == pytest.approx(optimum, abs=5e-5)


def test_the_domino_effect_of_wvegas_and_the_ranges_of_its_optima(printed):
    network, facts = "scenario_domino.toml", printed["fig8"].metrics
    for best in optima(load(FOLDER / "wvegas" / network, WITHOUT_HEADERS)):
        label = f"{best.interval.from_s:g}_{best.interval.to_s:g}"
        ours = {f"{label}.{r.flow}": r.rate_mbps for r in best.flows().itertuples()}
        theirs = facts["flow_mbps"].theory["optimum"]
        known = ours.keys() & theirs.keys()
        assert {k: ours[k] for k in known} == pytest.approx({k: theirs[k] for k in known}, abs=6e-3)
        frame = best.paths(split=True)
        for column in ("least", "most"):
            theirs = facts["rate_mbps"].theory[f"optimum_{column}"]
            for row in frame.itertuples():
                key = f"{label}.{row.flow}_{row.path + 1}"
                if key in theirs:
                    assert getattr(row, f"{column}_mbps") == pytest.approx(theirs[key], abs=6e-3)


def test_the_optima_of_the_olia_draft():
    # Proportional fairness: 1 Mbps for everybody in A and C, 2.1 in B, 63 in all (table 2).
    for name, expected in (("a", 1.0), ("b", 2.1), ("c", 1.0)):
        (best,) = optima(load(FOLDER / "olia" / f"scenario_{name}.toml"))
        assert best.user_rate == pytest.approx(expected, abs=1e-4)
    (best,) = optima(load(FOLDER / "olia" / "scenario_b.toml"))
    assert best.user_rate.sum() == pytest.approx(63, abs=1e-3)


@pytest.fixture
def two_links(tmp_path: Path) -> Path:
    file = tmp_path / "two.toml"
    file.write_text(TWO_LINKS)
    return file


def test_the_command_prints_json_and_fixed_points_beside(two_links: Path, anabranch: Anabranch):
    done = anabranch("theory", "optimum", two_links, "-a", "reno,lia", "--split", "--json")
    assert done.returncode == 0, done.stderr
    (interval,) = json.loads(done.stdout)["intervals"]
    assert [flow["rate_mbps"] for flow in interval["flows"]] == pytest.approx([5] * 3, abs=1e-3)
    assert interval["relative_gap"] < 1e-5
    assert interval["paths"][0]["most_mbps"] == pytest.approx(1, abs=1e-3)
    # Uncoupled, `both` is one of two users on each link: 3 and 4.5.
    assert interval["fixed_points_mbps"]["reno"]["both"] == pytest.approx(7.5, abs=1e-3)


def test_the_command_prints_tables(two_links: Path, anabranch: Anabranch):
    done = anabranch("theory", "optimum", two_links, "--utility", "alpha=2")
    assert done.returncode == 0, done.stderr
    assert "both    1       5.0000" in done.stdout
    assert "yes" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--utility", "sum"], "expected log"),
        (["--weight", "both"], "expected FLOW=W"),
        (["--probing", "--rtt-ms", "1"], "infeasible"),
        (["-a", "vegas"], "vegas has no fixed point by losses alone"),
        (["-a", "olla"], "olla"),
    ],
)
def test_the_command_reports_invalid_input_in_one_line(
    two_links: Path, anabranch: Anabranch, arguments: list[str], message: str
):
    done = anabranch("theory", "optimum", two_links, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr
