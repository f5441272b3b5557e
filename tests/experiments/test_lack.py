"""Gaps of studies and of the judge: missing keys are missing, and left out ones exist."""

import re
from pathlib import Path

import pytest

from anabranch.experiments.lack import Lack, is_key
from anabranch.scenario import ScenarioError
from anabranch.typed_toml import Where


@pytest.mark.parametrize(
    "path",
    [
        "measure.duration_s",
        "links.*.arq",
        "links.*.queue.dualpi2",
        "flows.*.paths.*.back",
        "flows.*.workload.media",
        "flows.*.workload.bulk",
        "tcp.scheduler.redundant",
    ],
)
def test_keys_and_values_of_scenarios_are_known(path: str) -> None:
    assert is_key(path)


@pytest.mark.parametrize(
    "path", ["links.arq", "links.*.fading", "flows.*.scheduler", "tcp.scheduler.alcs", "arq"]
)
def test_other_words_are_not(path: str) -> None:
    assert not is_key(path)


@pytest.mark.parametrize(
    ("lack", "message"),
    [
        (Lack("BBR", rule="bbr"), "not_modelled.rule: the table has bbr"),
        (Lack("ARQ", key="links.*.arq"), r"not_modelled.key: scenarios have links.\*.arq"),
        (Lack("ECF", key="tcp.scheduler.ecf"), "scenarios have tcp.scheduler.ecf"),
        (Lack("fading", left_out="links.*.fading"), "no scenario has links"),
        (Lack("nothing"), "expected one of key, rule, left_out"),
        (Lack("both", key="a", rule="b"), "expected one of key, rule, left_out"),
    ],
)
def test_a_sentence_that_is_no_longer_true_is_refused(lack: Lack, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        lack.validate(Where("study.toml", "not_modelled"))


def test_what_is_missing_and_what_is_left_out_pass() -> None:
    Lack("fading", key="links.*.fading").validate(Where())
    Lack("another rule", rule="no-such-rule").validate(Where())
    Lack("ARQ", left_out="links.*.arq").validate(Where())


def test_the_keys_that_the_page_of_limits_says_are_missing_are_missing() -> None:
    page = Path(__file__).parents[2] / "docs/reference/limits.md"
    table = page.read_text().partition("## Not in a scenario")[2].partition("\n## ")[0]
    keys = re.findall(r"\| `([\w.*]+)` \|$", table, re.M)
    assert len(keys) == table.count("\n| ") - 1, "each row but the heading names a key"
    assert not [key for key in keys if is_key(key)]
