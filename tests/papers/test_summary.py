"""The summary of all papers: its table, its page and its section in a README."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch import ScenarioError
from anabranch.files import section
from anabranch.papers import html, reproduce
from anabranch.papers.judge import Claim, Verdict
from anabranch.papers.report import Item, Report
from anabranch.papers.summary import Summary
from conftest import blank_report

WITHOUT_TERMINAL = """
import sys
sys.modules |= dict.fromkeys(["rich", "typer"])  # as if they were not installed
from anabranch.papers import agreement, html, predictions, reproduce
"""

MARKERS = f"<!-- {reproduce.COMMAND} -->", "<!-- end -->"


def report(paper: str, *verdicts: Verdict) -> Report:
    claims = [Claim(f"c{i}", "It is so.", "", v, "1 < 2") for i, v in enumerate(verdicts)]
    item = Item("t", "A table", "Table 1", [], claims)
    bare = Item("f", "A figure without claims", "Figure 1", [], [])
    return blank_report(paper=paper, name=paper.upper(), items=[item, bare])


def summary() -> Summary:
    first = report("a", Verdict.HOLDS, Verdict.HOLDS, Verdict.NOT_REPRODUCED)
    return Summary([first, report("b", Verdict.FAILS, Verdict.HUMAN)], "anabranch reproduce all")


def test_papers_need_neither_rich_nor_typer() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_TERMINAL], check=True)


def test_a_summary_counts_every_item_with_a_claim_and_everything() -> None:
    made = summary()
    assert [(entry.paper, item.id) for entry, item, _ in made.lines()] == [("a", "t"), ("b", "t")]
    assert list(made.totals().values()) == [2, 1, 1, 0, 1]
    assert [claim.id for claim in made.failed] == ["c0"]
    assert json.loads(json.dumps(made.as_dict()))["counts"]["holds"] == 2


def test_the_markdown_table_counts_per_item_and_in_all() -> None:
    assert summary().markdown() == [
        "Claims per table and figure:",
        "",
        "|  | holds | fails | not reproduced | not comparable | needs human judgement |",
        "| --- | --: | --: | --: | --: | --: |",
        "| A: A table | 2 |  | 1 |  |  |",
        "| B: A table |  | 1 |  |  | 1 |",
        "| **all** | **2** | **1** | **1** | **0** | **1** |",
    ]


def test_a_readme_without_markers_fails_before_anything_runs(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("# Title\n")
    with pytest.raises(ScenarioError, match=r"README\.md: expected the lines <!-- anabranch"):
        reproduce.reproduce_all(readme=readme)


def test_a_readme_keeps_the_text_around_the_summary(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"# Title\n\n{MARKERS[0]}\nold\n{MARKERS[1]}\n\nThe rest.\n")
    assert section(readme, reproduce.COMMAND) == (
        f"# Title\n\n{MARKERS[0]}\n",
        f"{MARKERS[1]}\n\nThe rest.\n",
    )


def test_the_page_of_a_summary_links_every_item_and_names_what_fails() -> None:
    text = html.index(summary())
    assert 'href="a/report.html#t"' in text
    assert 'href="b/report.html#claim-c0"' in text
    assert "without claims" not in text


def test_all_papers_are_reproduced_and_written(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"{MARKERS[0]}\n{MARKERS[1]}\n")
    reported: list[float] = []
    made = reproduce.reproduce_all(True, tmp_path / "out", readme, reported.append)
    assert [entry.paper for entry in made.reports] == ["tiny"]
    assert "| Tiny paper: A table | 2 |" in readme.read_text()
    assert reported == sorted(reported)
    names = {str(file.relative_to(tmp_path / "out")) for file in (tmp_path / "out").rglob("*.*")}
    assert names == {"index.html", "summary.json", "tiny/report.html", "tiny/report.json"}
