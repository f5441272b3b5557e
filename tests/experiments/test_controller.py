"""The suite of controllers: it finds each fault of a controller, and says what it is about."""

import subprocess
from pathlib import Path

import pytest

from anabranch.experiments.folder import open_judge
from anabranch.experiments.outcome import judge
from anabranch.scenario import ScenarioError
from conftest import Anabranch

ROOT = Path(__file__).parents[2]
ITEMS = open_judge("controller").entries.items
FAULTS = {
    "slow_start": ("path->phase == SLOW_START ? 1 :", "path->phase == SLOW_START ? 2 :"),
    "windows_reno": ("1 / to->window", "2 / to->window"),
    "sawtooth_reno": ("to->window - to->window / 2", "to->window * 0.7"),
    "receive_window": ("if (event->window_limited) grow", "grow"),
    "app_limited": ("if (event->window_limited) grow", "grow"),
    "policer": ("to->window - to->window / 2", "to->window"),
    "idle": ("case ANABRANCH_IDLE:", "case ANABRANCH_IDLE: break;"),
    "persistent": ("case ANABRANCH_TIMEOUT:", "case ANABRANCH_TIMEOUT: break;"),
}
"""A fault of NewReno by the item that finds it: a piece of newreno.c, and what is there instead."""


def newreno(folder: Path, right: str = "", wrong: str = "") -> str:
    text = (ROOT / "examples/abi/newreno.c").read_text()
    assert right in text
    command = ["cc", "-O2", "-shared", "-fPIC", "-I", str(ROOT / "crates/model/abi/include")]
    command += ["-x", "c", "-", "-o", str(folder / "libmine.so"), "-lm"]
    subprocess.run(command, input=text.replace(right, wrong), text=True, check=True)
    return f"{folder / 'libmine.so'}:newreno"


QUICK = {"slow_start", "receive_window", "idle"}


@pytest.mark.parametrize(
    "item", [pytest.param(one, marks=() if one in QUICK else pytest.mark.slow) for one in FAULTS]
)
def test_an_item_finds_the_fault_that_it_asks_for(item: str, tmp_path: Path) -> None:
    how = {"suite": "controller", "quick": True, "jobs": 1}
    right = judge(newreno(tmp_path), [item], **how)[item]
    assert right.result == "holds", right.says
    (tmp_path / "wrong").mkdir()
    wrong = judge(newreno(tmp_path / "wrong", *FAULTS[item]), [item], **how)[item]
    assert wrong.result == "fails", wrong.says


def test_every_item_has_a_source_and_reasons_for_its_bounds() -> None:
    for name, item in ITEMS.items():
        assert item.section.startswith(("RFC ", "draft-")), name
        assert all(len(bound.why) > 20 for bound in item.bounds), name


def test_what_is_about_another_family_is_not_tested_and_says_so() -> None:
    asked = ["windows_cubic", "bbr_loss"]
    for given, tested in ((None, []), ("cubic", ["windows_cubic"])):
        rule = judge("reno", asked, suite="controller", family=given, quick=True, jobs=1)
        untested = rule.of("not tested")
        assert [one.name for one in untested] == [one for one in asked if one not in tested]
        assert untested[-1].says == "is about bbr (--family says what a controller implements)"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"suite": "controllers"}, "unknown suite 'controllers': expected"),
        ({"suite": "controller", "family": "vegas"}, "--family vegas: expected"),
        ({"suite": "controller", "on": "fluid"}, "not defined on fluid: controller"),
        ({"suite": "rfc9743", "on": "quic"}, "not defined on quic: judge"),
    ],
)
def test_an_unknown_suite_family_or_backend_is_refused(options: dict[str, str], says: str) -> None:
    with pytest.raises(ScenarioError, match=says):
        judge("reno", **options)


def test_a_counterexample_of_the_suite_runs_again_on_its_backend(
    tmp_path: Path, anabranch: Anabranch
) -> None:
    options = ("--suite", "controller", "--on", "quic", "--family", "bbr", "--items", "bbr_probe")
    done = anabranch("judge", "noq-newreno", *options, "--out", tmp_path / "out", "--quiet")
    assert done.returncode == 1, done.stderr
    file = tmp_path / "out" / "counterexamples" / "bbr_probe.toml"
    first = file.read_text().splitlines()[0]
    assert first.startswith("# anabranch judge --suite controller --on quic, item bbr_probe: ")
    again = anabranch("judge", "noq-newreno", "--again", file)
    assert again.returncode == 1, again.stderr
    assert "beyond" in again.stdout
