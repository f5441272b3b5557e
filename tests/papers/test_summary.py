"""The summary of all papers: its scores, its record and its page; and tables for LaTeX."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anabranch.cli.main import app
from anabranch.experiments.case import Case
from anabranch.papers import reproduce
from anabranch.papers.judge import Claim, Verdict
from anabranch.papers.report import Item, Report, Row, Score, Summary, Table
from conftest import blank_report

WITHOUT_TERMINAL = """
import sys
sys.modules |= dict.fromkeys(["rich", "typer"])  # as if they were not installed
from anabranch.papers import agreement, html, predictions, reproduce
"""


def report(paper: str, *verdicts: Verdict) -> Report:
    claims = [Claim(f"c{i}", "It is so.", "", v, "1 < 2") for i, v in enumerate(verdicts)]
    item = Item("t", "A table", "Table 1", [], claims)
    bare = Item("f", "A figure without claims", "Figure 1", [], [])
    return blank_report(paper=paper, name=paper.upper(), items=[item, bare])


def numbers(*pairs: tuple[float, float], repeats: bool = False) -> Table:
    """A table of printed and measured numbers."""
    rows = [Row(f"c{i}", said, got, None, {}) for i, (said, got) in enumerate(pairs)]
    return Table("mbps", rows, repeats)


def summary() -> Summary:
    first = report("a", Verdict.HOLDS, Verdict.HOLDS, Verdict.NOT_REPRODUCED)
    return Summary([first, report("b", Verdict.FAILS, Verdict.HUMAN)], "anabranch reproduce all")


def test_papers_need_neither_rich_nor_typer() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_TERMINAL], check=True)


def test_a_summary_counts_every_item_with_a_claim_and_everything() -> None:
    made = summary()
    assert [[item.id for item in one.scored] for one in made.reports] == [["t"], ["t"]]
    assert list(made.score.counts.values()) == [2, 0, 1, 1, 0, 1]
    assert [claim.id for claim in made.failed] == ["c0"]
    assert json.loads(json.dumps(made.as_dict()))["counts"]["holds"] == 2


def test_a_record_has_a_row_for_each_claim() -> None:
    made = summary()
    claims = made.reports[0].items[0].claims
    claims[0] = replace(claims[0], own=True, rests_on=["red", "floor"], because="1 < 2,\nor 3")
    assert made.record() == (
        "paper,claim,own,verdict,compared,rests on\n"
        'a,c0,own,holds,"1 < 2, or 3",red floor\n'
        "a,c1,,holds,1 < 2,\n"
        "a,c2,,not reproduced,1 < 2,\n"
        "b,c0,,fails,1 < 2,\n"
        "b,c1,,needs human judgement,1 < 2,\n"
    )


def test_printed_numbers_are_counted_once_by_their_distance() -> None:
    # 5 % above, 25 % below, 50 % above; not measured; printed 0, which has no relative distance.
    table = numbers((1.0, 1.05), (2.0, 1.5), (1.0, 1.5))
    absent = Table("mbps", [Row("a", 1.0, None, None, {}), Row("b", 0.0, 1.0, None, {})])
    again = numbers((1.0, 1.0), repeats=True)
    same = Table("mbps", [Row("a", 1.0, 1.0, None, {}, inferred=True)])
    score = Score.of([Item("t", "", "", [table, absent, same], []), Item("u", "", "", [again], [])])
    assert (score.numbers, score.within_10, score.within_30) == (3, 1, 2)


def test_our_own_claims_are_counted_apart() -> None:
    claims = [
        Claim("a", "", "", Verdict.HOLDS, ""),
        Claim("b", "", "", Verdict.HOLDS, "", own=True),
        Claim("c", "", "", Verdict.NOT_REPRODUCED, "", own=True),
    ]
    score = Score.of([Item("t", "", "", [], claims)])
    assert list(score.counts.values()) == [1, 0, 0, 0, 0, 0]
    assert list(score.own.values()) == [1, 0, 0, 1, 0, 0]
    assert score.own_in_words() == "1 of 2"


def test_undecided_claims_are_counted_beside_those_that_hold_and_fail_nothing() -> None:
    verdicts = [Verdict.HOLDS, Verdict.UNDECIDED, Verdict.UNDECIDED]
    made = Summary([report("a", *verdicts)], "anabranch reproduce all")
    own = [Claim("d", "", "", Verdict.UNDECIDED, "", own=True)]
    made.reports[0].items[1] = replace(made.reports[0].items[1], claims=own)
    assert made.score.cells[:2] == ["1", "2"]
    assert made.score.cells[len(Verdict)] == "0 of 1, 1 undecided"
    assert (made.failed, [claim.id for claim in made.of("undecided")]) == ([], ["c1", "c2", "d"])
    data = made.as_dict()
    assert (data["counts"]["undecided"], data["undecided"], data["failed"]) == (2, 3, 0)
    text = made.page()
    assert "Undecided claims" in text
    assert "Failed claims" not in text


def test_the_page_of_a_summary_links_every_item_and_names_what_fails() -> None:
    text = summary().page()
    assert 'href="a/report.html#t"' in text
    assert 'href="b/report.html#claim-c0"' in text
    assert "without claims" not in text


def test_all_papers_are_reproduced_and_written(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[float] = []
    made = reproduce.reproduce_all(True, tmp_path / "out", reported.append)
    assert [entry.paper for entry in made.reports] == ["tiny"]
    assert [line.split(",")[:4] for line in made.record().splitlines()[1:]] == [
        ["tiny", claim.id, "own" if claim.own else "", "undecided"]  # by one seed
        for claim in made.reports[0].claims
    ]
    # Both printed numbers, 0.001 and 1000 Mbps, are far from any rate here; the third repeats one.
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (summary["numbers"], summary["within_30"]) == (2, 0)
    assert summary["choices"][0]["claims"] == []
    assert 'href="tiny/report.html#claim-more"' in (tmp_path / "out" / "index.html").read_text()
    assert reported == sorted(reported)
    names = {str(file.relative_to(tmp_path / "out")) for file in (tmp_path / "out").rglob("*.*")}
    assert names == {"index.html", "summary.json", "tiny/report.html", "tiny/report.json"}


# 0.77 is 10 % above 0.70. Three significant digits of 0.77 are three decimals, of 0.01 four.
EXPECTED = r"""% Rates & shares (Table I)
\begin{tabular}{llllll}
\toprule
metric & case & published & measured & difference & fixed point \\
\midrule
type-2 users, Mbps & N1 = 10, LIA & 0.7 & 0.770 ± 0.098 & +10\% & 0.74 \\
type-2 users, Mbps & N1 = 10, OLIA & 0.75 &  &  &  \\
loss\_rate & N1 = 10, LIA &  & 0.0100 &  &  \\
\bottomrule
\end{tabular}
"""


def test_a_table_has_every_number_of_the_page() -> None:
    rates = [
        Row(Case("n1_10.lia"), 0.70, 0.77, 0.0978, {"fixed_point": 0.74}),
        Row(Case("n1_10.olia"), 0.75, None, None, {}),
    ]
    losses = [Row(Case("n1_10.lia"), None, 0.01, None, {})]
    tables = [Table("type2_mbps", rates), Table("loss_rate", losses)]
    item = Item("table1", "Rates & shares", "Table I", tables, [])
    labels = {
        "n1_10": "N1 = 10",
        "lia": "LIA",
        "olia": "OLIA",
        "type2_mbps": "type-2 users, Mbps",
        "fixed_point": "fixed point",
    }
    empty = Item("fig9", "A figure without numbers", "Figure 9", [], [])
    report = blank_report(items=[empty, item], labels=labels, theory={"fixed_point": "..."})
    assert report.latex() == EXPECTED


@pytest.mark.usefixtures("tiny")
def test_reproduce_prints_a_table_per_item_and_nothing_else() -> None:
    printed = CliRunner().invoke(app, ["reproduce", "tiny", "--latex"]).stdout
    assert printed.startswith("% A table (On a table)\n\\begin{tabular}")
    assert printed.endswith("\\end{tabular}\n\n")
    assert printed.count("\\toprule") == printed.count("\\bottomrule") == 2
    assert "Tiny paper" not in printed
