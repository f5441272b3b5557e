"""The last line of a comparison names a difference only where its paired interval excludes 0."""

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
        "Total goodput: all within 0.75 %; the same within 1 % for two and one; "
        "shortest queues: wvegas (4 packets; reno 80)."
    )


def test_a_difference_within_the_intervals_is_none(three: Result) -> None:
    # Three pairs, so that t of two seeds is that of 0.025 / 3, 38.19. Differences of 2 and 0 in
    # each user, 6 and 0 in total: mean 3, deviation 4.243, half 115. n seeds have
    # 4.243 t / sqrt(n) < 3: 15 have 2.717 x 1.095 = 2.98, 14 have 2.746 x 1.134 = 3.11. Both are
    # 15 for each user.
    goodput = {"reno": (3.0, 5.0), "lia": (3.0, 3.0), "wvegas": (3.0, 5.0)}
    queue = dict.fromkeys(RULES, (5.0, 5.0))
    assert in_words(made(three, goodput, queue)) == (
        "Total goodput: no difference is certain; 2 seeds do not tell which rule is best for total "
        "goodput, two and one; about 15 would."
    )


def test_the_most_goodput_is_named_where_the_intervals_are_apart(three: Result) -> None:
    goodput = {"reno": (4.0, 4.0), "lia": (3.99, 3.99), "wvegas": (2.0, 2.0)}
    queue = dict.fromkeys(RULES, (5.0, 5.0))
    # Three users of 4 Mbps, twice as much as wvegas.
    assert in_words(made(three, goodput, queue)) == (
        "Most total goodput: reno, lia (12 Mbps, 100 % more than wvegas); most for two: reno, lia "
        "(4 Mbps; wvegas 2); most for one: reno, lia (4 Mbps; wvegas 2)."
    )


def test_a_difference_in_each_seed_is_told_though_the_seeds_differ_more(three: Result) -> None:
    # Each user 1 and 1.1 Mbps more: mean 1.05, deviation 0.0707, half 38.19 x 0.05 = 1.91 with
    # three rules, and 12.71 x 0.05 = 0.635 with two.
    goodput = {"reno": (3.0, 9.0), "lia": (2.0, 7.9), "wvegas": (3.0, 9.0)}
    queue = dict.fromkeys(RULES, (5.0, 5.0))
    result = made(three, goodput, queue)
    assert in_words(result).startswith("Total goodput: no difference is certain")
    flows, links = (t[t["algorithm"] != "wvegas"] for t in (result.flows, result.links))
    two = replace(result, flows=flows, links=links)
    # 3 x 6 and 3 x 4.95 Mbps in the mean.
    assert in_words(two).startswith("Most total goodput: reno (18 Mbps, 21 % more than lia)")


def test_one_seed_and_no_chance_rank_nothing(small: Path) -> None:
    said = in_words(anabranch.run(small, ["reno", "lia"], seeds=1))
    assert said.startswith("No algorithm is ranked: one seed")
    fixed = {
        **{f"flows[{i}].start_spread_s": 0 for i in (0, 1)},
        **{f"links.R{i}.queue": {"drop_tail": {"packets": 20}} for i in (1, 2)},
    }
    said = in_words(anabranch.run(small, ["reno", "lia"], seeds=3, set=fixed))
    assert said.startswith("No algorithm is ranked: nothing in the scenario is random")


def test_what_is_computed_without_seeds_is_ranked_by_its_numbers(small: Path) -> None:
    said = in_words(anabranch.run(small, ["reno", "lia"], on="equilibrium"))
    assert "most for one: lia" in said


def test_one_algorithm_is_no_comparison(small: Path) -> None:
    assert in_words(anabranch.run(small, "lia", seeds=1)) == ""
