"""Summaries of a Result, on data made by hand; its figures and files."""

import math
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.lines import Line2D

import anabranch
from anabranch.cli import tables
from anabranch.figures import result as figures
from anabranch.figures import style
from anabranch.files import staged
from conftest import SMALL


def made_by_hand(goodputs: dict[int, list[float]]) -> anabranch.Result:
    """One flow of two users with one path each; per seed the goodput of each user, Mbps."""
    flows, paths, links = [], [], []
    for seed, users in goodputs.items():
        keys = {"algorithm": "lia", "seed": seed}
        for user, goodput in enumerate(users):
            sent = 100 * (user + 1)
            row = {**keys, "flow": "f", "user": user, "sent_packets": sent}
            flows.append({**row, "goodput_mbps": goodput, "lost_packets": 3})
            paths.append({**row, "path": 0, "rtt_ms": 40.0 + 30.0 * user})
        link = {"throughput_mbps": sum(users), "utilization": 0.5, "loss_probability": 0.1}
        links.append({**keys, "link": "R", **link, "queue_packets": math.nan})
    tables = {"flows": flows, "paths": paths, "links": links}
    for empty in ("transfers", "flow_samples", "path_samples", "link_samples"):
        tables[empty] = []
    return anabranch.Result(
        scenario=anabranch.Scenario.parse(SMALL),
        backend="sim",
        keys=("algorithm", "seed"),
        **{name: pd.DataFrame(rows) for name, rows in tables.items()},
    )


def test_summary_has_means_over_users_and_intervals_over_seeds() -> None:
    result = made_by_hand({1: [1.0, 3.0], 2: [2.0, 4.0], 3: [3.0, 5.0]})
    (row,) = result.summary().to_dict(orient="records")
    assert (row["algorithm"], row["flow"], row["users"]) == ("lia", "f", 2)
    # The seeds' means are 2, 3, 4: mean 3, standard deviation 1; t(0.975, 2) = 4.30265.
    assert row["goodput_mbps"] == 3.0
    assert row["goodput_mbps_ci95"] == pytest.approx(4.30265 / math.sqrt(3), rel=1e-5)
    # 6 lost of 300 sent, in every seed.
    assert row["loss_probability"] == pytest.approx(0.02)
    assert row["loss_probability_ci95"] == pytest.approx(0.0, abs=1e-12)
    # 40 ms over 100 packets, 70 ms over 200.
    assert row["rtt_ms"] == pytest.approx(60.0)


def test_runs_that_were_too_late_are_marked_in_tables(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = {"algorithm": "lia", "seed": [1, 2], "p99_us": [80.0, 30_016.0]}
    lateness = pd.DataFrame(runs).assign(too_late=[False, True])
    result = replace(made_by_hand({1: [1.0, 3.0], 2: [2.0, 4.0]}), lateness=lateness)
    for write in (tables.run, tables.comparison):
        write(result)
        printed = capsys.readouterr().out
        assert "lia (late)" in printed
        assert printed.count("late: lia, seed 2: packets were delivered up to 30.0 ms late") == 1
        assert "seed 1" not in printed


def test_totals_have_jains_index_over_users() -> None:
    (row,) = made_by_hand({1: [1.0, 3.0]}).totals().to_dict(orient="records")
    assert row["total_goodput_mbps"] == 4.0
    assert row["jain_index"] == pytest.approx(16.0 / 20.0)  # (1 + 3)^2 / (2 (1 + 9))
    assert math.isnan(row["jain_index_ci95"])  # one seed has no interval


def test_jains_index_is_one_for_equal_rates_and_one_nth_if_one_user_has_all() -> None:
    assert anabranch.jain_index([2.0, 2.0, 2.0]) == pytest.approx(1.0)
    assert anabranch.jain_index([5.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert math.isnan(anabranch.jain_index([0.0, 0.0]))


def test_a_value_that_was_not_measured_is_none_in_json() -> None:
    (link,) = made_by_hand({1: [1.0, 3.0]}).as_dict()["links"]
    assert link["throughput_mbps"] == 4.0
    assert link["queue_packets"] is None


def test_parquet_files_hold_the_tables(small: Path, tmp_path: Path) -> None:
    result = anabranch.run(small, ["lia", "olia"], seeds=2)
    result.save(tmp_path / "out")
    for name, table in result.tables().items():
        saved = pd.read_parquet(tmp_path / "out" / f"{name}.parquet")
        pd.testing.assert_frame_equal(saved, table, check_exact=True, obj=name)
    text = (tmp_path / "out" / "scenario.toml").read_text()
    assert anabranch.Scenario.parse(text).text == result.scenario.text


def test_files_appear_together_or_not_at_all(tmp_path: Path) -> None:
    out = tmp_path / "a" / "out"

    def interrupted() -> None:
        with staged(out) as stage:
            (stage / "half").write_text("writ")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []
    with staged(out) as stage:
        (stage / "figures").mkdir()
        (stage / "figures" / "one").write_text("1")
        assert not out.exists()
    assert [p.relative_to(out) for p in out.rglob("*")] == [Path("figures"), Path("figures/one")]


def test_files_are_replaced_and_others_kept(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    (tmp_path / "kept").write_text("kept")
    with staged(tmp_path) as stage:
        (stage / "old").write_text("new")
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"old": "new", "kept": "kept"}


def test_a_file_is_refused_as_output_directory(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("precious")
    for target in (file, file / "below"):
        with pytest.raises(NotADirectoryError), staged(target):
            pytest.fail("entered")
    assert [file] == list(tmp_path.iterdir())
    assert file.read_text() == "precious"


def test_figures_have_a_bar_or_panel_per_flow_and_algorithm(small: Path) -> None:
    result = anabranch.run(small, ["lia", "olia"], seeds=2)
    (bars,) = figures.goodput(result).axes
    assert len(bars.patches) == 2 * 2
    assert [label.get_text() for label in bars.get_xticklabels()] == ["two", "one"]
    windows = figures.windows(result).axes
    assert [(a.get_title(loc="left"), len(a.lines)) for a in windows] == [
        ("two, lia", 2),
        ("two, olia", 2),
        ("one, lia", 1),
        ("one, olia", 1),
    ]
    assert len(figures.queues(result).axes) == 2 * 2


def test_the_same_result_gives_the_same_figures(small: Path, tmp_path: Path) -> None:
    result = anabranch.run(small, seeds=2)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        figures.write(result, tmp_path / name)
    files = sorted(p.name for p in (tmp_path / "first").iterdir())
    assert len(files) == 6
    for name in files:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()


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
