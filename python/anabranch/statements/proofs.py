"""The proofs of a paper's finite statements, by the name of its folder in `papers/`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anabranch.runner import Progress
from anabranch.scenario import ScenarioError
from anabranch.statements.balia import proofs as balia
from anabranch.statements.claim import Claim, Part, Proof, proof
from anabranch.statements.itcp import proofs as itcp
from anabranch.statements.rsf import proofs as rsf
from anabranch.statements.wvegas import proofs as wvegas

PAPERS: Mapping[str, Callable[[], list[Claim]]] = {
    "balia": balia.claims,
    "wvegas": wvegas.claims,
    "itcp": itcp.claims,
    "rsf": rsf.claims,
}


@dataclass(frozen=True)
class PaperProofs:
    """PaperProofs of some papers' statements."""

    proofs: Sequence[Proof]

    def as_dict(self) -> dict[str, Any]:
        return {"statements": [one.as_dict() for one in self.proofs]}


def prove_papers(
    papers: Sequence[str], timeout_s: float, progress: Progress | None = None
) -> PaperProofs:
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
    return PaperProofs(found)


def markdown(found: PaperProofs) -> Iterator[str]:
    """A row for each statement; below it what its formulas leave to the reader."""
    yield "| paper, place | formulas | proved | s | left to the reader |"
    yield "|---|---|---|---|---|"
    for one in found.proofs:
        proved = sum(part.result == "proved" for part in one.parts)
        seconds = sum(part.seconds for part in one.parts)
        yield (
            f"| {one.paper}, {one.place} | {len(one.parts)} | {proved} | {seconds:.1f} | "
            f"{one.left.replace('|', '&#124;')} |"
        )
    yield ""
    for one in found.proofs:
        for part in one.parts:
            if part.says.startswith("NOT ") or part.result != "proved" or part.example:
                yield f"- {one.paper}, {one.place}: {words(part)}"


def words(part: Part) -> str:
    """A formula's verdict in a line."""
    known = {name: result for name, result in part.by.items() if result != "unknown"}
    alone = f", by {next(iter(known))} alone" if len(known) == 1 else ""
    example = ", ".join(f"{name} = {number}" for name, number in part.example.items())
    return f"{part.result}{alone}: {part.says}" + (f" ({example})" if example else "")
