"""A sixth paper, added as papers/README.md says: its folder alone makes its report."""

import json

import pytest

from anabranch.papers import folder, reproduce
from anabranch.papers.predictions import FIXED_POINT, OPTIMUM, predictions
from anabranch.papers.report import Report, Row

SCENARIO = """
algorithm = "lia"
seeds = [1]

[measure]
duration_s = 12
warmup_s = 4
sample_ms = 500

[links]
AP1 = { rate_mbps = 2, delay_ms = 40, queue.red = {} }
AP2 = { rate_mbps = 2, delay_ms = 40, queue.red = {} }

[[flows]]
name = "multipath"
paths = [["AP1"], ["AP2"]]
start_spread_s = 1

[[flows]]
name = "singlepath"
paths = [["AP2"]]
algorithm = "reno"
start_spread_s = 1
"""

EXPERIMENTS = """
seeds = [1, 2, 3]
quick = { seeds = [1], set = { "measure.duration_s" = 8 } }
predictions = { groups = ["both"], rtt_ms = 100 }

[groups.both]
scenario = "scenario.toml"
settings = { mbps2 = {}, mbps4 = { "links.AP1.rate_mbps" = 4 } }
algorithms = { lia = {}, coupled = { algorithm = "olia" } }

[items.table1]
group = "both"
drops = [{ metric = "gain", case = "lia", of = "mbps", from = "mbps4.lia", to = "mbps2.lia" }]
[[items.table1.measures]]
metric = "mbps"
quantity = "user_goodput_mbps"
flow = "multipath"
[[items.table1.measures]]
metric = "mbps"
quantity = "user_goodput_mbps"
flow = "multipath"
case = "mean.{algorithm}"
[[items.table1.figures]]
kind = "bars"
metrics = ["mbps"]
[[items.table1.figures]]
kind = "series"
panels = "case"
lines = [{ column = "path_samples.goodput_mbps", flow = "multipath" }]

[items.figure1]
group = "both"
cases = ["mbps2.lia"]
during = { 4_8 = [4, 8], 8_12 = [8, 12] }
measures = [{ metric = "queue", quantity = "link_queue_packets", link = "AP2" }]

[[assumed]]
field = "queue"
value = "RED"
why = "Unstated."

[labels]
lia = "LIA"
coupled = "OLIA"
"""

PUBLISHED = """
name = "Sixth"
title = "A sixth paper"
source = "nowhere, 2026"
authors = ["Nobody"]
summary = "Two paths carry more than one."

[theory]
computed_fixed_point = "computed here"
computed_optimum = "computed here"

[items.table1]
title = "Goodput"
place = "Table 1"
[items.table1.printed.mbps]
published = { "mbps2.lia" = 2.0, "mbps4.lia" = 1000 }

[items.figure1]
title = "Queues"
place = "Figure 1"
"""

CLAIMS = """
[choices.red]
text = "The queue is RED."
when = "after the first run"
otherwise = "With drop-tail claim grows fails."

[claims.grows]
item = "table1"
text = "A faster link carries more."
check = { type = "order", metric = "mbps", cases = ["mbps2.lia", "mbps4.lia"] }
band = "Twice the rate."
rests_on = ["red"]

[claims.levels]
item = "table1"
text = "The printed levels."
check = { type = "levels", metric = "mbps", tol_rel = 0.1 }
band = "As printed."
not_reproduced = "The printed number is wrong by a factor of 250."

[claims.queue]
item = "figure1"
own = true
text = "The queue does not overflow."
check = { type = "range", metric = "queue", case = "8_12.mbps2.lia", max = 100 }
band = "The limit of the queue."
"""

ERRATA = """
[errata.e1]
place = "Table 1"
printed = "1000"
correct = "4"
evidence = "The rate of the link."
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The report of the sixth paper, as `anabranch reproduce sixth --out` makes it."""
    papers = tmp_path_factory.mktemp("papers")
    (papers / "sixth").mkdir()
    files = {
        "scenario": SCENARIO,
        "experiments": EXPERIMENTS,
        "published": PUBLISHED,
        "claims": CLAIMS,
        "errata": ERRATA,
    }
    for name, text in files.items():
        (papers / "sixth" / f"{name}.toml").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folder, "FOLDER", papers)
        report = reproduce.reproduce("sixth", out=papers / "out")
        assert {file.name for file in (papers / "out").iterdir()} == {"report.html", "report.json"}
        assert json.loads((papers / "out" / "report.json").read_text())["paper"] == "sixth"
        return report


def rows(report: Report, item: str) -> dict[tuple[str, str], Row]:
    (found,) = (one for one in report.items if one.id == item)
    return {(table.metric, row.case): row for table in found.tables for row in table.rows}


def test_every_claim_has_its_verdict(report: Report) -> None:
    assert {claim.id: claim.verdict for claim in report.claims} == {
        "grows": "holds",
        "levels": "not reproduced",
        "queue": "holds",
    }
    assert [claim.id for claim in report.resting_on("red")] == ["grows"]
    assert report.failed == []


def test_printed_measured_and_predicted_numbers_are_beside_one_another(report: Report) -> None:
    row = rows(report, "table1")["mbps", "mbps2.lia"]
    assert row.published == 2.0
    assert row.measured == pytest.approx(2, rel=0.5)
    assert row.interval is not None
    # With rates 2 + x and 2 - x the sum of logarithms is largest at x = 0. Of a packet's 1500 bytes
    # 52 are headers: 2 * 1448 / 1500 = 1.9307.
    assert row.theory["computed_optimum"] == pytest.approx(1.931, abs=1e-3)


def test_renamed_cases_are_averaged_when_measured_and_when_predicted(report: Report) -> None:
    """`mean.{algorithm}` joins the cases of both settings."""
    table = rows(report, "table1")
    for algorithm in ("lia", "coupled"):
        each = [table["mbps", f"{setting}.{algorithm}"] for setting in ("mbps2", "mbps4")]
        mean = table["mbps", f"mean.{algorithm}"]
        assert mean.measured == pytest.approx(sum(row.measured or 0 for row in each) / 2)
        for kind in (FIXED_POINT, OPTIMUM):
            parts = [row.theory[kind] for row in each]
            assert mean.theory[kind] == pytest.approx(sum(parts) / 2, rel=1e-3)  # four digits


def test_a_decrease_has_a_number_per_seed_and_a_prediction(report: Report) -> None:
    row = rows(report, "table1")["gain", "lia"]
    assert row.measured is not None
    assert row.interval is not None
    assert set(row.theory) == {FIXED_POINT, OPTIMUM}


def test_its_figures_are_drawn(report: Report) -> None:
    (item,) = (one for one in report.items if one.id == "table1")
    assert item.bars == ["mbps"]
    (series,) = item.drawings
    assert list(series.panels) == [
        "mbps2.lia",
        "mbps2.coupled",
        "mbps4.lia",
        "mbps4.coupled",
    ]


@pytest.mark.usefixtures("tiny")
def test_a_paper_that_asks_for_none_has_no_predictions() -> None:
    assert predictions(folder.open_paper("tiny")) == []
