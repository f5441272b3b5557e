"""Each kind of mistake in a paper's folder is one line: the file, the key and what is expected."""

import re
from pathlib import Path

import pytest

from anabranch import ScenarioError
from anabranch.papers import folder, reproduce

MISTAKES = {
    # --- structure
    "file": ("claims", "[choices.queue]", "[choices", "tiny/claims.toml: "),
    "key": ("experiments", "[quick]", "[quickly]", "quickly: unknown key, expected one of title, "),
    "near": (
        "experiments",
        'flow = "multipath" }]',
        'flow = "multipath", grup = 1 }]',
        "items.table.measures[0].grup: unknown key, expected one of flow, from_s, to_s, metric, "
        "group, cases, case, during, quantity (did you mean group?)",
    ),
    "misspelt": (
        "experiments",
        'quantity = "user_goodput_mbps"',
        'quantiy = "user_goodput_mbps"',
        "items.table.measures[0].quantiy: unknown key, expected one of metric, group, cases, "
        "case, during, quantity (did you mean quantity?)",
    ),
    "missing": (
        "experiments",
        'metric = "mbps", quan',
        "quan",
        "items.table.measures[0].metric: missing",
    ),
    "table": (
        "experiments",
        "set = { ",
        "set = 3 # { ",
        "quick.set: expected a table, got 3",
    ),
    "list": ("experiments", "seeds = [3, 4]", "seeds = 3", "seeds: expected a list, got 3"),
    "number": (
        "experiments",
        "seeds = [3, 4]",
        "seeds = [3, 4.5]",
        "seeds[1]: expected a whole num",
    ),
    "bool": ("claims", "own = true", "own = 1", "claims.lost.own: expected true or false, got 1"),
    "none": ("experiments", "seeds = [3, 4]", "seeds = []", "seeds: expected at least one seed"),
    "metadata": (
        "published",
        'title = "A table"',
        'titel = "A table"',
        "items.table.titel: unknown",
    ),
    # --- names
    "scenario": (
        "experiments",
        'scenario = "scenario.toml"\n        [groups.C.s',
        'scenario = "scenary.toml"\n        [groups.C.s',
        "groups.C.scenario: unknown 'scenary.toml', expected scenario.toml (did you mean ",
    ),
    "algorithm": (
        "experiments",
        "lia = {}",
        "liar = {}",
        "groups.C.algorithms.liar: unknown algor",
    ),
    "quantity": (
        "experiments",
        'quantity = "user_goodput_mbps"',
        'quantity = "user_goodputs_mbps"',
        "items.table.measures[0].quantity: unknown 'user_goodputs_mbps', expected one of ",
    ),
    "parameter": (
        "experiments",
        'flow = "multipath" }]',
        "flow = 7 }]",
        "items.table.measures[0].flow: expected a string, got 7",
    ),
    "required parameter": (
        "experiments",
        ', flow = "multipath" }]',
        " }]",
        "items.table.measures[0].flow: missing",
    ),
    "renaming": (
        "experiments",
        'case = "C.{case}"',
        'case = "C.{cases}"',
        "items.other.measures[0].case: expected a name with {case} or {algorithm}, got 'C.{cases}'",
    ),
    "group": (
        "experiments",
        'group = "one" }',
        'group = "ones" }',
        "items.other.measures[1].group: unknown 'ones', expected one of C, one (did you mean one?)",
    ),
    "no group": (
        "experiments",
        ', group = "one" }',
        " }",
        "items.other.measures[1].group: missing, here or in the item",
    ),
    "case": (
        "experiments",
        '["fast.lia", "olia"]',
        '["faster.lia", "olia"]',
        "items.other.cases: unknown 'faster.lia', expected one of slow.lia, fast.lia, olia (did",
    ),
    "item": (
        "experiments",
        "[items.other]",
        "[items.others]",
        "items.others: unknown 'others', expect",
    ),
    "interval": (
        "experiments",
        "[items.table]",
        "[items.table]\n        during = { all = [0] }",
        "items.table.during.all: expected a list of 2, got [0]",
    ),
    "drop": (
        "experiments",
        'from = "fast.lia"',
        'from = "fast.olia"',
        "items.table.drops[0].from: unknown 'fast.olia', expected one of slow.lia, fast.lia",
    ),
    "dropped": (
        "experiments",
        'of = "mbps"',
        'of = "bps"',
        "items.table.drops[0].of: unknown 'bps', exp",
    ),
    "average": (
        "experiments",
        "seeds = [3, 4]",
        'seeds = [3, 4]\n        average = "modal"',
        "average: unknown 'modal', expected one of mean, median",
    ),
    "predictions": (
        "experiments",
        "[labels]",
        '[predictions]\ngroups = ["D"]\nrtt_ms = 9\n',
        "predictions.groups: unknown 'D', expected one of C, one",
    ),
    "agreement": (
        "experiments",
        "[labels]",
        '[agreement]\nseeds = [1]\nitems.table = ["C.slow"]\n',
        "agreement.items.table: unknown 'C.slow', expected one of C.slow.lia, C.fast.lia, one.olia",
    ),
    # --- figures
    "kind": (
        "experiments",
        'kind = "bars"',
        'kind = "pie"',
        "items.table.figures[0].kind: unknown 'pie', expected one of bars, series, sweep, dist",
    ),
    "figure": (
        "experiments",
        'kind = "bars"',
        'kind = "bars", bin_s = 1',
        "items.table.figures[0].bin_s: unknown key, expected metrics",
    ),
    "fit": (
        "experiments",
        'kind = "bars"',
        'kind = "distribution", low_s = 1',
        "items.table.figures[0].high_s: mis",
    ),
    "rate": (
        "experiments",
        'kind = "bars"',
        'kind = "distribution", of = "flow_samples.goodput_mbps", bin_s = 1, rate_mbps = 1',
        "items.table.figures[0].rate_mbps: unknown key for samples",
    ),
    "line": (
        "experiments",
        "{ column = ",
        "{ colum = ",
        "items.table.figures[2].lines[0].colum: unknown key, expected one of column, flow, ",
    ),
    "column": (
        "experiments",
        '"link_samples.queue_packets"',
        '"link_samples.queue"',
        "items.table.figures[2].lines[0].column: unknown 'link_samples.queue', expected one of ",
    ),
    "sweep": (
        "experiments",
        "over = { slow = 1, fast = 5 }",
        "over = { slow = 1 }",
        "items.table.figures[1].over: expected exactly one of slow in the name of fast.lia",
    ),
    "bars": (
        "experiments",
        'kind = "bars"',
        'kind = "bars", metrics = ["bps"]',
        "items.table.figures[0].metrics: unknown 'bps', expected one of mbps",
    ),
    # --- claims
    "check": (
        "claims",
        'type = "range"',
        'type = "rang"',
        "claims.lost.check.type: unknown 'rang', expe",
    ),
    "argument": (
        "claims",
        "min = 5",
        "minn = 5",
        "claims.lost.check.minn: unknown key, expected one of ",
    ),
    "metric": (
        "claims",
        'metric = "drop"',
        'metric = "dorp"',
        "claims.lost.check: unknown 'dorp', expect",
    ),
    "compared": (
        "claims",
        '"slow.lia", "fast.lia"',
        '"slow.lai", "fast.lia"',
        "claims.more.check: unknown 'slow.lai', expected one of slow.lia, fast.lia, "
        "slow.lia.published, fast.lia.published (did you mean slow.lia?)",
    ),
    "claimed": (
        "claims",
        'item = "table"',
        'item = "tables"',
        "claims.more.item: unknown 'tables', expe",
    ),
    "choice": (
        "claims",
        '["queue"]',
        '["red"]',
        "claims.more.rests_on: unknown 'red', expected queue",
    ),
    "half a choice": ("claims", 'when = "after the first run"', "", "choices.queue.when: missing"),
    # --- printed
    "printed": (
        "published",
        '"slow.lia" = 0.001',
        '"slow.lia" = "0.001"',
        'items.table.printed.mbps.published."slow.lia": expected a number, got "0.001"',
    ),
    "theory": (
        "published",
        "repeats = true",
        "repeats = true\n        theory.best.C = 1",
        "items.other.printed.mbps.theory: unknown 'best', expected none",
    ),
    "erratum": ("errata", "[errata]", "[errata.e1]", "errata.e1.place: missing"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_with_file_key_and_what_is_expected(tiny: Path, mistake: str) -> None:
    name, right, wrong, says = MISTAKES[mistake]
    file = tiny / "tiny" / f"{name}.toml"
    text = file.read_text()
    assert right in text
    file.write_text(text.replace(right, wrong, 1))
    with pytest.raises(ScenarioError) as error:
        folder.open_paper("tiny")
    message = str(error.value)
    start = f"tiny/{name}.toml: "
    assert message.startswith(start + says.removeprefix(start))
    assert "\n" not in message


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        (
            "claims_more.toml",
            '[claims.x]\nitme = "table"\n',
            r"claims\.x\.itme: unknown",
        ),
        (
            "experiments_more.toml",
            "quick.seeds = [1]",
            "quick.seeds: is in another file, too: give it once",
        ),
        ("errata.toml", None, "No such file or directory"),
    ],
    ids=["a mistake in a continued file", "a key in two files", "a file that is missing"],
)
def test_the_file_at_fault_is_named(tiny: Path, file: str, text: str | None, says: str) -> None:
    place = tiny / "tiny" / file
    place.unlink() if text is None else place.write_text(text)
    with pytest.raises(ScenarioError, match=f"^tiny/{re.escape(file)}: {says}"):
        folder.open_paper("tiny")


def test_a_flow_that_the_scenario_does_not_have_is_named_with_its_measure(tiny: Path) -> None:
    file = tiny / "tiny" / "experiments.toml"
    file.write_text(file.read_text().replace('flow = "multipath" }', 'flow = "multipaths" }'))
    says = r"^tiny/experiments\.toml: items\.table\.measures\[0\]: .*no flow 'multipaths': expected"
    with pytest.raises(ScenarioError, match=says):
        reproduce.reproduce("tiny", quick=True)
