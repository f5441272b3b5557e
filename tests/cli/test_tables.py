"""Tables on the terminal: their widths, and what they say of the runs."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import anabranch
from anabranch.cli import comparison, sweep, tables
from anabranch.cli.tables import new_table
from anabranch.scenario import Scenario
from conftest import SMALL, Anabranch

CELLS = [f"{number}.341 ± 0.104" for number in range(8)]


def printed(width: int, prose: str = "short") -> list[str]:
    table = new_table("", "what", *(f"goodput of {n} (Mbps)" for n in range(8)), keys=1)
    table.add_row("two-path", prose, *CELLS)
    out = StringIO()
    Console(file=out, width=width).print(table)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_no_line_is_wider_than_the_terminal_and_no_cell_is_cut(width: int) -> None:
    lines = printed(width)
    assert max(map(len, lines)) <= width
    for cell in CELLS:
        assert any(cell in line for line in lines), f"{cell} is cut at {width} columns"


def test_columns_that_do_not_fit_continue_below_with_the_first_column_repeated() -> None:
    # 8 + 2 + 5 + 8 * (2 + 13) = 135 columns are needed, and 80 given: two tables.
    assert sum(line.startswith("two-path") for line in printed(80)) == 2
    assert sum(line.startswith("two-path") for line in printed(135)) == 1


def test_prose_wraps_beside_numbers_that_do_not() -> None:
    lines = printed(160, prose="a sentence about the rule " * 4)
    assert max(map(len, lines)) <= 160
    assert all(any(cell in line for line in lines) for cell in CELLS)
    assert sum("sentence" in line for line in lines) > 1


def test_a_sweep_repeats_every_key_in_each_table_of_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, small: Path
) -> None:
    out = StringIO()
    monkeypatch.setattr(sweep, "STDOUT", Console(file=out, width=40))
    grid = {"links.R1.rate_mbps": [5], "links.R2.delay_ms": [7], "flows.two.count": [3]}
    sweep.show_sweep(anabranch.sweep(small, grid, ["lia", "olia"], seeds=1))
    rows = [line.split()[:4] for line in out.getvalue().splitlines() if line.startswith("5 ")]
    assert len(rows) >= 2 * 2  # several tables of two rows
    assert rows == [["5", "7", "3", "lia"], ["5", "7", "3", "olia"]] * (len(rows) // 2)


def test_the_header_of_a_dotted_key_is_folded_after_its_dots() -> None:
    table = new_table("links.left.rate_mbps", "goodput of\nall (Mbps)")
    table.add_row("5", "1")
    out = StringIO()
    Console(file=out, width=24).print(table)
    assert [line.split()[0] for line in out.getvalue().splitlines()[:3]] == [
        "links.",
        "left.",
        "rate_mbps",
    ]


MORE = "49 more flows: --json and --out have all of them."


@pytest.fixture
def many(small: Path) -> Path:
    """The scenario `small` with 149 flows."""
    flow = '\n[[flows]]\nname = "f{}"\nalgorithm = "reno"\npaths = [["R2"]]\n'
    small.write_text(small.read_text() + "".join(map(flow.format, range(147))))
    return small


def test_a_table_has_a_hundred_flows_and_a_line_that_counts_the_others(
    many: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables.run(anabranch.run(many, "lia", seeds=1))
    flows, links = capsys.readouterr().out.split("\nalgorithm")
    assert len(rows(flows, "lia", "reno")) == 100
    assert flows.rstrip().endswith(f"\n{MORE}")
    assert "more" not in links


def test_several_algorithms_share_the_rows_of_a_table(
    many: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = anabranch.run(many, ["lia", "olia"], seeds=1)
    tables.run(result)
    flows = capsys.readouterr().out.split("\nalgorithm")[1]
    assert len(rows(flows, "lia")) == len(rows(flows, "olia")) == 50
    assert "\n99 more flows: " in flows
    comparison.comparison([result])
    printed = capsys.readouterr().out
    assert len(rows(printed, "RTT of")) == 100
    assert f"\n{MORE}\n" in printed


def test_a_sweep_has_columns_of_a_hundred_flows(
    many: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep.show_sweep(anabranch.sweep(many, {"links.R1.rate_mbps": [5]}, ["lia"], seeds=1))
    printed = capsys.readouterr().out
    assert "f97," in printed
    assert "f98" not in printed
    assert f"\n{MORE}\n" in printed


def test_an_equilibrium_has_rows_of_a_hundred_flows(many: Path, anabranch: Anabranch) -> None:
    printed = anabranch("theory", "equilibrium", many).stdout
    assert len(rows(printed, "f")) == 98 + 1  # and the header
    assert "\n49 more flows: --json has all of them.\n" in printed


OWN = {"flows.two.algorithm": "balia"}
"""With it every flow of the scenario `small` names its own algorithm."""


def rows(printed: str, *first: str) -> list[list[str]]:
    """The leading words of the lines that begin with one of these words."""
    return [line.split()[:3] for line in printed.splitlines() if line.startswith(first)]


def test_a_flow_is_in_the_row_of_its_own_rule(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables.run(anabranch.run(small, "lia", seeds=1))
    flows, links = capsys.readouterr().out.split("\nalgorithm")
    assert rows(flows, "rule", "lia", "reno") == [
        ["rule", "flow", "users"],
        ["lia", "two", "2"],
        ["reno", "one", "1"],
    ]
    assert [row[:2] for row in rows(links, "lia")] == [["lia", "R1"], ["lia", "R2"]]


def test_several_algorithms_tell_the_runs_apart_beside_the_rule(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables.run(anabranch.run(small, ["lia", "olia"], seeds=1))
    flows = capsys.readouterr().out.split("\nalgorithm")[1]
    assert rows(flows, "lia", "olia") == [
        ["lia", "lia", "two"],
        ["lia", "reno", "one"],
        ["olia", "olia", "two"],
        ["olia", "reno", "one"],
    ]


def test_without_own_rules_the_table_has_one_column_of_names(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables.run(anabranch.run(small, "reno", seeds=1))
    assert rows(capsys.readouterr().out, "algorithm")[0] == ["algorithm", "flow", "users"]


def test_a_comparison_says_what_a_flow_of_its_own_rule_ran(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    comparison.comparison([anabranch.run(small, ["lia", "olia"], seeds=1)])
    printed = capsys.readouterr().out
    assert "2× two, Mbps each" in printed
    assert "one (reno), Mbps" in printed


def test_the_summary_has_the_rule(small: Path) -> None:
    summary = anabranch.run(small, ["lia", "olia"], seeds=1).summary()
    assert list(summary[["algorithm", "flow", "rule"]].itertuples(index=False, name=None)) == [
        ("lia", "two", "lia"),
        ("lia", "one", "reno"),
        ("olia", "two", "olia"),
        ("olia", "one", "reno"),
    ]


def test_a_comparison_of_equal_runs_is_a_warning_with_the_remedy(small: Path) -> None:
    result = anabranch.run(small, ["lia", "olia"], seeds=1, set=OWN)
    assert result.warnings == [
        f"{small}: every flow names its own algorithm: two (balia), one (reno): the runs of lia, "
        "olia are the same: remove `algorithm` of a flow"
    ]
    assert anabranch.run(small, ["lia", "olia"], seeds=1).warnings == []
    assert anabranch.run(small, "olia", seeds=1, set=OWN).warnings == []
    swept = anabranch.sweep(small, {"flows.two.algorithm": ["lia", "olia"]}, ["reno", "balia"], 1)
    assert swept.warnings == []


def test_seeds_that_change_nothing_are_said_with_what_would_change_it(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = SMALL.replace("queue.red = {}\n", "").replace("start_spread_s = 1\n", "")
    text = text.replace("[[flows]]\n", "[[flows]]\nstart_spread_s = 0\n")
    fixed = anabranch.run(Scenario.parse(text), "lia", seeds=2)
    for result, hint in ((fixed, f"{tables.CHANCE}\n"), (anabranch.run(small, "lia"), "")):
        tables.run(result)
        out, err = capsys.readouterr()
        assert (err, "deterministic: the same with 2 seeds" in out) == (hint, bool(hint))
