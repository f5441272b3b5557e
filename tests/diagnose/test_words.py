"""`anabranch diagnose` and `anabranch-kernel doctor` have the same causes and words."""

import re
from pathlib import Path

import pytest

from anabranch.diagnose import diagnose, gather
from anabranch.diagnose.answer import words
from diagnose.conftest import NAMES

ROOT = Path(__file__).parents[2]
ROWS = (ROOT / "python/anabranch/diagnose/rows.py").read_text()
DOCTOR = "".join(
    file.read_text()
    for pattern in ("doctor.rs", "doctor/*.rs", "stalls.rs", "pins.rs")
    for file in sorted((ROOT / "crates/kernel/kernel/src").glob(pattern))
)
NAMED = {*re.findall(r'Finding\(\s*"([a-z-]+)"', ROWS), "none", "not-enough"}
CHECKED = {name for name in words() if re.search(rf'"{name}"', DOCTOR)}


def test_every_cause_of_both_has_words_and_no_words_are_left_over() -> None:
    assert {name for name, said in words().items() if said.get("sentence")} >= NAMED
    assert {name for name, said in words().items() if said.get("check")} <= CHECKED
    assert set(words()) == NAMED | CHECKED


def test_what_both_find_has_a_check_and_a_sentence() -> None:
    both = NAMED & CHECKED
    # Rows 1 to 6, 10 and 14 of the design, as far as a host without a transfer shows them.
    assert both == {"limits-forbid", "no-endpoint", "endpoint-without-device", "wrong-route",
                    "send-buffer", "receive-buffer", "slow-path-blocks", "held-back"}  # fmt: skip
    for name in both - {"slow-path-blocks", "held-back"}:  # of `status`, which watches transfers
        assert words()[name]["check"], name
        assert words()[name]["sentence"], name


@pytest.mark.parametrize("name", NAMES)
def test_the_remedy_begins_with_the_command_of_the_words(situations: Path, name: str) -> None:
    found = diagnose(gather([situations / name]))
    template = words()[found.cause.id]["remedy"]
    command = re.split(r"[{=]|[A-Z]{4}", template)[0]
    if template.startswith(("ip ", "tc ", "sysctl ")) and found.cause.id != "bufferbloat":
        assert (
            found.remedy[0]
            .command.replace("sysctl -w", "sysctl")
            .startswith(command.replace("sysctl -w", "sysctl"))
        )
