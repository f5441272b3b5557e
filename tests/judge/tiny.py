"""A folder of two short items, for the tests."""

from pathlib import Path

import pytest

from anabranch.judge import entries, networks

SCENARIO = """
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
seeds = 2
quick = { seeds = 1 }

[items.victim]
section = "5.2.1"
level = "SHOULD"
title = "Harm"
question = "Does it harm?"
scenario = "tiny.toml"
reference = { rules = ["reno"] }
points = [
  { label = "1 flow" },
  { label = "2 flows", set = { "flows.rule.count" = 2, rate_mbps = 6, buffer_bdp = 1 } },
]

[[items.victim.measures]]
quantity = "user_goodput_mbps"
flow = "victim"
label = "victim's goodput (Mbps)"
at_least_of_reference = 0.75
why = "a quarter"

[items.box]
section = "6"
level = "SHOULD"
title = "Range"
question = "Everywhere?"
scenario = "tiny.toml"

[items.box.sample]
points = 3
quick = 2
rounds = 1
quick_rounds = 1
over = { rate_mbps = "log(1,8)", rtt_ms = "lin(10,100)" }

[[items.box.measures]]
quantity = "link_utilization"
link = "bottleneck"
label = "utilization"
at_least = 0.2
why = "a fifth"

[items.later]
section = "7.6"
level = "SHOULD"
title = "Receivers"
question = "Misbehaving?"
not_tested = { text = "there are none", key = "flows.*.receiver" }
"""


def write(path: Path, monkeypatch: pytest.MonkeyPatch, judge: str = JUDGE) -> None:
    """Make a folder of items, which commands then see."""
    (path / "tiny.toml").write_text(SCENARIO)
    (path / "judge.toml").write_text(judge)
    monkeypatch.setattr(entries, "FOLDER", path)
    monkeypatch.setattr(networks, "FOLDER", path)
