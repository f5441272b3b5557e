"""Hints about features that are not modelled, with a way out."""

from pathlib import Path

import pytest

from conftest import Anabranch


@pytest.mark.parametrize(
    ("options", "way"),
    [
        (["-a", "htcp"], "--on kernel, as root"),
        (["-a", "copa"], "write it as a rule in Python"),
        (["--set", "links.R1.jitter=3"], "jitter_ms"),
        (["--set", "links.R1.reordering=0.1"], "docs/reference/traces.md"),
        (["--set", "links.R1.ack_loss=0.1"], "docs/reference/two-way.md"),
        (["--set", "links.R2.queue.red.ecn2.cake=1"], None),
        (["-a", "half.py"], "FILE.py:CLASS"),
        (["-a", "lai"], None),
    ],
)
def test_a_known_absence_names_its_way_out_in_one_line(
    options: list[str], way: str | None, small: Path, anabranch: Anabranch
) -> None:
    done = anabranch("run", small, *options)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert (way or "expected one of") in line
    assert ("not modelled" in line or "; " in line) == (way is not None)
