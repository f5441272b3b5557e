"""Rules written in Python."""

import runpy
import sys
import traceback
from pathlib import Path

import pandas as pd
import pytest

import anabranch
from conftest import SMALL, interrupt

ROOT = Path(__file__).parents[2]


class Reno(anabranch.Rule):
    """The same as the built-in rule."""

    def increase(self, r, paths):
        return 1.0 / paths[r].window


class Lia(anabranch.Rule):
    """RFC 6356, as crates/model/control/src/rules/lia.rs has it."""

    def increase(self, r, paths):
        best = max(path.rate / path.rtt for path in paths)
        total = sum(path.rate for path in paths)
        return min(best / (total * total), 1.0 / paths[r].window)


@pytest.mark.parametrize(("rule", "name"), [(Reno(), "reno"), (Lia(), "lia")])
def test_a_rule_in_python_gives_the_bits_of_the_same_rule_in_rust(
    rule: anabranch.Rule, name: str, small: Path
) -> None:
    ours, theirs = (anabranch.run(small, algorithm, seeds=2) for algorithm in (rule, name))
    for table, frame in ours.tables().items():
        built_in = theirs.tables()[table].drop(columns=["algorithm", "rule"], errors="ignore")
        frame = frame.drop(columns=["algorithm", "rule"], errors="ignore")
        pd.testing.assert_frame_equal(frame, built_in, check_exact=True, obj=table)


def test_flows_with_an_algorithm_of_their_own_keep_it(small: Path) -> None:
    result = anabranch.run(small, Reno(), seeds=1)
    assert list(result.flows["rule"]) == ["Reno", "Reno", "reno"]
    assert result.algorithms == ["Reno"]


def test_a_rule_runs_beside_algorithms_of_the_table(small: Path) -> None:
    result = anabranch.run(small, ["lia", Lia(), "reno"], seeds=1)
    assert result.algorithms == ["lia", "Lia", "reno"]
    goodput = result.summary().pivot(index="flow", columns="algorithm", values="goodput_mbps")
    assert (goodput["lia"] == goodput["Lia"]).all()


def test_two_rules_of_one_class_need_names(small: Path) -> None:
    with pytest.raises(anabranch.ScenarioError, match="two algorithms are called Reno"):
        anabranch.run(small, [Reno(), Reno()])
    second = Reno()
    second.name = "again"
    assert anabranch.run(small, [Reno(), second], seeds=1).algorithms == ["Reno", "again"]


def test_a_rule_sees_packets_and_seconds(small: Path) -> None:
    seen = []

    class Recording(Reno):
        def increase(self, r, paths):
            seen.append((r, len(paths), paths[r]))
            return super().increase(r, paths)

    anabranch.run(small, Recording(), seeds=1)
    assert {(r, n) for r, n, _ in seen} == {(0, 2), (1, 2)}
    for _, _, path in seen:
        assert path.window >= 1
        assert 0.020 <= path.base_rtt <= path.rtt < 1.0  # 10 ms each way, and the queue
        assert path.rate == path.window / path.rtt
    assert max(path.between_losses for _, _, path in seen) > 0
    with pytest.raises(AttributeError):
        seen[0][2].window = 2.0


def test_an_error_in_a_rule_surfaces_with_its_own_line(small: Path) -> None:
    class Broken(Reno):
        def decrease(self, r, paths):
            return paths[r].window / self.width

    with pytest.raises(AttributeError, match="width") as error:
        anabranch.run(small, Broken())
    last = traceback.extract_tb(error.value.__traceback__)[-1]
    assert (last.filename, last.line) == (__file__, "return paths[r].window / self.width")


@pytest.mark.parametrize(
    ("answer", "exception", "message"),
    [
        (
            float("nan"),
            ValueError,
            r"returned nan for path \d: expected a finite number of",
        ),
        (float("inf"), ValueError, "returned inf for path"),
        ("much", TypeError, r"returned 'much' for path \d: expected a finite number of packets"),
        (None, TypeError, "returned None for path"),
        ([1.0], TypeError, r"returned \[1.0\] for path"),
    ],
)
def test_an_answer_that_is_not_a_finite_number_is_an_error(
    answer: object, exception: type[Exception], message: str, small: Path
) -> None:
    class Odd(Reno):
        def increase(self, r, paths):
            return answer

    with pytest.raises(exception, match=rf"^Odd\.increase {message}"):
        anabranch.run(small, Odd())


def test_a_class_in_the_place_of_a_rule_is_an_error_with_the_remedy(small: Path) -> None:
    with pytest.raises(anabranch.ScenarioError, match=r"got the class: write Reno\(\)"):
        anabranch.run(small, Reno)


def test_a_rule_is_enough_for_a_file_without_an_algorithm(small: Path) -> None:
    small.write_text(small.read_text().replace('algorithm = "lia"\n', ""))
    assert anabranch.run(small, Reno(), seeds=1).algorithms == ["Reno"]


def test_ctrl_c_stops_a_run_of_a_rule_in_python(long: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"""
import pathlib
import anabranch
class Reno(anabranch.Rule):
    def increase(self, r, paths):
        pathlib.Path({str(tmp_path / "running")!r}).touch()
        return 1.0 / paths[r].window
anabranch.run({str(long)!r}, Reno(), seeds=3)
"""
    )
    code, stdout, stderr = interrupt([sys.executable, script], (tmp_path / "running").exists)
    assert code != 0
    assert stdout == ""
    assert stderr.rstrip().endswith("KeyboardInterrupt")


def test_the_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "examples").mkdir()
    short = SMALL.replace("R1", "left").replace("R2", "right")
    (tmp_path / "examples" / "two_links.toml").write_text(short)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples" / "my_rule.py"), run_name="__main__")
    assert "Gentle" in capsys.readouterr().out
