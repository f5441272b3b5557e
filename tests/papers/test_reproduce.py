"""Reproduction of a paper: measured numbers reach their place in the report."""

import json
import os
import re
import shutil
from dataclasses import replace
from functools import cache
from html import unescape
from itertools import cycle
from pathlib import Path

import pandas as pd
import pytest

from anabranch import _core
from anabranch.experiments.case import Case
from anabranch.experiments.curves import Curve, Drawing
from anabranch.papers import folder, html, reproduce
from anabranch.papers.html import Pictures
from anabranch.papers.judge import Claim, Verdict
from anabranch.papers.predictions import FIXED_POINT, OPTIMUM, predictions
from anabranch.papers.report import Item, Report, Row, Table, measured, report_of
from anabranch.papers.suite import Choice, Group, Measure
from anabranch.statements.papers import statements_of
from anabranch.statements.statement import Statement
from anabranch.typed_toml import Where, read
from conftest import blank_report
from gateway.browser import Browser


def test_cases_are_settings_times_algorithms() -> None:
    group = {
        "scenario": "scenario.toml",
        "set": {"x": 1, "y": 1},
        "settings": {"few": {}, "many": {"y": 2}},
        "algorithms": {"lia": {}, "before": {"algorithm": "reno", "set": {"y": 3}}},
    }
    setups = read(Group, group, Where()).setups()
    assert {one.case: (one.algorithm, one.overrides) for one in setups} == {
        "few.lia": ("lia", {"x": 1, "y": 1}),
        "few.before": ("reno", {"x": 1, "y": 3}),
        "many.lia": ("lia", {"x": 1, "y": 2}),
        "many.before": ("reno", {"x": 1, "y": 3}),
    }
    (alone,) = read(Group, {**group, "settings": {}, "algorithms": {"lia": {}}}, Where()).setups()
    assert alone.case == "lia"


def test_a_measure_is_taken_over_each_interval_unless_it_has_its_own() -> None:
    words = {"metric": "mbps", "quantity": "user_goodput_mbps", "flow": "f", "case": "a.{case}"}
    during = {"0_50": [0, 50], "50_90": [50, 90]}
    measure = read(Measure, {**words, "during": during}, Where())
    made = [(one.case, one.parameters["from_s"], one.parameters["to_s"]) for one in measure.each()]
    assert made == [("0_50.a.{case}", 0, 50), ("50_90.a.{case}", 50, 90)]
    for own in ({"from_s": 20}, {"to_s": 20}):
        (alone,) = read(Measure, {**words, "during": during, **own}, Where()).each()
        assert (alone.case, alone.parameters) == ("a.{case}", {"flow": "f", **own})
    (alone,) = read(Measure, words, Where()).each()
    assert (alone.case, alone.parameters) == ("a.{case}", {"flow": "f"})


def test_a_long_file_may_be_split(tiny: Path) -> None:
    _, *claims = (tiny / "tiny" / "claims.toml").read_text().split("[claims.")
    more = "[claims.again_".join(["", *claims])
    (tiny / "tiny" / "claims_more.toml").write_text(more)
    (tiny / "tiny" / "experiments_more.toml").write_text('labels = { slow = "1 Mbps" }')
    paper = folder.open_paper("tiny")
    assert list(paper.claims) == ["more", "lost", "again_more", "again_lost"]
    assert paper.labels == {"slow": "1 Mbps"}
    assert set(paper.items) == {"table", "other"}


# ------------------------------------------------------------------ from numbers to a report
def olia_frame(factor: float = 1.0, spread: float = 1e-4) -> pd.DataFrame:
    """The numbers printed in the OLIA draft times a factor, as if measured with two seeds.

    They are the fraction `spread` above and below.
    """
    rows = [
        {"item": id, "metric": metric, "case": case, "seed": seed, "value": value * factor * by}
        for id, item in folder.open_paper("olia").items.items()
        for metric, printed in item.printed.items()
        for case, value in printed.published.items()
        for seed, by in ((1, 1 - spread), (2, 1 + spread))
    ]
    return pd.DataFrame(rows)


@cache
def olia_statements() -> list[Statement]:
    return statements_of("olia", quick=True)


def olia(factor: float = 1.0, spread: float = 1e-4) -> Report:
    paper, frame = folder.open_paper("olia"), olia_frame(factor, spread)
    return report_of(paper, frame, {}, quick=True, statements=olia_statements())


