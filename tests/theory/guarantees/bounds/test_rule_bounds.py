"""Bounds of the rules that the kernel runs, and of rules that are wrong."""

import json
import random
import re
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest

from anabranch import _core
from anabranch.theory.guarantees.bounds.rule_bounds import RuleBounds, bounds
from anabranch.theory.guarantees.bounds.states import (
    DELAY_BASED,
    LOSS_BASED,
    MOST_PATHS,
    SHORTEST_RTT_S,
    Memory,
    State,
)
from anabranch.theory.guarantees.bounds.survey import every_rule

BPF = Path(__file__).parents[4] / "crates" / "kernel" / "kernel" / "bpf"
IN_LINUX = {"vegas_k": "vegas"}
RULES = sorted(
    IN_LINUX.get(file.stem, file.stem.replace("_", "-")) for file in (BPF / "rules").glob("*.h")
)
SLOW = {"coupled-cubic"}
"""Rules with hundreds of cases over two paths, here of a cube root."""

ROUNDING = 1e-8

WRONG = """
class Difference:
    def increase(self, r, paths):
        return 1 / (paths[0].window - paths[1].window)

    def decrease(self, r, paths):
        return paths[r].window / 2


class Powers(Difference):
    def increase(self, r, paths):
        window = paths[r].window
        for _ in range(5):
            window = window * window
        return 1 / window


class Doubled(Difference):
    def increase(self, r, paths):
        return 2 / paths[r].window


class Negative(Doubled):
    def decrease(self, r, paths):
        return paths[r].window / 2 - paths[0].window


class Everything(Doubled):
    def decrease(self, r, paths):
        return 2 * paths[r].window
"""


def test_every_rule_of_the_kernel_has_bounds():
    assert len(RULES) == 11
    assert set(RULES) < set(every_rule())


@pytest.mark.parametrize("rule", RULES)
def test_no_rule_divides_by_0_or_leaves_the_format(rule: str):
    for paths in [1] if rule in SLOW else [1, 2, 3]:
        _proved(rule, paths)


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_more_paths_are_as_good(rule: str):
    for paths in [2, 4, 8]:
        _proved(rule, paths)


@cache
def _bounds(rule: str, paths: int) -> RuleBounds:
    return bounds(rule, paths, timeout_s=600)


def _proved(rule: str, paths: int) -> None:
    found = _bounds(rule, paths)
    assert found.failure == ""
    assert found.proved
    # The rules whose increase does not depend on the time since a loss grow by at most 1/w, OLIA by
    # alpha / w besides, at most 1/n of it; CUBIC by half of its window in a round trip.
    most = {"olia": 1 + (paths > 1) / paths, "coupled-cubic": 0.5}.get(rule, 1)
    of = found.change_of_window if found.by_window or found.per_round else found.change
    assert of[1] <= most + ROUNDING
    # Balia takes up to 3/4 of the window, CUBIC 3/10.
    lost = {"balia": 0.75 if paths > 1 else 0.5, "coupled-cubic": 0.3}.get(rule, 0.5)
    assert found.decrease_of_window[1] == pytest.approx(lost, abs=ROUNDING)


@pytest.mark.parametrize("rule", sorted(set(RULES) - {"vegas", "wvegas"}))
def test_the_bounds_hold_the_values_of_the_rule(rule: str):
    paths = 1 if rule in SLOW else 2
    found, law, draw = _bounds(rule, paths), _core.Law(rule), random.Random(1)
    for _ in range(100):
        states = [_drawn(draw, LOSS_BASED) for _ in range(paths)]
        ((increase, decrease),) = law.evaluate_in(states, 1)
        window = states[0].window
        assert found.change[0] <= float(increase) <= found.change[1]
        assert found.decrease_of_window[0] <= decrease / window <= found.decrease_of_window[1]
        if found.by_window:
            assert found.change_of_window[0] <= increase * window <= found.change_of_window[1]


@pytest.mark.parametrize("rule", ["vegas", "wvegas"])
def test_the_bounds_hold_the_changes_of_a_delay_based_rule(rule: str):
    found, law, draw = _bounds(rule, 2), _core.Law(rule), random.Random(1)
    for _ in range(100):
        states = [_drawn(draw, DELAY_BASED) for _ in range(2)]
        memory = [Memory(draw.choice([0, 2, 10]), draw.choice([0, 1e3]), 0.0) for _ in range(2)]
        change, _ = law.end_round_in(states, memory)
        assert found.change[0] <= change <= found.change[1]
        assert found.change_of_window[0] <= change / states[0].window <= found.change_of_window[1]


