"""The gain over the best single path, where the answer is known."""

from pathlib import Path

import pytest

import anabranch
from anabranch.comparison.gain import gains, over_single_paths
from conftest import Anabranch

ALONE = """\
seeds = [1]
algorithm = "reno"
measure = { duration_s = 20, warmup_s = 5 }
links.slow = { rate_mbps = 4, delay_ms = 10 }
links.fast = { rate_mbps = 12, delay_ms = 10 }
[[flows]]
name = "user"
paths = [["slow"], ["fast"]]
"""


def test_two_clean_paths_give_their_sum_over_the_faster_one(tmp_path: Path) -> None:
    file = tmp_path / "alone.toml"
    file.write_text(ALONE)
    result = anabranch.run(file)
    single = over_single_paths(result.scenario, None, "sim", None)
    (row,) = gains(result, single).to_dict(orient="records")
    assert row["best_path"] == "fast"
    # Both links are full: (4 + 12) / 12.
    assert row["gain"] == pytest.approx(16 / 12, rel=0.01)


def test_compare_prints_and_documents_the_gain(small: Path, anabranch: Anabranch) -> None:
    done = anabranch("compare", small, "-a", "lia,olia", "--gain", "-q")
    assert "two, over R1 alone" in done.stdout
    assert anabranch("compare", small, "-a", "lia,olia", "-q").stdout.count("alone") == 0
