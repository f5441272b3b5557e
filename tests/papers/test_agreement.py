"""Comparison of a paper's cases on several backends."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from anabranch.papers import agreement
from anabranch.papers.agreement import Agreement, Line, earlier, narrowed
from anabranch.papers.folder import open_paper
from anabranch.result import Result
from anabranch.scenario import ScenarioError


def test_only_the_named_cases_run_with_the_values_all_backends_share():
    paper = narrowed(open_paper("olia"), {})
    assert paper.agreement
    named = tuple(case.removeprefix("C.") for case in paper.agreement.items["table6"])
    assert [measure.cases for measure in paper.items["table6"].taken] == [named, named]
    (lia,) = [setup for setup in paper.groups["C"].setups() if setup.case == "n1_10.lia"]
    # LIA's own value in this paper is 2.
    assert lia.overrides["tcp.min_ssthresh_packets"] == 1


def test_a_paper_without_agreement_is_refused():
    without = replace(open_paper("olia"), agreement=None)
    with pytest.raises(ScenarioError, match=r"papers/olia/experiments.toml has no \[agreement\]"):
        narrowed(without, {})


def test_overrides_take_precedence_over_the_papers_own_values():
    values = {"tcp.scheduler": "linux", "tcp.min_ssthresh_packets": 3}
    paper = narrowed(open_paper("olia"), values)
    (lia,) = [setup for setup in paper.groups["C"].setups() if setup.case == "n1_10.lia"]
    assert values.items() <= lia.overrides.items()


def test_an_unknown_backend_is_refused_before_any_run(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[str] = []
    monkeypatch.setattr(agreement, "_measured", lambda paper, backend, *_: runs.append(backend))
    with pytest.raises(ScenarioError, match="unknown backend 'typo': expected one of sim"):
        agreement.agree("olia", ["sim", "typo"])
    assert runs == []


def test_differences_are_from_the_first_backend():
    line = Line("t", "mbps", "a.lia", 2.0, {"bound": 3.0}, {"sim": 2.0, "kernel": 2.2}, {})
    agreement = Agreement("p", ["sim", "kernel"], [line], {"mbps": "Rate", "lia": "LIA"}, 5)
    assert line.difference("kernel", "sim") == pytest.approx(0.1)
    assert agreement.markdown() == (
        "| Rate | published | bound | sim | kernel | kernel from sim |\n"
        "| --- | --: | --: | --: | --: | --: |\n"
        "| a, LIA | 2 | 3 | 2 | 2.2 | +10% |\n"
    )
    assert agreement.as_dict()["rows"][0]["difference"] == {"kernel": pytest.approx(0.1)}
    assert agreement.record() == (
        "metric,case,published,sim,sim ci95,kernel,kernel ci95\nmbps,a.lia,2,2,,2.2,\n"
    )


def test_a_case_that_does_not_converge_is_marked_and_the_others_are_kept(tiny: Path) -> None:
    # 83 million packets per RTT on AP1 exceed the largest window, so nothing is lost there.
    experiments = tiny / "tiny" / "experiments.toml"
    vast = '"links.AP1.rate_mbps" = 1e6, "links.AP1.delay_ms" = 500'
    text = experiments.read_text().replace('"links.AP1.rate_mbps" = 5', vast)
    files = '{ metric = "files", quantity = "transfers_done", flow = "multipath" }'
    text = text.replace("measures = [{", f"measures = [{files}, {{", 1)
    cases = '["C.slow.lia", "C.fast.lia"]'
    experiments.write_text(f"{text}\n[agreement]\nseeds = [3, 4]\nitems.table = {cases}\n")
    out = tiny / "out"
    agreed = agreement.agree("tiny", ["sim", "equilibrium"], out)
    written = {(line.metric, line.case): line.written("equilibrium") for line in agreed.lines}
    assert written["mbps", "fast.lia"] == "not converged"
    assert float(written["mbps", "slow.lia"]) > 1
    # An equilibrium has no number of files.
    assert written["files", "slow.lia"] == ""
    assert agreed.lines[0].difference("equilibrium", "sim") is None
    # An earlier run read from its file gives the same.
    again = agreement.agree("tiny", ["sim"], beside=out / "agreement.json")
    assert again.markdown() == agreed.markdown()


def test_the_cases_of_late_runs_are_marked(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run of the case fast.lia is late, none of slow.lia."""
    experiments = tiny / "tiny" / "experiments.toml"
    cases = '["C.slow.lia", "C.fast.lia"]'
    wanted = f"[agreement]\nseeds = [3, 4]\nitems.table = {cases}\n"
    experiments.write_text(f"{experiments.read_text()}\n{wanted}")

    def late_runs(result: Result) -> pd.DataFrame:
        runs = result.links[["case", "seed"]].drop_duplicates()
        return runs[(runs["case"] == "fast.lia") & (runs["seed"] == 4)]

    monkeypatch.setattr(Result, "late_runs", late_runs)
    agreed = agreement.agree("tiny", ["sim"], tiny / "out")
    late = {line.case: line.late for line in agreed.lines}
    # lia is the decrease from slow.lia to fast.lia.
    assert late == {"slow.lia": [], "fast.lia": ["sim"], "lia": ["sim"]}
    marked = {line.case: line.written("sim").endswith(" (late)") for line in agreed.lines}
    assert marked == {case: bool(backends) for case, backends in late.items()}
    assert earlier(tiny / "out" / "agreement.json", "tiny") == agreed.lines


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "expected an agreement.json written by `anabranch agree`"),
        ("[]", "expected an agreement.json written by `anabranch agree`"),
        ('{"paper": "rsf"}', "expected a run of p, got one of rsf"),
    ],
)
def test_a_file_that_is_not_an_earlier_run_is_refused(
    tmp_path: Path, text: str, expected: str
) -> None:
    file = tmp_path / "agreement.json"
    file.write_text(text)
    with pytest.raises(ScenarioError, match=expected):
        earlier(file, "p")
