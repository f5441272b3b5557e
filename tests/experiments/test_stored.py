"""Laws of every suite: a study, the items of the judge, a paper."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anabranch.experiments.outcome import judge, study
from anabranch.papers.reproduce import reproduce
from conftest import Anabranch
from experiments.tiny import write, write_judge

SUITES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "study": (
        lambda **how: study("tiny", ["lia"], quick=True, **how),
        lambda **how: study("tiny", ["olia"], quick=True, **how),
    ),
    "judge": (
        lambda **how: judge("lia", ["victim"], **how),
        lambda **how: judge("balia", ["victim"], **how),
    ),
    "paper": (
        lambda **how: reproduce("tiny", **how),
        lambda **how: reproduce("tiny", quick=True, **how),
    ),
}
"""A run of each kind of suite, and another run."""


@pytest.fixture
def suites(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a suite of each kind that takes little time."""
    for name, make in (("studies", write), ("judge", write_judge)):
        (tiny / name).mkdir()
        make(tiny / name, monkeypatch)
    return tiny


@pytest.mark.parametrize("kind", SUITES)
def test_what_is_stored_does_not_run_again(
    suites: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    same, other = SUITES[kind]
    first = same(store=suites / "kept")

    def never(*_: object) -> bytes:
        raise AssertionError("it runs again")

    monkeypatch.setattr("anabranch.sweeps.execute.run_point", never)
    assert same(store=suites / "kept").as_dict() == first.as_dict()
    with pytest.raises(AssertionError, match="it runs again"):
        other(store=suites / "kept")


@pytest.mark.parametrize("command", [("judge", "lia"), ("study", "tiny"), ("reproduce", "tiny")])
def test_a_directory_with_files_is_refused_before_a_run(
    suites: Path, anabranch: Anabranch, command: tuple[str, str]
) -> None:
    out = suites / "out"
    place = out / "tiny" if command[0] == "study" else out
    place.mkdir(parents=True)
    (place / "mine").write_text("")
    run = anabranch(*command, "--out", out)
    assert run.returncode == 2
    assert "the directory is not empty" in run.stderr
    assert run.stdout == ""
