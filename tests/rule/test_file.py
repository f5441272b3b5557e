"""Rules in files: FILE.py:CLASS in every command that takes algorithms, tried before they run."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import anabranch
from anabranch.rule import problems, rule_of
from anabranch.runner.asked import algorithms_of
from anabranch.sweeps.point import point
from anabranch.sweeps.store import decode
from conftest import Anabranch

RULES = """\
import anabranch


class Same(anabranch.Rule):
    def increase(self, r, paths):
        return 1.0 / paths[r].window


class Wild(Same):
    def increase(self, r, paths):
        return -1e9


class Grows(Same):
    def decrease(self, r, paths):
        return -10.0


class Counting(Same):
    asked = 0

    def increase(self, r, paths):
        Counting.asked += 1
        return Counting.asked * 1e-6


class Nan(Same):
    def increase(self, r, paths):
        return float("nan")


class Typo(Same):
    def increase(self, r, paths):
        return 1.0 / paths[r].windw


class Rare(Same):
    def increase(self, r, paths):
        return 0.01 / int(paths[r].since_loss > 200)  # 400 where it is tried
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    file = tmp_path / "written_rules.py"
    file.write_text(RULES)
    return file


def test_a_rule_of_a_file_runs_beside_those_of_the_table(
    rules: Path, small: Path, anabranch: Anabranch
) -> None:
    both = anabranch("compare", small, "-a", f"reno,{rules}:Same", "-q")
    assert both.returncode == 0, both.stderr
    goodput = next(line for line in both.stdout.splitlines() if line.startswith("2× two"))
    reno, same = goodput.removeprefix("2× two, Mbps each").strip().split("   ")
    assert reno.strip() == same.strip()
    swept = anabranch(
        "sweep", small, "-a", f"{rules}:Same", "--over", "links.R1.rate_mbps=5,9", "-q"
    )
    assert swept.stdout.count("Same") == 2


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "Wild",
            "Wild.increase is -1e+09 packets per acknowledged packet: is that meant? (path 0 of",
        ),
        ("Grows", "Grows.decrease is -10 packets: is that meant? (path 0 of [window=20,"),
        ("Counting", "for the same paths: a rule must be pure"),
    ],
)
def test_a_senseless_or_impure_rule_is_told_in_one_line(
    name: str, told: str, rules: Path, small: Path, anabranch: Anabranch
) -> None:
    done = anabranch("run", small, "-a", f"{rules}:{name}", "--seeds", 1)
    (line,) = done.stderr.splitlines()
    assert line.startswith("anabranch: warning: ")
    assert told in line


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "Nan",
            "Nan.increase is nan for path 0 of [window=20, rtt=0.05]: expected a finite number",
        ),
        ("Typo", "line 34: a path has no windw: expected one of"),
        ("Rare", "line 39: ZeroDivisionError: float division by zero"),
        ("Other", "no class Other with the methods increase and decrease"),
    ],
)
def test_a_rule_that_fails_is_one_line_with_its_place(
    name: str, told: str, rules: Path, small: Path, anabranch: Anabranch
) -> None:
    done = anabranch("run", small, "-a", f"{rules}:{name}", "--seeds", 1)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert str(rules) in line
    assert told in line


def test_no_rule_of_the_table_written_in_python_has_a_problem() -> None:
    for rule in anabranch.rules():
        if rule["delay_based"] or not rule["fluid"]:
            continue
        law = anabranch._core.Law(rule["name"])

        class Written:
            def increase(self, r, paths, law=law):
                return float(law.evaluate_in(paths)[r][0])

            def decrease(self, r, paths, law=law):
                return float(law.evaluate_in(paths)[r][1])

        assert list(problems(Written())) == [], rule["name"]


def test_a_rule_goes_to_a_process_that_has_not_its_file(rules: Path, small: Path) -> None:
    pytest.importorskip("cloudpickle")
    scenario = anabranch.load(small)
    made = [rule_of(f"{rules}:Same")]
    (name,) = algorithms_of(scenario, made, ())
    one = point(scenario, {}, name, made[0], 1, "sim", False, {})
    code = (
        "import pickle, sys; from anabranch.sweeps.point import run_point\n"
        "sys.stdout.buffer.write(run_point(pickle.load(sys.stdin.buffer)))"
    )
    rules.unlink()
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(one), cwd="/", capture_output=True
    )
    entry = decode(done.stdout, one.key)
    assert entry.failure is None, done.stderr
    expected = anabranch.run(small, "reno", seeds=1).flows["goodput_mbps"]
    assert entry.tables["flows"]["goodput_mbps"].to_pylist() == expected.tolist()


def test_a_stored_sweep_runs_a_rule_again_when_its_file_has_changed(
    rules: Path, small: Path, tmp_path: Path, anabranch: Anabranch
) -> None:
    store = tmp_path / "store"
    command = ["sweep", small, "-a", f"{rules}:Same", "--over", "links.R1.rate_mbps=5", "-q"]
    command += ["--seeds", 1, "--out", store]
    first = anabranch(*command).stdout
    assert anabranch(*command).stdout == first
    assert len(list(store.glob("points/*/*.zip"))) == 1
    rules.write_text(RULES.replace("1.0 / paths[r].window", "0.1 / paths[r].window"))
    assert anabranch(*command).stdout != first
    assert len(list(store.glob("points/*/*.zip"))) == 2


def test_theory_says_what_takes_a_rule_in_python(rules: Path, anabranch: Anabranch) -> None:
    done = anabranch("theory", "check", f"{rules}:Same")
    assert f"anabranch theory prove {rules}:Same" in done.stderr