@cache
def olia_page() -> str:
    return html.html(olia(1.1, spread=0.01))


def row(report: Report, item: str, metric: str, case: str) -> Row:
    (found,) = (
        row
        for entry in report.items
        if entry.id == item
        for table in entry.tables
        if table.metric == metric
        for row in table.rows
        if row.case == case
    )
    return found


def test_a_row_has_published_measured_and_theory() -> None:
    found = row(olia(1.1, spread=0.01), "table1", "type2_mbps", "n1_10.lia")
    assert (found.published, found.measured) == (0.70, pytest.approx(0.77))
    # Two values 0.7623 and 0.7777: standard error 0.0077, Student's t with 1 degree 12.706.
    assert found.interval == pytest.approx(0.0978, abs=1e-4)
    assert found.difference == pytest.approx(0.10)
    assert found.theory == {"fixed_point": 0.74, "opt_probing": 0.94, "opt_no_probing": 1.0}


def test_a_paper_whose_printed_numbers_are_measured_has_no_failing_claim() -> None:
    assert olia().failed == []
    lower = {claim.id: claim.verdict for claim in olia(0.8).claims}
    assert {lower[id] for id in ("a8", "a9", "o4")} == {Verdict.FAILS}
    assert lower["o5"] is Verdict.NOT_REPRODUCED  # the same, with a reason


@pytest.mark.parametrize(
    ("mean", "interval", "text"),
    [
        (0.7031, 0.0123, "0.703 ± 0.012"),
        (62.63, 0.18, "62.6 ± 0.2"),
        (0.01834, 0.0004, "0.0183 ± 0.0004"),
        (147.4, 0.3, "147.4 ± 0.3"),
        (1.1541, 0.0032, "1.154 ± 0.003"),
        (1.1541, 0.0000032, "1.1541 ± 0.0000"),
        (-5.93, 1.49, "-5.93 ± 1.49"),
        (0.0, 0.0, "0.00 ± 0.00"),
        (0.7031, None, "0.703"),
        (None, None, ""),
    ],
)
def test_a_measurement_has_three_digits_or_more_if_its_interval_needs_them(
    mean: float | None, interval: float | None, text: str
) -> None:
    assert measured(Row(Case("a"), None, mean, interval, {})) == text


def visible(page: str) -> str:
    """The visible text of a page, in which "<" and ">" are marks of tags alone."""
    return unescape(re.sub(r"<[^>]*>", "", page))


def test_the_page_is_self_contained() -> None:
    text = olia_page()
    assert not re.search(r"https?:|@import|@font-face|<(script|link|img|iframe)\b", text)
    refers = re.findall(r'(?:href|src)="([^"]*)"', text)
    ids = re.findall(r' id="([^"]*)"', text)
    assert refers
    assert all(reference.startswith("#") for reference in refers)
    assert {reference[1:] for reference in refers} <= set(ids)
    assert len(ids) == len(set(ids))


def test_the_page_shows_every_claim_number_and_erratum() -> None:
    report = olia(1.1, spread=0.01)
    text = visible(olia_page())
    for claim in report.claims:
        assert claim.text in text
        assert claim.because in text
    assert "0.770 ± 0.098" in text
    shown = [*report.scenarios.values(), *(erratum.correct for erratum in report.errata.values())]
    assert all(part in text for part in [*shown, report.command])


def test_the_first_screen_links_every_claim_and_first_those_that_do_not_hold() -> None:
    verdicts = cycle([Verdict.HOLDS, Verdict.UNDECIDED, Verdict.NOT_REPRODUCED, Verdict.FAILS])
    made = olia(1.1)
    items = [
        replace(
            item,
            bars=(),
            drawings=(),
            claims=[replace(c, verdict=next(verdicts)) for c in item.claims],
        )
        for item in made.items
    ]
    report = replace(made, items=items)
    strip, rest = html.html(report).split("</header>")[0].split("</ol>")
    linked = r'href="#claim-([^"]+)"'
    in_order = [claim.id for item in report.in_order for claim in item.claims]
    assert re.findall(linked, strip) == in_order
    open_claims = [*report.failed, *report.of("not reproduced"), *report.of("undecided")]
    assert 3 * len(open_claims) > 2 * len(in_order)
    assert re.findall(linked, rest) == [claim.id for claim in open_claims]


