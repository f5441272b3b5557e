"""The search for the worst network: rounds of points around the worst one found so far."""

from collections.abc import Callable, Sequence

from anabranch.judge.entries import Entries, Item
from anabranch.judge.networks import Network, around, draw, network, sampled_point
from anabranch.judge.verdict import Number


def search(
    entries: Entries,
    name: str,
    item: Item,
    first: Sequence[Number],
    quick: bool,
    measured: Callable[[Sequence[Network]], list[Number]],
) -> list[Number]:
    """Numbers of further points of a sample; `measured` runs them."""
    if item.sample is None:
        return []
    rounds = item.sample.quick_rounds if quick else item.sample.rounds
    count = item.sample.quick if quick else item.sample.points
    found: list[Number] = []
    for number in range(rounds):
        worst = min([*first, *found], key=lambda one: one.margin)
        box = around(item.sample, worst.network.sampled, number)
        points = [sampled_point(values) for values in draw(box, count)]
        found += measured([network(entries, name, item, quick, *one) for one in points])
    return found
