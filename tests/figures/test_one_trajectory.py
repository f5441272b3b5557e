"""A figure says where its numbers are those of one trajectory."""

from pathlib import Path

import anabranch
from anabranch.figures.panels import one_trajectory, over_seeds


def test_the_caption_says_why_there_is_no_interval(small: Path) -> None:
    assert over_seeds(anabranch.run(small, "lia", seeds=1)) == "one trajectory, one seed"
    several = anabranch.run(small, "lia", seeds=2)
    assert over_seeds(several) == "means and 95 % intervals over 2 seeds"
    assert one_trajectory(anabranch.run(small, "lia", on="equilibrium")) == (
        "computed, without seeds"
    )
    at_once = {f"flows[{i}].start_spread_s": 0 for i in (0, 1)}
    queues = {f"links.R{i}.queue": {"drop_tail": {"packets": 20}} for i in (1, 2)}
    fixed = anabranch.run(small, "lia", seeds=3, set=at_once | queues)
    assert over_seeds(fixed) == "one trajectory, the same with 3 seeds"


def test_each_number_of_one_trajectory_is_marked_in_json(small: Path) -> None:
    one, several = (anabranch.run(small, "lia", seeds=seeds).as_dict() for seeds in (1, 2))
    for document, expected in (one, True), (several, False):
        assert document["one_trajectory"] is expected
        for table in "flows", "links", "totals":
            assert {row["one_trajectory"] for row in document[table]} == {expected}
    computed = anabranch.run(small, "lia", on="equilibrium").as_dict()
    assert computed["one_trajectory"] is False
