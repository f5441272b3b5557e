"""The last line of a comparison names a difference only where the intervals do not overlap."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import anabranch
from anabranch.comparison.verdict import in_words
from anabranch.result import Result

RULES = ["reno", "lia", "wvegas"]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Result:
    from conftest import SMALL

    file = tmp_path_factory.mktemp("three") / "small.toml"
    file.write_text(SMALL)
    return anabranch.run(file, RULES, seeds=2)


def made(
    result: Result, goodput: dict[str, tuple[float, float]], queue: dict[str, tuple[float, float]]
) -> Result:
    """The result with these goodputs per user and queues per link, for the seeds 1 and 2."""

    def values(table: pd.DataFrame, by: dict[str, tuple[float, float]]) -> list[float]:
        return [by[a][s - 1] for a, s in zip(table["algorithm"], table["seed"], strict=True)]

    return replace(
        result,
        flows=result.flows.assign(goodput_mbps=values(result.flows, goodput)),
        links=result.links.assign(queue_packets=values(result.links, queue)),
    )


def test_equal_goodputs_are_told_with_their_spread_and_the_shortest_queue(three: Result) -> None:
    goodput = {"reno": (4.0, 4.0), "lia": (3.98, 3.98), "wvegas": (3.97, 3.97)}
    queue = {"reno": (40.0, 40.0), "lia": (30.0, 30.0), "wvegas": (2.0, 2.0)}
    # 3.97 is 0.75 % below 4; each queue is that of two links together.
    assert in_words(made(three, goodput, queue)) == (
        "Total goodput: all within 0.75 %; shortest queues: wvegas (4 packets; reno 80)."
    )


def test_a_difference_within_the_intervals_is_none(three: Result) -> None:
    # Student's t of two seeds is 12.7: means of 3 and 4 with halves of 12.7 overlap.
    goodput = {"reno": (3.0, 5.0), "lia": (2.0, 4.0), "wvegas": (3.0, 5.0)}
    queue = dict.fromkeys(RULES, (5.0, 5.0))
    assert in_words(made(three, goodput, queue)) == "Total goodput: all within 25 %."


def test_the_most_goodput_is_named_where_the_intervals_are_apart(three: Result) -> None:
    goodput = {"reno": (4.0, 4.0), "lia": (3.99, 3.99), "wvegas": (2.0, 2.0)}
    queue = dict.fromkeys(RULES, (5.0, 5.0))
    # Three users of 4 Mbps, twice as much as wvegas.
    assert in_words(made(three, goodput, queue)) == (
        "Most total goodput: reno, lia (12 Mbps, 100 % more than wvegas)."
    )


def test_one_algorithm_is_no_comparison(small: Path) -> None:
    assert in_words(anabranch.run(small, "lia", seeds=1)) == ""
