"""The table of media, which only some results have."""

from pathlib import Path

import jsonschema

import anabranch
from anabranch.result.schema import result_schema
from conftest import Anabranch

CALL = """
algorithm = "reno"
measure = { duration_s = 4, warmup_s = 1 }
links.line = { rate_mbps = 2, delay_ms = 20 }
[[flows]]
name = "call"
count = 2
paths = [["line"]]
start_spread_s = 0
workload.media = { rate_mbps = 0.4 }
"""


def test_a_result_with_media_is_stored_and_documented(tmp_path: Path, small: Path) -> None:
    """0.4 Mbps and 30 frames per s are 1667 bytes, two packets; a frame is at the very end."""
    result = anabranch.run(anabranch.Scenario.parse(CALL), seeds=2)
    assert result.media is not None
    assert list(result.media["flow"]) == ["call"] * 4
    # The last frame of the second user, behind the first's, is on its way at the end.
    assert list(result.media["frames"]) == [90, 89] * 2
    assert (result.media["packets"] == 2 * 91).all()
    assert (result.media["freezes"] == 0).all()
    summary = result.media_summary()
    assert list(summary["flow"]) == ["call"]
    document = result.as_dict()
    jsonschema.Draft202012Validator(result_schema()).validate(document)
    assert len(document["media"]) == 4
    result.save(tmp_path / "stored")
    read = anabranch.Result.load(tmp_path / "stored")
    assert read.media is not None
    assert read.media.equals(result.media)
    assert len(result.of_seeds([1]).media) == 2
    without = anabranch.run(small, seeds=1)
    assert without.media is None
    assert without.media_summary().empty
    assert "media" not in without.as_dict()


def test_delay_loss_and_freezes_are_printed(tmp_path: Path, anabranch: Anabranch) -> None:
    file = tmp_path / "call.toml"
    file.write_text(CALL)
    printed = anabranch("run", file).stdout
    assert "99% delay (ms)" in printed
    assert "freezes" in printed
