"""Warnings about a result: what its runs showed that is probably not meant."""

import tomllib
from collections.abc import Iterator, Mapping

from pandas import DataFrame

from anabranch._core import rules
from anabranch.result.warnings.above_capacity import above_capacity
from anabranch.result.warnings.unequal_losses import unequal_losses
from anabranch.scenario import Scenario

EQUATIONS = ("fluid", "equilibrium")
"""Backends without slow start."""


def found(scenario: Scenario, backend: str, tables: Mapping[str, DataFrame]) -> Iterator[str]:
    """A line per fault, with the file and the remedy."""
    flows = tables["flows"]
    swept = list(flows).index("flow") > 2  # the keys may be the algorithms of flows
    yield from _nothing_replaced(scenario, flows, swept)
    yield from _files_in_the_warm_up(scenario, flows, tables["transfers"])
    if not swept:
        yield from above_capacity(scenario, tables["paths"], tables["links"])
    if backend not in EQUATIONS:
        yield from _overshoot(scenario, flows)
    if backend == "sim":
        yield from _timeouts_of_rules_by_rate(scenario, flows, tables["paths"])
    if backend == "sim" and not swept:
        yield from unequal_losses(scenario, flows, tables["paths"], tables["links"])


def _overshoot(scenario: Scenario, flows: DataFrame) -> Iterator[str]:
    """Rules that were in slow start without a threshold and keep an overshoot for minutes."""
    keeping = {rule["name"] for rule in rules() if rule["keeps_overshoot"]}
    ran = flows.loc[flows["sent_packets"] > 0, "rule"].str.split(":").str[0].unique()
    threshold = tomllib.loads(scenario.text)["tcp"]["initial_ssthresh_packets"]
    for rule in ran if threshold == float("inf") else ():
        if rule in keeping:
            yield (
                f"{scenario.source}: {rule} shrinks by at most one packet per round trip: an "
                "overshoot of slow start lasts for minutes: set tcp.initial_ssthresh_packets to "
                "the window expected"
            )


def _timeouts_of_rules_by_rate(
    scenario: Scenario, flows: DataFrame, paths: DataFrame
) -> Iterator[str]:
    """Rules of the BBR family that lost retransmissions without RACK, which Linux and QUIC have."""
    recovery = tomllib.loads(scenario.text)["tcp"]["recovery"]
    if recovery == "rack" or not paths["lost_random"].any():
        return
    by_rate = {rule["name"] for rule in rules() if rule["by_rate"]}
    ran = flows.loc[flows["timeouts"] > 0, "rule"].str.split(":").str[0].unique()
    if found := ", ".join(rule for rule in ran if rule in by_rate):
        yield (
            f"{scenario.source}: {found}: with tcp.recovery = {recovery!r} a lost retransmission "
            "may cost a timeout, as neither in Linux nor in QUIC: at 500 Mbps, 40 ms and 1 % loss "
            'bbr3 had 0.55 ± 0.18 of the link, with RACK 0.73 ± 0.01: set tcp.recovery = "rack"'
        )


def _nothing_replaced(scenario: Scenario, flows: DataFrame, swept: bool) -> Iterator[str]:
    """Algorithms that no flow ran, because every flow names its own."""
    algorithms = flows["algorithm"].unique()
    rules = flows[["flow", "rule"]].drop_duplicates()
    if swept or len(algorithms) < 2 or rules["flow"].duplicated().any():
        return
    own = ", ".join(f"{flow} ({rule})" for flow, rule in rules.itertuples(index=False))
    yield (
        f"{scenario.source}: every flow names its own algorithm: {own}: the runs of "
        f"{', '.join(algorithms)} are the same: remove `algorithm` of a flow"
    )


def _files_in_the_warm_up(
    scenario: Scenario, flows: DataFrame, transfers: DataFrame
) -> Iterator[str]:
    """Flows whose files all ended in the warm-up."""
    begin_s = scenario.warmup_s
    if transfers.empty:
        return
    ends_s = transfers["start_s"] + transfers["duration_s"]
    for flow, last_s in ends_s.groupby(transfers["flow"], sort=False).max().items():
        delivered = flows.loc[flows["flow"] == flow, "delivered_bytes"].sum()
        if delivered == 0 and last_s <= begin_s:
            yield (
                f"{scenario.source}: flow {flow}: its last file was complete at "
                f"{last_s:.3g} s, but the measurement begins at {begin_s:g} s: its goodput is "
                "0: lower measure.warmup_s or raise bytes"
            )
