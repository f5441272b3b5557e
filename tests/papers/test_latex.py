"""The tables of a paper for LaTeX: each number as the page has it, characters escaped."""

import pytest
from typer.testing import CliRunner

from anabranch.cli.main import app
from anabranch.papers.case import Case
from anabranch.papers.report import Item, Row, Table
from conftest import blank_report

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
