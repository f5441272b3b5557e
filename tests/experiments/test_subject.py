"""Item zero: rules in Python that are none."""

import re
from pathlib import Path

import pytest

from anabranch.experiments.subject import Subject, item_zero
from conftest import Anabranch

CODE = """import math
import anabranch

class Odd(anabranch.Rule):
    def increase(self, r, paths):
        {increase}
    def decrease(self, r, paths):
        {decrease}
    n = 0
"""


def rule(path: Path, increase: str, decrease: str = "return 1") -> Subject:
    file = path / "odd.py"
    file.write_text(CODE.format(increase=increase, decrease=decrease))
    return Subject.of(f"{file}:Odd")


def test_a_rule_of_the_kind_that_is_meant_is_sane(tmp_path: Path) -> None:
    assert item_zero(rule(tmp_path, "return 1 / paths[r].window")).result == "holds"
    assert item_zero(Subject.of("wvegas")).result == "holds"


# The memory is the state before: in the same order the answers are the same.
BEFORE = "before, self.n = self.n, paths[r].window; return 0.1 if before > self.n else 0.2"


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        (["self.n += 1; return 1 / self.n"], r"is .*, then .* for the same paths"),
        ([BEFORE], "is 0.[12], then 0.[12] for the same paths"),
        (["return -1e9"], r"is -1e\+09 packets per acknowledged packet"),
        (["return 11"], "is 11 packets per acknowledged packet"),
        (["return 0.01", "return -paths[r].window"], "is -.* packets: is that meant"),
    ],
)
def test_a_senseless_rule_is_told_with_a_state(
    answers: list[str], says: str, tmp_path: Path
) -> None:
    found = item_zero(rule(tmp_path, *answers))
    assert found.result == "fails"
    assert re.match(rf"\w+ {says}", found.says), found.says
    assert "window=" in found.state


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return float('nan')", "Odd.increase is nan for path 0 of .*expected a finite number"),
        ("return math.inf", "Odd.increase is inf"),
        ("return None", "Odd.increase is None"),
        ("return 1 / 0", r"odd.py: line 6: ZeroDivisionError: division by zero \(for path 0 of"),
        ("return paths[r].windw", "odd.py: line 6: a path has no windw: .*did you mean window"),
        ("return paths[r + 1].window", "odd.py: line 6: IndexError"),
    ],
)
def test_a_rule_that_cannot_run_is_an_error_with_its_place(
    body: str, message: str, tmp_path: Path, anabranch: Anabranch
) -> None:
    rule(tmp_path, body)
    run = anabranch("judge", f"{tmp_path / 'odd.py'}:Odd", "--quick")
    assert run.returncode == 2
    assert re.search(message, run.stderr), run.stderr
    assert run.stdout == ""
    assert len(run.stderr.splitlines()) == 1


def test_a_file_that_cannot_be_read_is_an_error_with_its_place(
    tmp_path: Path, anabranch: Anabranch
) -> None:
    file = tmp_path / "odd.py"
    assert "no such file" in anabranch("judge", f"{file}:Odd").stderr
    file.write_text("x = 1\n\nraise OSError('no disk')\n")
    assert f"{file}: line 3: OSError: no disk" in anabranch("judge", f"{file}:Odd").stderr
    rule(tmp_path, "return 0")
    run = anabranch("judge", f"{file}:Od")
    assert run.returncode == 2
    assert "no class Od with the methods increase and decrease" in run.stderr
    assert "did you mean Odd" in run.stderr


def test_what_a_file_prints_is_not_in_the_answer(tmp_path: Path, anabranch: Anabranch) -> None:
    subject = rule(tmp_path, "return 0")
    assert subject.file is not None
    subject.file.write_text(subject.file.read_text() + "print('hello')\n")
    run = anabranch("judge", f"{subject.file}:Odd", "--items", "7.6", "--json")
    assert run.stdout.startswith("{")
    assert "hello" in run.stderr
