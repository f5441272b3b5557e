"""Users of one rule that lose unequal shares of their packets at a drop-tail queue.

Equations give every packet at a queue the same probability of loss, and a rule's share follows from
it. A drop-tail queue drops the packets that find it full. Without jitter arrivals may be periodic,
so that these are the packets of one path (phase effects; Floyd and Jacobson, 1992).
"""

import math
from collections.abc import Iterator

from pandas import DataFrame

from anabranch._core import rules
from anabranch.core_types import PlainNetwork
from anabranch.scenario import Scenario

RATIO = 1.5
"""Ratio of losses to be reported."""

DEVIATIONS = 5
"""Standard deviations of the ratio's logarithm from 0 at the least, by the bursts of losses."""

FEWEST = 20
"""Expected bursts of losses below which a path is not compared."""

SUMS = ["lost", "expected", "events"]

OTHER_SIGNALS = [rule["name"] for rule in rules() if rule["delay_based"] or rule["by_rate"]]


def unequal_losses(
    scenario: Scenario, flows: DataFrame, paths: DataFrame, links: DataFrame
) -> Iterator[str]:
    """A line per drop-tail link at which one path lost `RATIO` times the share of another.

    Compared are paths of one rule with endless data: lost packets over those that were lost if
    every link dropped all packets with the same probability. Short files lose more, in slow start,
    and the shares of rules by delay or rate do not follow from losses.
    """
    network = scenario.network()
    drop_tail = {
        link["name"]
        for link in network["links"]
        if link["queue"] == "drop_tail" and link["limit_packets"]
    }
    rows = _rows(network, paths, drop_tail)
    if rows.empty:
        return
    table = _with_expected(rows, links).merge(flows[["algorithm", "seed", "flow", "user", "rule"]])
    table = table[~table["rule"].str.split(":").str[0].isin(OTHER_SIGNALS)]
    for link in sorted(drop_tail):
        here = table.loc[[link in crossed for crossed in table["crossed"]]]
        pairs = [
            _extremes(group.groupby(["flow", "path"], sort=False)[SUMS].sum())
            for _, group in here.groupby(["algorithm", "rule"], sort=False)
        ]
        if found := [pair for pair in pairs if pair]:
            ratio, most, least = max(found)
            yield (
                f"{scenario.source}: link {link} is drop-tail and dropped {ratio:.1f} times as "
                f"large a share of the packets of {most} as of {least}: goodput depends on which "
                "packets find the queue full, not on the rule alone; if tcp.host_jitter_us of some "
                "packet times changes it, these are phase effects; queue.red drops at random"
            )


def _rows(network: PlainNetwork, paths: DataFrame, drop_tail: set[str]) -> DataFrame:
    """The rows of `paths` with endless data and over such links alone, and these links' names."""
    crossed = {
        (flow["name"], index): [network["links"][link]["name"] for link in path["links"]]
        for flow in network["flows"]
        if flow["workload"] == "bulk"
        for index, path in enumerate(flow["paths"])
    }
    rows = paths[paths["flow"].isin({flow for flow, _ in crossed})]
    rows = rows.assign(
        crossed=[crossed[key] for key in zip(rows["flow"], rows["path"], strict=True)]
    )
    return rows.loc[[drop_tail >= set(names) for names in rows["crossed"]]]


def _with_expected(rows: DataFrame, links: DataFrame) -> DataFrame:
    """Adds how many packets were lost and were to be expected, and in how many round trips."""
    passed = links.assign(passed=1 - links["dropped_overflow"] / links["arrived_packets"])
    passed = passed.set_index(["algorithm", "seed", "link"])["passed"]
    lost = [
        1 - math.prod(passed[algorithm, seed, link] for link in names)
        for algorithm, seed, names in zip(
            rows["algorithm"], rows["seed"], rows["crossed"], strict=True
        )
    ]
    return rows.assign(
        lost=rows["lost_overflow"], expected=rows["sent_packets"] * lost, events=rows["loss_events"]
    )


def _extremes(sums: DataFrame) -> tuple[float, str, str] | None:
    """The ratio of the largest loss to the smallest, and the paths that had them."""
    bursts = sums / max(1.0, sums["lost"].sum() / max(1, sums["events"].sum()))
    bursts = bursts[bursts["expected"] >= FEWEST]
    if len(bursts) < 2:
        return None
    lost = bursts["lost"] + 1
    loss = lost / bursts["expected"]
    most, least = loss.idxmax(), loss.idxmin()
    ratio = loss[most] / loss[least]
    deviation = math.hypot(lost[most] ** -0.5, lost[least] ** -0.5)
    if ratio < RATIO or math.log(ratio) < DEVIATIONS * deviation:
        return None
    return ratio, "path {1} of flow {0}".format(*most), "path {1} of flow {0}".format(*least)