def test_a_round_trip_of_wvegas_in_fractions():
    """20 packets with 1/5 of the RTT in queues: 4 queued; alpha is the share 10 * 1/4 = 5/2 of the
    total, less than 4, so the window falls by 1."""
    fields = dict.fromkeys(LOSS_BASED, Fraction(0))
    fields |= {"window": Fraction(20), "base_rtt": Fraction(2, 25), "round_rtt": Fraction(1, 10)}
    memory = [
        Memory(Fraction(2), Fraction(0), Fraction(0)),
        Memory(Fraction(2), Fraction(600), Fraction(0)),
    ]
    change, after = _core.Law("wvegas").end_round_in([State(**fields)] * 2, memory)
    assert (change, after) == (-1, [Fraction(5, 2), 200, Fraction(1, 50)])


def test_the_first_paths_alone_are_evaluated():
    draw = random.Random(1)
    states = [_drawn(draw, LOSS_BASED) for _ in range(3)]
    law = _core.Law("balia")
    assert law.evaluate_in(states, 2) == law.evaluate_in(states)[:2]
    with pytest.raises(ValueError, match="a memory for each path"):
        law.end_round_in(states, [])


def _drawn(draw: random.Random, fields: dict) -> State:
    return State(
        **{name: max(low, high * 2 ** draw.uniform(-40, 0)) for name, (low, high) in fields.items()}
    )


@pytest.mark.parametrize(
    ("rule", "failure"),
    [
        ("Difference", r"the divisor sum\(1 window_1, -1 window_2\) may be 0"),
        ("Powers", r"window_1\^32 may be above 2\^1000"),
    ],
)
def test_a_wrong_rule_in_python_is_found(tmp_path: Path, rule: str, failure: str):
    (tmp_path / "wrong.py").write_text(WRONG)
    found = bounds(f"{tmp_path / 'wrong.py'}:{rule}", 2)
    assert re.fullmatch(failure, found.failure)
    assert not found.proved


def test_a_rule_beyond_its_limits_is_found(tmp_path: Path):
    (tmp_path / "wrong.py").write_text(WRONG)
    found = {
        name: bounds(f"{tmp_path / 'wrong.py'}:{name}", 2)
        for name in ("Doubled", "Negative", "Everything")
    }
    assert found["Doubled"].proved
    assert found["Doubled"].change_of_window[1] == pytest.approx(2, abs=ROUNDING)
    # w/2 - w: the window would grow at a loss.
    assert not found["Negative"].proved
    assert found["Negative"].decrease_of_window[0] == pytest.approx(-0.5, abs=ROUNDING)
    assert not found["Everything"].proved


def test_the_ranges_are_those_of_the_programs():
    header = (BPF / "path.h").read_text()
    assert f"#define MAX_PATHS {MOST_PATHS}\n" in header
    struct = header.partition("struct path {")[2].partition("};")[0]
    read = set(re.findall(r"soft (\w+);", struct)) - {"equilibrium_rate"}
    assert read <= set(LOSS_BASED)
    build = (BPF.parent / "build.rs").read_text()
    assert "let shortest_rtt = (Soft::of(1) / Soft::of(200)).to_bits();" in build
    assert pytest.approx(1 / 200) == SHORTEST_RTT_S


def test_the_command_prints_a_row_and_what_is_not_shown(tmp_path: Path, anabranch):
    (tmp_path / "wrong.py").write_text(WRONG)
    file = tmp_path / "bounds.csv"
    done = anabranch("theory", "bounds", "lia", "--paths", "1,2", "--record", str(file))
    assert "0 to 1" in done.stdout
    assert file.read_text().splitlines()[1].startswith('lia,packet,"1, 2",0 to 1,0 to 1,0.5 to 0.5')
    wrong = f"{tmp_path / 'wrong.py'}"
    done = anabranch("theory", "bounds", f"{wrong}:Difference", "--paths", "2,3", "--json")
    assert [one["proved"] for one in json.loads(done.stdout)["rules"]] == [False, False]
    done = anabranch("theory", "bounds", f"{wrong}:Difference", "--paths", "1")
    assert "wrong.py: line 4: IndexError" in done.stderr
    done = anabranch("theory", "bounds", f"{wrong}:Everything", "--paths", "2")
    assert "not shown: Everything, 2 paths: a loss takes 2 to 2 of the window" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lia", "--paths", "9"], "--paths 9: expected numbers from 1 to 8"),
        ([], "expected a RULE, such as lia, or --all"),
        (["bbr"], "bbr acts on delivery rates, which no kernel program has"),
        (["lia", "--record", "absent/x.csv"], "expected a file to write in a folder that exists"),
    ],
)
def test_a_wrong_option_is_refused_in_one_line(arguments: list[str], message: str, anabranch):
    done = anabranch("theory", "bounds", *arguments)
    assert done.returncode != 0
    assert message in done.stderr
