"""The proofs of a paper's finite statements, by the name of its folder in `papers/`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anabranch.formats import csv_table
from anabranch.runner import Progress
from anabranch.scenario import ScenarioError
from anabranch.theory.guarantees.proofs.papers import balia, itcp, rsf, wvegas
from anabranch.theory.guarantees.proofs.papers.claim import Claim, Part, Proof, proof

PAPERS: Mapping[str, Callable[[], list[Claim]]] = {
    "balia": balia.claims,
    "wvegas": wvegas.claims,
    "itcp": itcp.claims,
    "rsf": rsf.claims,
}


@dataclass(frozen=True)
class Proofs:
    """What is proved of some papers' statements."""

    proofs: Sequence[Proof]

    def as_dict(self) -> dict[str, Any]:
        return {"statements": [one.as_dict() for one in self.proofs]}


def prove_papers(
    papers: Sequence[str], timeout_s: float, progress: Progress | None = None
) -> Proofs:
    """The statements of these papers. Raises `ScenarioError` for a paper without any."""
    for paper in papers:
        if paper not in PAPERS:
            raise ScenarioError(f"--paper {paper}: expected one of {', '.join(PAPERS)}")
    claims = [(paper, claim) for paper in papers for claim in PAPERS[paper]()]
    found = []
    for number, (paper, claim) in enumerate(claims):
        if progress:
            progress(number / len(claims))
        found.append(proof(paper, claim, timeout_s))
    return Proofs(found)


def record(found: Proofs) -> str:
    """A row per statement as CSV; negations and what is not proved, and what is left to readers."""
    rows = []
    for one in found.proofs:
        proved = sum(part.result == "proved" for part in one.parts)
        shown = [
            words(part)
            for part in one.parts
            if part.says.startswith("NOT ") or part.result != "proved" or part.example
        ]
        counts = str(len(one.parts)), str(proved)
        rows.append([one.paper, one.place, *counts, "; ".join(shown), one.left])
    heads = ("paper", "place", "formulas", "proved", "negations", "left to the reader")
    return csv_table(heads, rows)


def words(part: Part) -> str:
    """A formula's verdict in a line."""
    known = {name: result for name, result in part.by.items() if result != "unknown"}
    alone = f", by {next(iter(known))} alone" if len(known) == 1 else ""
    example = ", ".join(f"{name} = {number}" for name, number in part.example.items())
    return f"{part.result}{alone}: {part.says}" + (f" ({example})" if example else "")
