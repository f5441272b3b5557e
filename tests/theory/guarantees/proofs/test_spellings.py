"""A verdict is about the function that a rule computes, whatever the spelling of its comparisons.

Each rule has one formula where a condition holds and another elsewhere; each condition is spelled
in four ways that are equal for all numbers.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from anabranch.scenario import ScenarioError
from anabranch.theory.guarantees.proofs.verdicts import PROVED, REFUTED, prove

WINDOWS = "[p.window for p in paths]"
CONDITIONS: Mapping[str, Sequence[str]] = {
    "largest": (
        f"all(w >= other for other in {WINDOWS})",
        f"w == max({WINDOWS})",
        f"not any(other > w for other in {WINDOWS})",
        f"not max({WINDOWS}) != w",
    ),
    "smallest": (
        f"all(w <= other for other in {WINDOWS})",
        f"w == min({WINDOWS})",
        f"not any(w - other > 0 for other in {WINDOWS})",
        f"min({WINDOWS}) - w == 0",
    ),
    "diagonal": (
        "paths[0].window == paths[-1].window",
        "not paths[0].window - paths[-1].window != 0",
        "paths[0].window >= paths[-1].window and paths[0].window <= paths[-1].window",
        f"max({WINDOWS}) == min({WINDOWS})",
    ),
    "threshold": ("w >= 10", "not w < 10", "max(w, 10) == w", "w > 10 or w == 10"),
    "point": ("w == 10", "not w != 10", "w >= 10 and not w > 10", "min(w, 10) == max(w, 10)"),
}
BODIES: Mapping[str, tuple[str, str]] = {
    "same": ("lia", "lia"),
    "twice": ("2 / w", "1 / w"),
    "nothing": ("0", "1 / w"),
    "half of LIA": ("lia / 2", "lia"),
    "negative": ("-1 / w", "1 / w"),
    "divided": ("1 / w", "lia"),
}
TEXT = """
class Spelled:
    def increase(self, r, paths):
        w = paths[r].window
        total = sum(p.rate for p in paths)
        lia = min(max(p.window / (p.rtt * p.rtt) for p in paths) / (total * total), 1 / w)
        return {then} if {condition} else {other}

    def decrease(self, r, paths):
        return paths[r].window / 2
"""


def verdicts(
    folder: Path,
    condition: str,
    body: tuple[str, str],
    only: Sequence[str],
    paths: int = 2,
) -> dict[str, str]:
    file = folder / "spelled.py"
    file.write_text(TEXT.format(then=body[0], other=body[1], condition=condition))
    found = prove(f"{file}:Spelled", [paths], [True], only, timeout_s=2)
    return {one.requirement: one.result for one in found.verdicts}


def agree(folder: Path, condition: str, body: str, only: Sequence[str], paths: int) -> None:
    found = [verdicts(folder, one, BODIES[body], only, paths) for one in CONDITIONS[condition]]
    assert found == [found[0]] * 4
    if body == "same":
        # LIA at equal RTTs (test_verdicts.py).
        assert found[0] == dict.fromkeys(only, PROVED)
    else:
        # phi has two values next to a state, which have no derivative.
        assert found[0] == dict.fromkeys(only, REFUTED)


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("body", BODIES)
def test_four_spellings_have_one_verdict(tmp_path: Path, condition: str, body: str) -> None:
    agree(tmp_path, condition, body, ["C2"], 2)


@pytest.mark.slow
@pytest.mark.parametrize("paths", [2, 3])
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("body", BODIES)
def test_four_spellings_have_the_same_verdicts(
    tmp_path: Path, condition: str, body: str, paths: int
) -> None:
    agree(tmp_path, condition, body, ["C1", "C2", "C4"], paths)
    rest = ["A", "C3", "C5", "1/w", "best", "harm"]
    found = [verdicts(tmp_path, one, BODIES[body], rest, paths) for one in CONDITIONS[condition]]
    assert found == [found[0]] * 4


@pytest.mark.parametrize("condition", ["diagonal", "point"])
def test_another_value_on_a_line_only_is_a_jump(tmp_path: Path, condition: str) -> None:
    spelled = CONDITIONS[condition][0]
    # 2/w is positive and finite, so A holds, and no derivative exists on the line.
    found = verdicts(tmp_path, spelled, BODIES["twice"], ["A", "C0", "C1", "C2", "C4", "1/w"])
    assert found == dict.fromkeys(found, REFUTED) | {"A": PROVED}
    found = verdicts(tmp_path, spelled, BODIES["negative"], ["A", "1/w"])
    assert found == {"A": REFUTED, "1/w": PROVED}


def test_a_rule_may_change_at_an_rtt(tmp_path: Path) -> None:
    # Phi is a function of the rates, with the RTTs held: for each of these it is NewReno's.
    found = verdicts(tmp_path, "paths[r].rtt > 0.2", ("2 / w", "1 / w"), ["C0", "C1", "C2", "C4"])
    assert found == dict.fromkeys(found, PROVED)


def test_rates_are_judged_at_equal_rtts_too(tmp_path: Path) -> None:
    file = tmp_path / "spelled.py"
    for condition in ("paths[0].rtt == paths[1].rtt", "not paths[0].rtt != paths[1].rtt"):
        # There phi = 2 is constant, so that no eigenvalue is negative.
        file.write_text(TEXT.format(then="w", other="1 / w", condition=condition))
        (found,) = prove(f"{file}:Spelled", [2], [False], ["C2"], timeout_s=2).verdicts
        assert found.result == REFUTED
        assert found.state is not None
        assert found.state.rtt[0] == found.state.rtt[1]


@pytest.mark.parametrize(
    ("then", "other", "condition"),
    [
        ("0", "1 / w", "paths[r].rate < 1"),
        ("0", "1 / w", "w == 10"),
        ("0", "0", "w > 1"),
        ("1 / (w - w)", "1 / w", "w < 10"),
        ("((w - 10) / (w - 10)) / w", "1 / w", "w > 1"),
        ("(w - 10) ** 0.5", "1 / w", "w > 1"),
    ],
)
def test_an_increase_without_a_positive_value_somewhere_is_refuted_there(
    tmp_path: Path, then: str, other: str, condition: str
) -> None:
    found = verdicts(tmp_path, condition, (then, other), ["A", "C2", "C3", "C5", "harm"])
    assert found["A"] == REFUTED
    assert found["C2"] != PROVED


def test_without_a_decrease_phi_does_not_exist(tmp_path: Path) -> None:
    file = tmp_path / "spelled.py"
    text = TEXT.format(then="1 / w", other="1 / w", condition="w > 1")
    for decrease in ("0", "0 if paths[r].window == 10 else 1"):
        file.write_text(text.replace("paths[r].window / 2", decrease))
        found = prove(f"{file}:Spelled", [2], [True], ["A", "C2", "1/w"], timeout_s=2)
        assert [one.result for one in found.verdicts] == [REFUTED, "unknown", PROVED]


def test_two_cases_have_square_roots_of_their_own(tmp_path: Path) -> None:
    # At w = 10 the roots are of 10 and 40: phi jumps.
    found = verdicts(tmp_path, "w >= 10", ("w ** -0.5", "(4 * w) ** -0.5"), ["C2"])
    assert found == {"C2": REFUTED}


def test_a_rule_that_is_no_formula_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(
        ScenarioError,
        match=r"spelled.py: Spelled is no formula: line 7: .*this number is a formula",
    ):
        verdicts(tmp_path, "float(w) > 1", ("1 / w", "1 / w"), ["C2"])
