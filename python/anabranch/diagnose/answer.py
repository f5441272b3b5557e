"""The answer: the cause of what limits a connection, or what is needed to tell it."""

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from anabranch._core import ScenarioError
from anabranch.diagnose import expect
from anabranch.diagnose.case import Answer, Case, Command, Fact, Finding, HostName, Missing
from anabranch.diagnose.connection import Connection, Path, connection_of
from anabranch.diagnose.expect import Expected
from anabranch.diagnose.inputs import EXPECTED, Evidence
from anabranch.diagnose.quic import REMEDIES
from anabranch.diagnose.rows import QUIC_ROWS, ROWS, backup


@cache
def words() -> dict[str, dict[str, str]]:
    """Sentence and remedy of each cause, which the kernel's doctor has as well."""
    return tomllib.loads(files("anabranch.diagnose").joinpath("causes.toml").read_text())


@dataclass(frozen=True)
class Diagnosis:
    """The answer to what the files say."""

    evidence: Evidence
    connection: Connection
    cause: Finding
    also: tuple[Finding, ...]
    """Other rows that fire, in their order."""
    missing: tuple[Missing, ...]
    """Inputs without which a row could not be asked."""
    expected: Expected | None

    @property
    def is_enough(self) -> bool:
        """Whether a cause was found, or that there is none."""
        return self.cause.id != "not-enough"

    @property
    def sentence(self) -> str:
        """The cause in a sentence."""
        return _fill(words()[self.cause.id]["sentence"], self.cause)

    @property
    def remedy(self) -> tuple[Command, ...]:
        """Commands against it."""
        if self.connection.is_logged:
            # A queue that fills the window is mended by the window.
            held = self.cause.id == "bufferbloat" and self.cause.remedy[0].host == "peer"
            words_of = "receive-buffer" if held else self.cause.id
            if words_of in REMEDIES:
                host: HostName = "peer" if words_of == "receive-buffer" else "this host"
                return (Command(host, _fill(REMEDIES[words_of], self.cause)),)
        if self.cause.remedy:
            return self.cause.remedy
        return (Command("this host", _fill(words()[self.cause.id]["remedy"], self.cause)),)


def _fill(template: str, finding: Finding) -> str:
    for name, value in finding.values.items():
        template = template.replace(f"{{{name}}}", value)
    return template


def diagnose(evidence: Evidence, peer: str = "") -> Diagnosis:
    """The cause of what limits the connection that moved most, among those to `ADDRESS[:PORT]`.

    Raises `ScenarioError` where no file has a connection.
    """
    connection = connection_of(evidence, peer)
    if connection is None:
        where = f" to {peer}" if peer else ""
        raise ScenarioError(f"no TCP connection{where} in these files: {EXPECTED}")
    case = Case(evidence, connection)
    rows = QUIC_ROWS if connection.is_logged else ROWS
    answers = _asked(case, rows)
    while (meant := _meant_backup(case, answers)) is not None:
        used = tuple(path for path in case.connection.paths if path is not meant)
        case = Case(evidence, replace(connection, paths=used))
        answers = _asked(case, rows[rows.index(backup) :])
    fired = [answer for answer in answers if isinstance(answer, Finding)]
    missing = [answer for answer in answers if isinstance(answer, Missing)]
    # A row that cannot be asked hides those after it. Whether a bottleneck is shared does not: a
    # queue costs delay with or without that.
    first = next((a for a in answers if a not in missing or a.cause != "shared-bottleneck"), None)
    first = first or next(iter(answers), None)
    if isinstance(first, Finding):
        cause = first
    elif first is not None:
        cause = Finding("not-enough", tuple(Fact(m.cause, "not asked") for m in missing), "certain")
    elif case.starved or not case.paths:
        why = "a path is idle at times, and no row says why"
        if case.paths and case.paths[0].last.is_captured:
            why = "a capture does not show congestion windows and send buffers"
        missing.append(Missing("any", case.retake, why))
        cause = Finding("not-enough", _idle(case), "certain")
    elif case.samples < 2:
        missing.append(Missing("any", case.retake, "whether the paths stay full"))
        cause = Finding("not-enough", (Fact("samples", "1"),), "certain")
    else:
        facts = tuple(Fact(f"window of {p.name}", "full in a sample") for p in case.paths)
        cause = Finding("none", facts, "likely")
    also = tuple(one for one in fired if one is not cause)
    return Diagnosis(
        evidence, connection, cause, also, tuple(missing), expect.expected(case, cause, also)
    )


def _asked(case: Case, rows: Sequence[Callable[[Case], Answer]]) -> list[Finding | Missing]:
    answers: list[Finding | Missing] = []
    for row in rows:
        if (answer := row(case)) is not None:
            answers.append(answer)
            if isinstance(answer, Missing) and answer.cause == "any":
                break
    return answers


def _meant_backup(case: Case, answers: Sequence[Finding | Missing]) -> Path | None:
    """A backup whose use would leave less than there is without it."""
    first = next(iter(answers), None)
    if not isinstance(first, Finding) or first.id != "backup-flag" or len(case.paths) < 2:
        return None
    also = [one for one in answers[1:] if isinstance(one, Finding)]
    then, now = expect.expected(case, first, also), case.connection.goodput_mbps
    return first.path if then and not then.at_least and now and then.mbps < now else None


def _idle(case: Case) -> tuple[Fact, ...]:
    return tuple(
        Fact(f"busy share of {path.name}", f"{path.busy_share:.2f}")
        for path in case.starved
        if path.busy_share is not None
    )
