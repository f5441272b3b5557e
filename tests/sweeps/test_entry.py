"""The file of a point: what was written is read again, and what was changed is detected."""

import random
import zipfile
from pathlib import Path

import numpy as np
import pytest

from anabranch.sweeps.store import Damaged, about, decode, encode

TABLES = {
    "flows": {"flow": ["a", "b"], "goodput_mbps": np.array([0.1, np.nan])},
    "transfers": {"flow": [], "bytes": np.array([], np.int64)},
}


def test_what_was_written_is_read_again_and_the_same_content_gives_the_same_bytes() -> None:
    data = encode({"key": "k", "seed": 1}, TABLES)
    assert encode({"key": "k", "seed": 1}, TABLES) == data
    entry = decode(data, "k")
    assert entry.about == {"key": "k", "seed": 1}
    flows = entry.tables["flows"].to_pandas()
    assert flows["flow"].tolist() == ["a", "b"]
    assert flows["goodput_mbps"][0] == 0.1
    assert [str(kind) for kind in entry.tables["transfers"].schema.types] == ["string", "int64"]


def test_an_entry_of_another_point_is_refused() -> None:
    with pytest.raises(Damaged, match="another point"):
        about(encode({"key": "k"}, {}), "other")


def test_an_entry_that_was_cut_off_is_damaged_wherever() -> None:
    data = encode({"key": "k"}, TABLES)
    for length in range(0, len(data), 7):
        with pytest.raises(Damaged):
            about(data[:length], "k")


def test_a_bit_that_flips_is_detected_wherever() -> None:
    data, dice = encode({"key": "k"}, TABLES), random.Random(1)
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << dice.randrange(8)
        with pytest.raises(Damaged):
            about(bytes(changed), "k")


def test_an_entry_opens_as_an_archive(tmp_path: Path) -> None:
    (tmp_path / "entry.zip").write_bytes(encode({"key": "k"}, TABLES))
    with zipfile.ZipFile(tmp_path / "entry.zip") as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["about.json", "flows.arrow", "transfers.arrow"]
