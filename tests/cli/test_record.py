"""`--record` replaces in a file what a command found, and nothing else."""

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from anabranch.record import check, update
from anabranch.scenario import ScenarioError

STUDIES = """study,measure,case,reno,lia
loss,goodput,a,1,2
loss,goodput,old,3,4
shared,share,b,5,6
"""


def updated(file: Path, before: str, new: str, names: int, whole: int, said: str = "") -> str:
    file.write_text(before)
    update(file, new, names, whole, said)
    assert [one.name for one in file.parent.iterdir()] == [file.name], "nothing is left beside it"
    return file.read_text()


def test_a_study_replaces_the_numbers_of_its_rules_alone(tmp_path: Path) -> None:
    """LIA's number in a case that the study has no more goes; a new case stands in its study."""
    new = "study,measure,case,lia,olia\nloss,goodput,a,7,8\nloss,goodput,c,9,10\n"
    found = updated(tmp_path / "x.csv", STUDIES, new, 3, 1)
    assert found.splitlines() == [
        "study,measure,case,reno,lia,olia",
        "loss,goodput,a,1,7,8",
        "loss,goodput,old,3,,",
        "loss,goodput,c,,9,10",
        "shared,share,b,5,6,",
    ]


def test_a_judgement_of_a_rule_keeps_why_others_fail(tmp_path: Path) -> None:
    before = "section,item,reno,lia,failures\n5,a,fails,fails,reno: x | lia: y\n6,b,holds,holds,\n"
    new = "section,item,lia,failures\n5,a,fails,lia: z\n"
    found = updated(tmp_path / "x.csv", before, new, 2, 2, "failures")
    assert found.splitlines()[1:] == ["5,a,fails,fails,reno: x | lia: z", "6,b,holds,holds,"]
    new = "section,item,olia,failures\n5,a,holds,\n"
    found = updated(tmp_path / "x.csv", before, new, 2, 2, "failures")
    assert found.splitlines()[:2] == [
        "section,item,reno,lia,olia,failures",
        "5,a,fails,fails,holds,reno: x | lia: y",
    ]


def test_a_paper_replaces_its_claims(tmp_path: Path) -> None:
    """Claim s of olia is gone, and t is new; `--all` (`anew`) keeps nothing."""
    before = "paper,claim,verdict\nbalia,r,holds\nolia,r,holds\nolia,s,fails\nrsf,r,holds\n"
    new = "paper,claim,verdict\nolia,r,fails\nolia,t,holds\n"
    found = updated(tmp_path / "x.csv", before, new, 2, 1)
    rows = ["balia,r,holds", "olia,r,fails", "olia,t,holds", "rsf,r,holds"]
    assert found.splitlines()[1:] == rows
    update(tmp_path / "x.csv", new, 2, 1, anew=True)
    assert (tmp_path / "x.csv").read_text() == new


@pytest.mark.parametrize("text", ["paper,claim,verdict\n", "\x00", "a b c\n"])
def test_a_file_that_is_no_record_of_the_command_is_refused_and_kept(
    tmp_path: Path, text: str
) -> None:
    file = tmp_path / "x.csv"
    file.write_text(text)
    with pytest.raises(ScenarioError, match="expected a record with the columns study, measure"):
        check(file, "study", "measure", "case")
    with pytest.raises(ScenarioError, match="name another file"):
        update(file, STUDIES, 3, 1)
    assert file.read_text() == text


def test_a_file_that_cannot_be_written_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the disk were full when half is written."""
    file = tmp_path / "x.csv"
    file.write_text(STUDIES)

    def full(path: Path, text: str, encoding: str) -> None:
        path.write_bytes(text[:20].encode())
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space"):
        update(file, STUDIES.replace("1", "9"), 3, 1)
    assert file.read_text() == STUDIES
    assert [one.name for one in tmp_path.iterdir()] == [file.name]


def test_prove_refuses_the_record_of_another_command_before_it_runs(
    tmp_path: Path, anabranch: Callable[..., CompletedProcess[str]]
) -> None:
    (tmp_path / "x.csv").write_text(STUDIES)
    run = anabranch("theory", "prove", "reno", "--record", tmp_path / "x.csv")
    assert run.returncode == 2
    assert run.stderr.startswith(f"anabranch: --record {tmp_path}/x.csv: expected a record with")
    assert (tmp_path / "x.csv").read_text() == STUDIES