def test_our_studies_and_choices_are_behind_the_paper_s_tables() -> None:
    page, report = olia_page(), olia(1.1, spread=0.01)
    assert any(item.own for item in report.items)
    assert report.items[0].own  # the file's first item
    places = [page.index(f'<section id="{item.id}">') for item in report.in_order]
    assert places == sorted(places)
    assert [item.own for item in report.in_order] == sorted(item.own for item in report.items)
    assert places[-1] < page.index('<section id="choices">')


def test_the_quick_form_says_so_first() -> None:
    report = replace(olia(1.1), items=[])
    assert report.quick  # as it was made
    assert "Quick form" not in html.html(replace(report, quick=False))
    header = html.html(replace(report, quick=True)).split("</header>")[0]
    assert "Quick form" in header
    assert "<code>anabranch reproduce olia</code>" in header


def test_the_first_screen_has_the_first_sentence_of_each_reason() -> None:
    header = unescape(html.html(olia(2.0)).split("</header>")[0])
    claims = olia(2.0).of(Verdict.NOT_REPRODUCED)
    assert claims
    for claim in claims:
        assert f"{claim.short_reason}</span>" in header
    one = claims[0]
    assert replace(one, reason="A queue. More.").short_reason == "A queue."
    assert replace(one, reason="As a1: A queue. More.").short_reason == "As a1."


FEW = ("losses", "floors")
"""Items with a short table and with a long one."""


def test_long_tables_are_folded_and_differences_are_coloured_by_distance() -> None:
    report = olia(1.2)
    page = html.html(replace(report, items=[item for item in report.items if item.id in FEW]))
    tables = re.findall(r"<details( open)?>\s*<summary>(\d+) numbers?</summary>", page)
    assert {bool(is_open) == (int(count) <= html.OPEN) for is_open, count in tables} == {True}
    assert {bool(is_open) for is_open, _ in tables} == {True, False}
    # Everything is 1.2 times what is printed, so within 30 % and not within 10 %.
    assert 'class="n off" data-label="difference">+20%' in page
    assert 'class="n near" data-label="difference">+20%' not in page


def test_the_diagonal_has_a_point_for_every_printed_number() -> None:
    report = olia(1.1, spread=0.01)
    drawn = [
        row
        for item in report.items
        for table in item.tables
        if not table.repeats
        for row in table.rows
        if row.difference is not None
    ]
    svg = Pictures(report).diagonal()
    assert svg
    assert svg.count("<use ") - ticks(svg) == len(drawn)
    assert Pictures(replace(report, items=[])).diagonal() is None


def ticks(svg: str) -> int:
    """Marks on the axes: those that are used twice or more with no colour of a rule."""
    return sum(1 for use in re.findall(r"<use [^>]*>", svg) if "--series" not in use)


def test_the_report_has_the_paper_s_statements_with_their_verdicts() -> None:
    text, report = visible(olia_page()), olia(1.1)
    for one in olia_statements():
        assert all(part in text for part in (one.place, one.says, one.named_class, one.found))
    plain = json.loads(json.dumps(report.as_dict(), allow_nan=False))["statements"]
    assert [one["verdict"] for one in plain] == [one.verdict for one in olia_statements()]
    verdicts = {claim.id: (claim.verdict, claim.because) for claim in report.claims}
    (family,) = (one for one in olia_statements() if one.place == "2, the family")
    assert verdicts["family"] == (Verdict.HOLDS, family.found)


def test_a_report_without_statements_has_no_section_for_them(tiny: Path) -> None:
    without = reproduce.reproduce("tiny", quick=True)
    assert without.statements == []
    assert 'id="theory"' not in html.html(without)
    assert 'id="theory"' in html.html(replace(without, statements=olia_statements()))


def test_the_page_escapes_all_text() -> None:
    evil = "<b onclick='x'>&"
    claim = Claim("c", evil, evil, Verdict.FAILS, evil, evil)
    table = Table("m", [Row(Case("s.lia"), 1.0, 1.1, 0.1, {})])
    drawing = Drawing(evil, evil, evil, [Curve(evil, "lia", [0.0, 1.0], [1.0, 2.0], panel=evil)])
    item = Item("i", evil, evil, [table], [claim], ["m"], [drawing])
    scenario = "links.X = { rate_mbps = 1, delay_ms = 1 }\nalgorithm = 'lia'\nseeds = [1]\n"
    scenario += "measure.duration_s = 9\n[[flows]]\nname = 'X'\npaths = [['X']]"
    scenario = scenario.replace("'X'", f'"{evil}"').replace("links.X", f'links."{evil}"')
    words = dict.fromkeys(("name", "title", "source", "summary", "average", "command"), evil)
    report = blank_report(
        **words,
        authors=[evil],
        items=[item],
        labels={"lia": evil, "s": evil, "m": evil},
        algorithms={"lia": "lia"},
        choices={evil: Choice(evil, evil, evil)},
        statements=[Statement(evil, evil, evil, evil)],
        scenarios={evil: evil},
        networks={evil: _core.Scenario.parse(scenario).network()},
        versions={"v": evil},
    )
    text = html.html(report)
    assert "<b onclick" not in text
    assert visible(text).count(evil) > 10


