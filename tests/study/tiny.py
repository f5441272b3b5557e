"""A study of two short cases and a baseline, for the tests."""

from pathlib import Path

import pytest

from anabranch.study import folder

SCENARIO = """
name = "Tiny"

[measure]
duration_s = 12
warmup_s = 4
sample_ms = 500

[links.a]
rate_mbps = 4
delay_ms = 10
queue.red = {}

[[flows]]
name = "two"
paths = [["a"], ["a"]]
start_spread_s = 1

[[flows]]
name = "tcp"
paths = [["a"]]
algorithm = "reno"
start_spread_s = 1
"""

STUDY = """
title = "Tiny"
question = "Which share?"
on = ["sim", "quic"]
seeds = 2
quick = { seeds = 1, set = { "measure.duration_s" = 8 } }
not_modelled = [{ text = "anything else", key = "links.*.anything" }]

[traces."slow.trace"]
kind = "steps"
rates = [[20, 5]]

[[sources]]
work = "Nobody: Nothing"
year = 2026
read = "all"
takes = "nothing"

[cases.one]
label = "1 TCP"

[cases.alone]
label = "alone"
rules = ["cubic"]
set = { "flows.tcp.start_s" = 11.5, "flows.tcp.start_spread_s" = 0 }

[measures.share]
quantity = "goodput_share"
flow = "two"
label = "share"
cases = ["one"]

[measures.gain]
quantity = "user_goodput_mbps"
flow = "two"
label = "goodput over alone"
cases = ["one"]
best_of = ["alone"]

[verdict]
measure = "share"
case = "one"
says = "Share beside 1 TCP"
holds = "at most 0.55"
at_most = 0.55

[figure]
kind = "curve"
cases = ["one"]
measure = "share"
x = "TCP flows"
y = "share"
reference = [0.5]
reference_label = "half"
"""


def write(path: Path, monkeypatch: pytest.MonkeyPatch, study: str = STUDY) -> None:
    """Make a folder of studies with this one, which commands then see."""
    (path / "tiny").mkdir()
    (path / "tiny" / "scenario.toml").write_text(SCENARIO)
    (path / "tiny" / "study.toml").write_text(study)
    monkeypatch.setattr(folder, "FOLDER", path)
