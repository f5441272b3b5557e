"""A study of two short cases and a baseline, and a folder of two short items, for the tests."""

from pathlib import Path

import pytest

from anabranch.experiments import folder

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
looks = [3]
quick = { looks = [2], set = { "measure.duration_s" = 8 } }
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
over = ["alone"]

[items.share]
text = "Share beside 1 TCP"
short = "at most 0.55"
bounds = [{ measure = "share", case = "one", at_most = 0.55, why = "half, and a tenth more" }]

[figure]
kind = "sweep"
metric = "share"
over = { one = 1 }
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
    monkeypatch.setattr(folder, "STUDIES", path)


BESIDE = """
name = "Tiny"

[measure]
duration_s = 15
warmup_s = 3
sample_ms = 100

[tcp]
host_jitter_us = 100

[links.bottleneck]
rate_mbps = 4
delay_ms = 20
queue.drop_tail = { packets = 13 }

[[flows]]
name = "rule"
paths = [["bottleneck"]]
start_spread_s = 0.5

[[flows]]
name = "victim"
paths = [["bottleneck"]]
algorithm = "reno"
start_spread_s = 0.5
"""

JUDGE = """
rfc = 9743
looks = [4, 8]
scenario = "tiny.toml"

[items.victim]
section = "5.2.1"
level = "SHOULD"
title = "Harm"
text = "Does it harm?"
reference = { rules = ["reno"] }
bounds = [{ measure = "goodput", at_least_of = 0.75, why = "a quarter" }]

[items.victim.cases]
"1 flow" = {}
"2 flows" = { set = { "flows.rule.count" = 2, rate_mbps = 6, buffer_bdp = 1 }, quick = false }

[items.victim.measures]
goodput = { quantity = "user_goodput_mbps", flow = "victim", label = "victim's goodput (Mbps)" }

[items.box]
section = "6"
level = "SHOULD"
title = "Range"
text = "Everywhere?"
bounds = [{ measure = "use", at_least = 0.2, why = "a fifth" }]

[items.box.sample]
points = 3
quick = 2
rounds = 1
quick_rounds = 1
confirm = 1
over = { rate_mbps = "log(1,8)", rtt_ms = "lin(10,100)" }

[items.box.measures]
use = { quantity = "link_utilization", link = "bottleneck", label = "utilization" }

[items.later]
section = "7.6"
level = "SHOULD"
title = "Receivers"
text = "Misbehaving?"
not_tested = { text = "there are none", key = "flows.*.receiver" }
"""


def write_judge(path: Path, monkeypatch: pytest.MonkeyPatch, judge: str = JUDGE) -> None:
    """Make a folder of items, which commands then see."""
    (path / "tiny.toml").write_text(BESIDE)
    (path / "judge.toml").write_text(judge)
    monkeypatch.setattr(folder, "JUDGE", path)