def test_the_same_report_gives_the_same_page(tiny: Path) -> None:
    pages = [html.html(reproduce.reproduce("tiny", quick=True)) for _ in range(2)]
    assert pages[0] == pages[1]


def test_a_report_is_plain_json() -> None:
    data = json.loads(json.dumps(olia(0.8).as_dict(), allow_nan=False))
    assert data["counts"]["fails"] == data["failed"] > 0
    assert data["items"][0]["tables"][0]["rows"][0]["published"] == 0.7
    assert data["choices"]["red"]["text"].startswith("RED's average")


# ------------------------------------------------------------------ as Chromium renders it
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
REQUIRED = "ANABRANCH_REQUIRE_PEERS" in os.environ

MEASURE = """(() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const fonts = all("svg text").map((text) => {
    const scale = text.getScreenCTM();
    return parseFloat(getComputedStyle(text).fontSize) * Math.hypot(scale.a, scale.b);
  });
  return {
    document: document.documentElement.scrollWidth,
    beyond: all("body *").filter((one) => !one.closest("figure:has(.network)"))
      .filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
      .map((one) => one.outerHTML.slice(0, 80)),
    strip: document.querySelector(".strip").getBoundingClientRect().bottom,
    figure: document.querySelector("svg").getBoundingClientRect().bottom,
    networks: all("svg.network").length,
    smallest: Math.min(...fonts),
  };
})()"""


