"""Warnings about a result: what its runs showed that is probably not meant."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anabranch.result import Result


def found(result: "Result") -> Iterator[str]:
    """A line per fault, with the file and the remedy."""
    yield from _nothing_replaced(result)
    yield from _files_in_the_warm_up(result)


def _nothing_replaced(result: "Result") -> Iterator[str]:
    """Algorithms that no flow ran, because every flow names its own."""
    rules = result.flows[["flow", "rule"]].drop_duplicates()
    if len(result.algorithms) < 2 or rules["flow"].duplicated().any():
        return
    if len(result.keys) > 2:  # a sweep, whose keys may be the algorithms of flows
        return
    own = ", ".join(f"{flow} ({rule})" for flow, rule in rules.itertuples(index=False))
    yield (
        f"{result.scenario.source}: every flow names its own algorithm: {own}: the runs of "
        f"{', '.join(result.algorithms)} are the same: remove `algorithm` of a flow"
    )


def _files_in_the_warm_up(result: "Result") -> Iterator[str]:
    """Flows whose files all ended in the warm-up."""
    transfers, begin_s = result.transfers, result.scenario.warmup_s
    if transfers.empty:
        return
    ends_s = transfers["start_s"] + transfers["duration_s"]
    for flow, last_s in ends_s.groupby(transfers["flow"], sort=False).max().items():
        delivered = result.flows.loc[result.flows["flow"] == flow, "delivered_bytes"].sum()
        if delivered == 0 and last_s <= begin_s:
            yield (
                f"{result.scenario.source}: flow {flow}: its last file was complete at "
                f"{last_s:.3g} s, but the measurement begins at {begin_s:g} s: its goodput is "
                "0: lower measure.warmup_s or raise bytes"
            )
