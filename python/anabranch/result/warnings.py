"""Warnings about a result: what its runs showed that is probably not meant."""

import math
import tomllib
from collections.abc import Iterator, Mapping

from pandas import DataFrame

from anabranch._core import rules
from anabranch.core_types import PlainNetwork
from anabranch.scenario import Scenario

# Goodputs that no link can carry: never right, whatever the scenario.


TOLERANCE = 0.01
"""Relative excess that is not reported."""

SHIFT_S = 1.0
"""Seconds at the link's rate that are not reported either: packets that were on their way behind
the link when the warm-up ended."""


def above_capacity(
    scenario: Scenario, network: PlainNetwork, paths: DataFrame, links: DataFrame
) -> Iterator[str]:
    """A line per link over which its paths had more goodput than its rate in the window."""
    keys = [key for key in ("algorithm", "seed") if key in links]
    window_s = scenario.duration_s - scenario.warmup_s
    names = [link["name"] for link in network["links"]]
    crossed = [
        (flow["name"], number, names[index])
        for flow in network["flows"]
        for number, path in enumerate(flow["paths"])
        for index in dict.fromkeys(path["links"])
    ]
    over = paths.merge(DataFrame(crossed, columns=["flow", "path", "link"]))
    goodput = over.groupby(["link", *keys], sort=False)["goodput_mbps"].sum()
    rows = links.set_index(["link", *keys])
    # The mean rate of the window, where the link transmitted anything in it.
    rate = (rows["throughput_mbps"] / rows["utilization"]).fillna(rows["rate_mbps"])
    excess = (goodput / rate / (1 + TOLERANCE + SHIFT_S / window_s)).dropna()
    excess = excess[excess > 1]
    worst_of = excess.groupby("link").idxmax()
    for name in names:
        if name in worst_of:
            worst = worst_of[name]
            yield (
                f"{scenario.source}: internal error: the paths over link {name} have a "
                f"goodput of {goodput[worst]:.4g} Mbps, more than its {rate[worst]:.4g} Mbps: "
                "report it with the scenario, and use no number of this run"
            )


# Users of one rule that lose unequal shares of their packets at a drop-tail queue.
#
# Equations give every packet at a queue the same probability of loss, and a rule's share follows
# from it. A drop-tail queue drops the packets that find it full. Without jitter arrivals may be
# periodic, so that these are the packets of one path (phase effects; Floyd and Jacobson, 1992).


RATIO = 1.5
"""Ratio of losses to be reported."""

DEVIATIONS = 5
"""Standard deviations of the ratio's logarithm from 0 at the least, by the bursts of losses."""

FEWEST = 20
"""Expected bursts of losses below which a path is not compared."""

SUMS = ["lost", "expected", "events"]

OTHER_SIGNALS = [rule["name"] for rule in rules() if rule["delay_based"] or rule["by_rate"]]


def unequal_losses(
    scenario: Scenario,
    network: PlainNetwork,
    flows: DataFrame,
    paths: DataFrame,
    links: DataFrame,
) -> Iterator[str]:
    """A line per drop-tail link at which one path lost `RATIO` times the share of another.

    Compared are paths of one rule with endless data: lost packets over those that were lost if
    every link dropped all packets with the same probability. Short files lose more, in slow start,
    and the shares of rules by delay or rate do not follow from losses.
    """
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
    at_links = table.assign(link=table["crossed"].map(dict.fromkeys).map(list)).explode("link")
    for link, here in at_links.groupby("link"):
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
    passed = passed.set_index(["algorithm", "seed", "link"])["passed"].to_dict()
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


EQUATIONS = ("fluid", "equilibrium")
"""Backends without slow start."""


def found(scenario: Scenario, backend: str, tables: Mapping[str, DataFrame]) -> Iterator[str]:
    """A line per fault, with the file and the remedy."""
    flows = tables["flows"]
    swept = list(flows).index("flow") > 2  # the keys may be the algorithms of flows
    yield from _nothing_replaced(scenario, flows, swept)
    yield from _files_in_the_warm_up(scenario, flows, tables["transfers"])
    if not swept:
        network = scenario.network()
        yield from above_capacity(scenario, network, tables["paths"], tables["links"])
    if backend not in EQUATIONS:
        yield from _overshoot(scenario, flows)
    if backend == "sim":
        yield from _timeouts_of_rules_by_rate(scenario, flows, tables["paths"])
    if backend == "sim" and not swept:
        yield from unequal_losses(scenario, network, flows, tables["paths"], tables["links"])


def _overshoot(scenario: Scenario, flows: DataFrame) -> Iterator[str]:
    """Rules that were in slow start without a threshold and keep an overshoot for minutes."""
    keeping = {rule["name"] for rule in rules() if rule["keeps_overshoot"]}
    ran = flows.loc[flows["sent_packets"] > 0, "rule"].str.split(":").str[0].unique()
    threshold = tomllib.loads(scenario.tcp)["initial_ssthresh_packets"]
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
    recovery = tomllib.loads(scenario.tcp)["recovery"]
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