@pytest.mark.skipif(not CHROMIUM and not REQUIRED, reason="needs Chromium")
@pytest.mark.parametrize("width", [1280, 420])
def test_nothing_is_cut_and_text_is_readable(width: int, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(olia_page())
    browser = Browser(str(CHROMIUM), tmp_path / "profile")
    browser.open(page.as_uri(), width)
    loaded = "document.querySelector('.strip') && document.readyState === 'complete'"
    browser.wait(f"{loaded} && innerWidth === {width}")
    found = browser.evaluate(MEASURE)
    browser.close()
    assert found["beyond"] == []  # but for drawings of networks, which scroll within the page
    assert found["document"] <= width  # the page itself never scrolls sideways
    assert found["smallest"] >= 11  # px
    assert found["networks"] == len(olia().networks)
    if width == 1280:  # strip and first figure are on the first screen
        assert found["strip"] < 900
        assert found["figure"] < 900


# ------------------------------------------------------------------ a whole reproduction, small
def test_a_paper_is_run_measured_judged_and_written(tiny: Path) -> None:
    reported: list[float] = []
    report = reproduce.reproduce("tiny", out=tiny / "out", progress=reported.append)
    # Two seeds do not decide by how much a slower link loses.
    assert [claim.verdict for claim in report.claims] == ["holds", "undecided"]
    assert "; 2 seeds do not decide, " in report.claims[1].because
    assert report.failed == []
    assert row(report, "table", "mbps", "fast.lia").interval is not None
    assert [claim.own for claim in report.claims] == [False, True]
    assert [claim.id for claim in report.resting_on("queue")] == ["more"]
    assert report.score.numbers == 2
    page = (tiny / "out" / "report.html").read_text()
    assert "Ours: A slower one loses at least 5 %." in page
    assert '<a href="#choices">queue</a>' in page
    assert reported == sorted(reported)
    assert reported[-1] == pytest.approx(1.0)
    assert sorted(file.name for file in (tiny / "out").iterdir()) == ["report.html", "report.json"]
    data = json.loads((tiny / "out" / "report.json").read_text())
    assert (data["seeds"], data["command"]) == ([3, 4], "anabranch reproduce tiny")


def test_a_quick_reproduction_has_its_own_seeds_and_no_interval_from_one(tiny: Path) -> None:
    report = reproduce.reproduce("tiny", quick=True)
    assert report.seeds == [3]
    assert report.command.endswith("--quick")
    # The other item has no claim, and its printed number is that of the table.
    assert [item.id for item in report.items] == ["table"]
    assert row(report, "table", "mbps", "fast.lia").interval is None


def test_every_case_and_seed_has_its_own_number(tiny: Path) -> None:
    paper = folder.open_paper("tiny")
    full, quick = (reproduce.measure_all(paper, quick).numbers for quick in (False, True))
    names = ["item", "metric", "case", "seed"]
    assert not full.duplicated(names).any()
    assert {tuple(row) for row in full[names[:3]].to_numpy()} == {
        ("table", "mbps", "slow.lia"),
        ("table", "mbps", "fast.lia"),
        ("table", "drop", "lia"),
        ("other", "mbps", "C.fast.lia"),
        ("other", "mbps", "olia"),
    }
    assert (set(full["seed"]), set(quick["seed"])) == ({3, 4}, {3})
    assert full["value"].nunique() == len(full)
    # Quick runs are shorter, so even the seed they share gives other numbers.
    assert set(full["value"]).isdisjoint(quick["value"])


def test_groups_with_the_same_run_draw_it_under_their_own_names(tiny: Path) -> None:
    """The run of slow.lia is that of same.lia, too: one point of the store, two cases."""
    with (tiny / "tiny" / "published.toml").open("a") as file:
        file.write('[items.again]\ntitle = "Again"\nplace = "Nowhere"\n')
    with (tiny / "tiny" / "experiments.toml").open("a") as file:
        file.write(
            """
            [groups.again]
            scenario = "scenario.toml"
            settings = { same = { "links.AP1.rate_mbps" = 1 } }
            algorithms = { lia = {} }
            [items.again]
            group = "again"
            [[items.again.figures]]
            kind = "series"
            lines = [{ column = "link_samples.queue_packets", link = "AP1" }]
            """
        )
    found = reproduce.measure_all(folder.open_paper("tiny"), quick=True).drawings
    own, again = found["table", 2].curves, found["again", 0].curves
    assert [curve.name for curve in own] == ["slow.lia", "fast.lia"]
    assert [curve.name for curve in again] == ["same.lia"]
    assert again[0].y == own[0].y


def test_predictions_stand_beside_measured_numbers_and_are_averaged_like_them(tiny: Path) -> None:
    """A label for a rule, a name that cases of both settings have, and theory."""
    assert predictions(folder.open_paper("tiny")) == []
    mean = '{ metric = "both", quantity = "user_goodput_mbps", flow = "multipath", '
    mean += 'case = "mean.{algorithm}" }, {'
    experiments, published = (tiny / "tiny" / f"{n}.toml" for n in ("experiments", "published"))
    text = experiments.read_text().replace("lia = {}", 'lia = {}\ncoupled.algorithm = "olia"', 1)
    text = text.replace("measures = [{", f"measures = [{mean}", 1)
    experiments.write_text(f'predictions = {{ groups = ["C"], rtt_ms = 150 }}\n{text}')
    with published.open("a") as file:
        file.write('[theory]\ncomputed_fixed_point = "by us"\ncomputed_optimum = "by us"\n')
    report = reproduce.reproduce("tiny")
    # The sum of logarithms of 1 + x and 10 - x Mbps is largest where both are 5.5; of 5 + x, 7.5.
    rates = {"slow": 5.5, "fast": 7.5}
    for rule in ("lia", "coupled"):
        each = [row(report, "table", "mbps", f"{setting}.{rule}") for setting in rates]
        assert [one.theory[OPTIMUM] for one in each] == pytest.approx([*rates.values()], abs=1e-3)
        both = row(report, "table", "both", f"mean.{rule}")
        assert both.measured == pytest.approx(sum(one.measured or 0 for one in each) / 2)
        for kind in (FIXED_POINT, OPTIMUM):  # to four digits
            parts = [one.theory[kind] for one in each]
            assert both.theory[kind] == pytest.approx(sum(parts) / 2, rel=1e-3)
    drop = row(report, "table", "drop", "lia")
    assert drop.interval is not None
    assert drop.theory[OPTIMUM] == pytest.approx(100 * (1 - 5.5 / 7.5), abs=0.01)
    assert set(drop.theory) == {FIXED_POINT, OPTIMUM}
