"""A paper's cases on several backends, side by side."""

import json
import math
from pathlib import Path

import pytest

from anabranch.papers import agreement
from anabranch.papers.agreement import Agreement, Line, _earlier, narrowed
from anabranch.papers.folder import Paper, cases, open_paper
from anabranch.scenario import ScenarioError


def test_only_the_named_cases_run_with_the_values_all_backends_share():
    paper = narrowed(open_paper("olia"), {})
    wanted = paper.experiments["agreement"]
    (table6,) = [item for item in paper.experiments["items"] if item["id"] == "table6"]
    named = [case.removeprefix("C.") for case in wanted["items"]["table6"]]
    assert [entry["cases"] for entry in table6["measures"]] == [named, named]
    (lia,) = [case for case in cases(paper.experiments["groups"]["C"]) if case.name == "n1_10.lia"]
    # LIA's own value in this paper is 2.
    assert lia.overrides["tcp.min_ssthresh_packets"] == 1


def test_a_paper_that_compares_nothing_says_so():
    paper = open_paper("olia")
    without = {k: v for k, v in paper.experiments.items() if k != "agreement"}
    with pytest.raises(ScenarioError, match=r"papers/olia/experiments.toml has no \[agreement\]"):
        narrowed(Paper(**(vars(paper) | {"experiments": without})), {})


def test_values_from_outside_win_over_the_papers_own():
    values = {"tcp.scheduler": "linux", "tcp.min_ssthresh_packets": 3}
    paper = narrowed(open_paper("olia"), values)
    (lia,) = [case for case in cases(paper.experiments["groups"]["C"]) if case.name == "n1_10.lia"]
    assert values.items() <= lia.overrides.items()


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


def test_what_theory_does_not_solve_is_said_and_the_rest_stands(tiny: Path) -> None:
    # 83 million packets per RTT on AP1 are more than a window has, so nothing is lost there.
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
    # There is no number of files in an equilibrium.
    assert written["files", "slow.lia"] == ""
    assert agreed.lines[0].difference("equilibrium", "sim") is None
    # An earlier run says so again.
    again = agreement.agree("tiny", ["sim"], beside=out / "agreement.json")
    assert again.markdown() == agreed.markdown()


def test_an_earlier_run_comes_back_as_it_was(tmp_path: Path) -> None:
    half = {"kernel": 0.0, "fluid": None}
    lines = [
        Line("t", "mbps", "a.lia", None, {}, {"kernel": 2.2, "fluid": 2.0}, half),
        Line("t", "mbps", "a.olia", None, {}, {"kernel": 3.0}, {"kernel": 0.5}),
    ]
    file = tmp_path / "agreement.json"
    file.write_text(json.dumps(Agreement("p", ["kernel", "fluid"], lines, {}, 5).as_dict()))
    earlier = _earlier(file, "p")
    assert earlier["kernel"] == {
        ("t", "mbps", "a.lia"): (2.2, 0),
        ("t", "mbps", "a.olia"): (3, 0.5),
    }
    ((mean, interval),) = earlier["fluid"].values()
    assert mean == 2.0
    assert math.isnan(interval)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "expected an agreement.json that `agree` wrote"),
        ("[]", "expected an agreement.json that `agree` wrote"),
        ('{"paper": "rsf"}', "expected a run of p, got one of rsf"),
    ],
)
def test_what_is_no_earlier_run_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "agreement.json"
    file.write_text(text)
    with pytest.raises(ScenarioError, match=expected):
        _earlier(file, "p")
